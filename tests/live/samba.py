#!/usr/bin/env python3
"""Installs Debian's package of Samba, and starts domain controllers of Active Directory for the live tests.

    samba.py fetch           install the package and create an empty domain; print its folder
    samba.py start           run one controller until it is killed (see launcher.py)
    samba.py stop FOLDER     stop every controller whose home is in FOLDER, and remove the homes

Only LDAP runs. Its ports are fixed, so each controller has an address of its own in 127.0.0.0/8. It locks an account after
three wrong passwords. Tests administer it by LDAP, as `admin_dn`.
"""

import base64
import os
import random
import re
import socket
import subprocess

import population
from directory import Directory
from launcher import created_atomically, main, seed_folder
from machine import build, debian

BASE = "DC=ad,DC=example,DC=test"
ADMIN = "Administrator@ad.example.test"
ADMIN_PASSWORD = "Adm1n-for-tests-only"
SERVICE = "gateway@ad.example.test"
SERVICE_PASSWORD = "Serv1ce-for-tests-only"

# Debian's configuration has shares and other services.
CONFIGURATION = """
  server services = ldap
  dcerpc endpoint servers =
  interfaces = {address}/8
  bind interfaces only = yes
  tls enabled = yes
  tls keyfile = {home}/server.key
  tls certfile = {home}/server.pem
  tls cafile = {home}/ca.pem
  pid directory = {home}/run
  ncalrpc dir = {home}/ncalrpc
  log file = {home}/samba-%m.log
"""
KEPT = re.compile(r"^\s*(?:netbios name|realm|server role|workgroup|idmap_ldb:use rfc2307|binddns dir|cache directory|"
                  r"lock directory|private dir|state directory|xattr_tdb:file)\s*=")
# Accounts for a lock, and passwords of any form.
POLICY = f"""
dn: {BASE}
changetype: modify
replace: lockoutThreshold
lockoutThreshold: 3
-
replace: pwdProperties
pwdProperties: 0
-
replace: minPwdLength
minPwdLength: 0
-
replace: minPwdAge
minPwdAge: 0
-
replace: pwdHistoryLength
pwdHistoryLength: 0

dn: OU=people,{BASE}
changetype: add
objectClass: organizationalUnit

dn: OU=groups,{BASE}
changetype: add
objectClass: organizationalUnit

"""


class Samba(Directory):
    name = "samba"
    base = BASE
    admin = ADMIN
    admin_password = ADMIN_PASSWORD
    service = SERVICE
    service_password = SERVICE_PASSWORD
    # Without TLS it refuses a bind.
    ready = "url"

    def fetch(self):
        # The files that a new domain is made of are in a package that Debian only recommends.
        wanted = ("samba=samba-ad-dc,samba-ad-provision", "samba-tool=samba", "ldbmodify=ldb-tools",
                  "ldapsearch=ldap-utils", "openssl")
        self.program, self.tool, self.ldbmodify, self.ldapsearch, self.openssl = debian(*wanted)
        self.seed = seed_folder(self.name, (POLICY + ADMIN_PASSWORD).encode() + initial().encode())
        if not self.seed.exists():
            with created_atomically(self.seed) as scratch:
                self.create(scratch)
        return self.seed

    def create(self, scratch):
        build([
            self.tool, "domain", "provision", "--server-role=dc", "--realm=AD.EXAMPLE.TEST", "--domain=ADX",
            f"--adminpass={ADMIN_PASSWORD}", "--use-rfc2307", "--dns-backend=SAMBA_INTERNAL", f"--targetdir={scratch}/dc",
            "--host-name=dc1", "--host-ip=127.0.0.1", "--option=interfaces=lo", "--option=bind interfaces only=yes",
        ])
        (scratch / "place").write_text(str(scratch))
        changes = scratch / "initial.ldif"
        changes.write_text(POLICY + initial())
        build([self.ldbmodify, "-H", scratch / "dc" / "private" / "sam.ldb", changes])

    def prepare(self, home, port, options):
        if not (home / "dc").exists():
            subprocess.run(["cp", "-a", self.seed / "dc", home / "dc"], check=True)
            (home / "address").write_text(free_address())
            for name in ("run", "ncalrpc"):
                (home / name).mkdir()
            certificates(self.openssl, home, (home / "address").read_text())
        provisioned = (home / "dc" / "etc" / "smb.conf").read_text()
        provisioned = provisioned.replace((self.seed / "place").read_text(), str(home))
        kept = [line for line in provisioned.splitlines() if KEPT.match(line)]
        own = CONFIGURATION.format(address=(home / "address").read_text(), home=home)
        (home / "smb.conf").write_text("[global]\n" + "\n".join(kept) + own)
        command = [self.program, "--interactive", "--model=single", f"--configfile={home}/smb.conf", "--debug-stdout"]
        return command, dict(os.environ)

    def addresses(self, home, port):
        address = (home / "address").read_text()
        return {
            "flavour": "active-directory",
            "url": f"ldaps://{address}",
            "plain_url": f"ldap://{address}:389",
            "socket_url": "",
            "ca_file": str(home / "ca.pem"),
        }


def free_address():
    """An address on which no other controller listens."""
    while True:
        address = f"127.{random.randrange(2, 255)}.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex((address, 389)) != 0:
                return address


def password(text):
    return base64.b64encode(f'"{text}"'.encode("utf-16-le")).decode()


def user(name, principal, secret, control=512):
    return (
        f"dn: CN={name},OU=people,{BASE}\nchangetype: add\nobjectClass: user\nsAMAccountName: {name}\n"
        f"userPrincipalName: {principal}\nmail: {principal}\nunicodePwd:: {password(secret)}\nuserAccountControl: {control}\n"
    )


def initial():
    """The entries of a new domain: the service account, and the users and groups of the realm."""
    found = [user("gateway", SERVICE, SERVICE_PASSWORD)]
    names = {}
    for number, one in enumerate(population.USERS):
        names[one["email"]] = f"user-{number}"
        control = 512 if one["enabled"] else 514
        found.append(user(f"user-{number}", one["email"], one["password"], control))
    for number, scope in enumerate(population.SCOPES):
        members = [
            f"member: CN={names[one['email']]},OU=people,{BASE}\n" for one in population.USERS if scope in one["scope"]
        ]
        found.append(
            f"dn: CN={scope},OU=groups,{BASE}\nchangetype: add\nobjectClass: group\nsAMAccountName: group-{number}\n"
            + "".join(members)
        )
    return "\n".join(found)


def certificates(openssl, home, address):
    """A certificate of the server by an authority of its own. Its key must be readable by its owner only."""
    build([openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=tests", "-keyout",
           home / "ca.key", "-out", home / "ca.pem"])
    build([openssl, "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=dc1.ad.example.test", "-keyout",
           home / "server.key", "-out", home / "request"])
    (home / "extensions").write_text(f"subjectAltName=DNS:dc1.ad.example.test,IP:{address}\nbasicConstraints=CA:FALSE\n")
    build([openssl, "x509", "-req", "-in", home / "request", "-CA", home / "ca.pem", "-CAkey", home / "ca.key",
           "-CAcreateserial", "-days", "30", "-extfile", home / "extensions", "-out", home / "server.pem"])
    (home / "server.key").chmod(0o600)


if __name__ == "__main__":
    main(Samba(), __doc__)
