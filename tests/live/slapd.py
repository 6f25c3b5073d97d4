#!/usr/bin/env python3
"""Installs Debian's package of OpenLDAP, and starts instances of its server for the live tests.

    slapd.py fetch           install the package; print the program
    slapd.py start           run one instance until it is killed (see launcher.py)
    slapd.py stop FOLDER     stop every instance whose home is in FOLDER, and remove the homes

It has a password policy that locks an account after three wrong passwords, and the overlay memberof. Tests administer
it by LDAP, as `admin_dn`.
"""

import os

from directory import Directory
from directory_population import BASE, SERVICE, SERVICE_PASSWORD, entries
from launcher import main
from machine import build, debian, free_ports

ADMIN = f"cn=admin,{BASE}"
ADMIN_PASSWORD = "for-tests-only-admin"

# Access to the entry of the policy is not needed: the server applies it by itself.
CONFIGURATION = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload memberof
moduleload refint
moduleload ppolicy
moduleload argon2
pidfile {home}/slapd.pid
TLSCertificateFile {home}/server.pem
TLSCertificateKeyFile {home}/server.key
TLSCACertificateFile {home}/ca.pem
sizelimit size.soft=500 size.hard=500 size.pr=500 size.prtotal=unlimited
database mdb
suffix "{base}"
rootdn "{admin}"
rootpw "{admin_password}"
directory {home}/data
dbnosync
index objectClass,mail,uid,member,entryUUID eq
limits dn.exact="cn=limited,ou=services,{base}" size=2 size.prtotal=hard
overlay memberof
memberof-group-oc groupOfNames
overlay refint
refint_attributes member memberOf
overlay ppolicy
ppolicy_default "cn=default,ou=policies,{base}"
ppolicy_use_lockout
access to attrs=userPassword by anonymous auth by * none
access to dn.subtree="ou=hidden,{base}" by * none
access to * by dn.onelevel="ou=services,{base}" read by * none
"""

# The default policy, as an entry.
POLICY = f"""
dn: cn=default,ou=policies,{BASE}
objectClass: person
objectClass: pwdPolicy
cn: default
sn: default
pwdAttribute: userPassword
pwdLockout: TRUE
pwdMaxFailure: 3
pwdLockoutDuration: 60
pwdMustChange: TRUE
"""


class Slapd(Directory):
    name = "slapd"
    base = BASE
    admin = ADMIN
    admin_password = ADMIN_PASSWORD
    service = SERVICE
    service_password = SERVICE_PASSWORD

    def __init__(self):
        self.program = None

    def add_options(self, start):
        start.add_argument("--copy-of", metavar="HOME", help="begin with the entries of another instance, with their ids")

    def fetch(self):
        needed = ("slapd", "slapadd=slapd", "slapcat=slapd", "openssl", "ldapsearch=ldap-utils")
        self.program, self.slapadd, self.slapcat, self.openssl, self.ldapsearch = debian(*needed)
        return self.program

    def prepare(self, home, port, options):
        certificates(self.openssl, home)
        tls_port = home / "tls-port"
        if not tls_port.exists():
            tls_port.write_text(str(free_ports(1)[0]))
        configuration = home / "slapd.conf"
        configuration.write_text(
            CONFIGURATION.format(
                home=home, base=BASE, admin=ADMIN, admin_password=ADMIN_PASSWORD,
            )
        )
        data = home / "data"
        if not data.exists():
            data.mkdir()
            initial = home / "initial.ldif"
            if options.copy_of:
                build([self.slapcat, "-f", f"{options.copy_of}/slapd.conf", "-l", initial])
            else:
                initial.write_text(entries(disabled="pwdAccountLockedTime: 000001010000Z\n") + POLICY)
            build([self.slapadd, "-q", "-f", configuration, "-l", initial])
        # 127.0.0.2 is not in the certificate.
        hosts = ("127.0.0.1", "127.0.0.2")
        with_tls = " ".join(f"ldaps://{host}:{tls_port.read_text()}" for host in hosts)
        addresses = f"ldap://127.0.0.1:{port} {with_tls} {socket(home)}"
        return [self.program, "-d", "0", "-f", configuration, "-h", addresses], dict(os.environ)

    def addresses(self, home, port):
        return {
            "flavour": "openldap",
            "url": f"ldaps://127.0.0.1:{(home / 'tls-port').read_text()}",
            "plain_url": f"ldap://127.0.0.1:{port}",
            "socket_url": socket(home),
            "ca_file": str(home / "ca.pem"),
        }


def socket(home):
    return "ldapi://" + str(home / "slapd.socket").replace("/", "%2F")


def certificates(openssl, home):
    """A certificate of the server by an authority of its own: rustls refuses one that signs itself."""
    if (home / "server.pem").exists():
        return
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    build([openssl, "req", "-x509", *curve, "-days", "30", "-subj", "/CN=tests", "-keyout", home / "ca.key",
           "-out", home / "ca.pem"])
    build([openssl, "req", *curve, "-subj", "/CN=localhost", "-keyout", home / "server.key", "-out", home / "request"])
    (home / "extensions").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    build([openssl, "x509", "-req", "-in", home / "request", "-CA", home / "ca.pem", "-CAkey", home / "ca.key",
           "-CAcreateserial", "-days", "30", "-extfile", home / "extensions", "-out", home / "server.pem"])


if __name__ == "__main__":
    main(Slapd(), __doc__)
