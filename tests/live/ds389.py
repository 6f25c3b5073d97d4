#!/usr/bin/env python3
"""Installs Debian's package of 389 Directory Server, and starts instances of it for the live tests.

    ds389.py fetch           install the package and create an empty instance; print its folder
    ds389.py start           run one instance until it is killed (see launcher.py)
    ds389.py stop FOLDER     stop every instance whose home is in FOLDER, and remove the homes

It locks an account after three wrong passwords, and has the plugin for memberOf. Tests administer it by LDAP, as `admin_dn`.
"""

import os
import shutil
from pathlib import Path

from directory import Directory
from directory_population import BASE, SERVICE, SERVICE_PASSWORD, entries
from launcher import created_atomically, main, seed_folder
from machine import build, debian, free_ports

ADMIN = "cn=Directory Manager"
ADMIN_PASSWORD = "for-tests-only-admin"
INSTANCE = "gateway-tests"
# Where the installer puts the parts of an instance.
PLACES = {
    "etc": Path(f"/etc/dirsrv/slapd-{INSTANCE}"),
    "lib": Path(f"/var/lib/dirsrv/slapd-{INSTANCE}"),
    "log": Path(f"/var/log/dirsrv/slapd-{INSTANCE}"),
    "lock": Path(f"/run/lock/dirsrv/slapd-{INSTANCE}"),
}

# The installer insists on systemd.
INSTALL = """
import sys, logging, lib389.paths
lib389.paths.Paths.with_systemd = property(lambda self: False)
from lib389.instance.setup import SetupDs
sys.exit(0 if SetupDs(False, False, logging.getLogger()).create_from_inf(sys.argv[1]) else 1)
"""

ANSWERS = """
[general]
full_machine_name = localhost
start = True
strict_host_checking = False
selinux = False
[slapd]
instance_name = {instance}
port = {port}
secure_port = {tls_port}
root_password = {password}
user = dirsrv
group = dirsrv
self_sign_cert = True
[backend-userroot]
create_suffix_entry = False
suffix = {base}
"""

# Members of `cn=config` and of the plugin.
SETTINGS = {
    "nsslapd-listenhost": "127.0.0.1",
    "nsslapd-securelistenhost": "127.0.0.1",
    "passwordLockout": "on",
    "passwordMaxFailure": "3",
    "passwordTrackUpdateTime": "on",
}
MEMBER_OF = {"nsslapd-pluginEnabled": "on", "memberofgroupattr": "member"}

RIGHTS = (
    'aci: (targetattr="* || nsAccountLock || memberOf || pwdUpdateTime")(targetfilter="(!(ou=hidden))")(version 3.0; acl '
    f'"gateway"; allow (read,search,compare) userdn="ldap:///{SERVICE}";)\n'
)


class Ds389(Directory):
    name = "ds389"
    base = BASE
    admin = ADMIN
    admin_password = ADMIN_PASSWORD
    service = SERVICE
    service_password = SERVICE_PASSWORD

    def __init__(self):
        self.program = None

    def fetch(self):
        self.program, self.ldapsearch = debian("ns-slapd=389-ds-base", "ldapsearch=ldap-utils")
        self.seed = seed_folder(self.name, (INSTALL + ANSWERS).encode())
        if not self.seed.exists():
            with created_atomically(self.seed) as scratch:
                self.create(scratch)
        return self.seed

    def create(self, scratch):
        """Creates an instance at its usual place, stops it, and moves it away."""
        port, tls_port = free_ports(2)
        installer, answers = scratch / "install.py", scratch / "answers.inf"
        installer.write_text(INSTALL)
        answers.write_text(
            ANSWERS.format(instance=INSTANCE, port=port, tls_port=tls_port, password=ADMIN_PASSWORD, base=BASE)
        )
        for folder in ("/run/dirsrv", "/run/lock/dirsrv"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            shutil.chown(folder, "dirsrv", "dirsrv")
        build(["/usr/bin/python3", installer, answers])
        pid_file = Path(f"/run/dirsrv/slapd-{INSTANCE}.pid")
        pid = int(pid_file.read_text())
        os.kill(pid, 15)
        while Path(f"/proc/{pid}").exists():
            pass
        for name in ("etc", "lib"):
            shutil.copytree(PLACES[name], scratch / name, symlinks=True)
        for usual in PLACES.values():
            shutil.rmtree(usual, ignore_errors=True)

    def prepare(self, home, port, options):
        tls_port = home / "tls-port"
        etc = place(home, "etc")
        if not etc.exists():
            tls_port.write_text(str(free_ports(1)[0]))
            for name in ("etc", "lib"):
                shutil.copytree(self.seed / name, place(home, name), symlinks=True)
            for name in ("log", "lock", "run"):
                (home / name).mkdir()
            initial = home / "initial.ldif"
            initial.write_text(entries(RIGHTS, "nsAccountLock: TRUE\n"))
            configure(home, port, tls_port.read_text())
            build(["chown", "-R", "dirsrv:dirsrv", home])
            reachable(home)
            build([self.program, "ldif2db", "-D", etc, "-n", "userroot", "-i", initial])
        return [self.program, "-d", "0", "-D", etc, "-i", home / "run" / "slapd.pid"], dict(os.environ)

    def addresses(self, home, port):
        return {
            "flavour": "389ds",
            "url": f"ldaps://localhost:{(home / 'tls-port').read_text()}",
            "plain_url": f"ldap://127.0.0.1:{port}",
            "socket_url": "",
            "ca_file": str(place(home, "etc") / "ca.crt"),
        }


def place(home, name):
    """A folder of an instance. The server derives the name of a semaphore of the whole machine from that of `etc`."""
    return home / (home.name if name == "etc" else name)


def reachable(home):
    """Lets the user of the server enter the folders above its home."""
    for folder in home.parents:
        mode = folder.stat().st_mode
        if not mode & 0o001:
            folder.chmod(mode | 0o001)


def configure(home, port, tls_port):
    """Moves the instance to its home, and changes its settings, which are an LDIF file."""
    file = place(home, "etc") / "dse.ldif"
    text = file.read_text().replace("\n ", "")
    for name, usual in PLACES.items():
        text = text.replace(str(usual), str(place(home, name)))
    text = text.replace(f"/run/slapd-{INSTANCE}.socket", str(home / "run" / "slapd.socket"))
    blocks = []
    for block in text.split("\n\n"):
        dn = block.partition("\n")[0].lower()
        if dn == "dn: cn=config":
            ports = {"nsslapd-port": str(port), "nsslapd-securePort": tls_port}
            block = changed(block, {**SETTINGS, **ports, "nsslapd-rundir": str(home / "run")})
        elif dn.startswith("dn: cn=memberof plugin,"):
            block = changed(block, MEMBER_OF)
        blocks.append(block)
    file.write_text("\n\n".join(blocks))


def changed(block, values):
    names = {name.lower() for name in values}
    kept = [line for line in block.strip("\n").split("\n") if line.partition(":")[0].lower() not in names]
    return "\n".join(kept + [f"{name}: {value}" for name, value in values.items()])


if __name__ == "__main__":
    main(Ds389(), __doc__)
