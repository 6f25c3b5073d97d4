"""A real directory for the benchmarks, and the calls that the adapter makes, without a gateway."""

import json
import subprocess
from pathlib import Path

import machine
import servers
from authorization_servers import IdentityServer
from wire import Failure

# The scope of the exchanges as two groups, which the launcher names as the permissions.
SCOPES = servers.SCOPE.split()
# What the adapter reads of a user. `memberOf` is there because the settings have no `groups_base`.
ATTRIBUTES = ["entryUUID", "pwdChangedTime", "pwdAccountLockedTime", "pwdReset", "memberOf"]
# How passwords are stored. The last two are hashes: a fast one, and one that costs milliseconds.
FORMS = ("text", "SSHA", "ARGON2")
# Operational attributes of a user in a state. The policy sets `pwdReset` if the administrator changes a password.
STATES = {
    "active": ["pwdReset: FALSE"],
    "disabled": ["pwdReset: FALSE", "pwdAccountLockedTime: 000001010000Z"],
    "locked": ["pwdReset: FALSE", "pwdAccountLockedTime: 20200101000000Z"],
    "incomplete": ["pwdReset: TRUE"],
}


class OpenLdap(IdentityServer):
    name, launcher, iam = "OpenLDAP", "slapd.py", "ldap"

    def iam_settings(self):
        settings = {name: self.facts[name] for name in ("ca_file", "bind_dn", "bind_password")}
        settings |= {"urls": self.facts["url"], "issuer": "directory.test", "users_base": self.users_base,
                     "accept_local_logout": "true"}
        return {f"iam.ldap.{name}": value for name, value in settings.items()}

    @property
    def users_base(self):
        return f"ou=people,{self.facts['base']}"

    def user_dn(self, email):
        return f"uid={email},{self.users_base}"

    def group_dn(self, scope):
        return f"cn={scope},ou=groups,{self.facts['base']}"

    def permissions(self, folder):
        """A configuration file that gives the groups of the user their scopes."""
        file = folder / "permissions.toml"
        lines = [f'    {{ group = "{self.group_dn(scope)}", scopes = ["{scope}"] }},\n' for scope in SCOPES]
        file.write_text(f'[permissions]\nsource = "groups"\ngroups = [\n{"".join(lines)}]\n')
        return file

    def prepare(self):
        # The overlay memberof does not run for the entries that the launcher begins with.
        member = f"member: {self.user_dn(servers.CREDENTIALS['email'])}"
        self.change("\n\n".join(
            f"dn: {self.group_dn(scope)}\nchangetype: modify\nreplace: member\n{member}" for scope in SCOPES))

    def change(self, ldif):
        """Changes entries as the administrator."""
        self._run("ldapmodify", "admin_dn", "admin_password", ldif)

    def add_users(self, emails):
        """Adds users without a password. From then on wrong passwords lock no user, and locks do not end."""
        changes = [
            f"dn: cn=default,ou=policies,{self.facts['base']}\nchangetype: modify\nreplace: {limit}\n{limit}: 0"
            for limit in ("pwdMaxFailure", "pwdLockoutDuration")]
        for email in emails:
            names = "\n".join(f"{name}: {email}" for name in ("uid", "cn", "sn", "mail"))
            changes.append(f"dn: {self.user_dn(email)}\nchangetype: add\nobjectClass: inetOrgPerson\n{names}")
        self.change("\n\n".join(changes))

    def store_password(self, emails, password, form):
        """Stores a password of users in one of the `FORMS`; they are in the states of `emails` afterwards."""
        if form != "text":
            command = ["/usr/sbin/slappasswd", "-n", "-o", "module-path=/usr/lib/ldap", "-o", "module-load=argon2",
                       "-h", f"{{{form}}}", "-s", password]
            password = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
        changes = []
        for email, state in emails.items():
            # A change of the password ends the earlier state.
            for line in (f"userPassword: {password}", *STATES[state]):
                attribute = line.partition(":")[0]
                changes.append(f"dn: {self.user_dn(email)}\nchangetype: modify\nreplace: {attribute}\n{line}")
        self.change("\n\n".join(changes))

    def value(self, dn, attribute):
        found = self._run("ldapsearch", "bind_dn", "bind_password", None, "-LLL", "-b", dn, "-s", "base", attribute)
        (value,) = (line.partition(": ")[2] for line in found.splitlines() if line.startswith(f"{attribute}: "))
        return value

    def _run(self, program, dn, password, text, *arguments):
        command = [program, "-x", "-H", self.facts["plain_url"], "-D", self.facts[dn], "-w", self.facts[password], *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Failure(f"{program}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def load(self, program, cores, attribute, value, count, connections=1, at_once=1, password=None):
        """Sends the adapter's searches by a value, or its logins; returns their rate and their p50 in ms."""
        load = {
            **{name: self.facts[name] for name in ("url", "ca_file", "bind_dn", "bind_password")},
            "base": self.users_base,
            "filter": f"(&(objectClass=inetOrgPerson)({attribute}={value}))",
            "attributes": ATTRIBUTES,
            "connections": connections,
            "at_once": at_once,
            "count": count,
            "password": password,
        }
        done = subprocess.run(["taskset", "-c", cores, program], input=json.dumps(load), capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise Failure(f"ldap-load: {done.stderr.strip()[-500:]}")
        outcome = json.loads(done.stdout)
        return count / outcome["seconds"], outcome["p50_ms"]


def load_program():
    """Builds the program that makes the adapter's calls."""
    root = Path(__file__).resolve().parents[2]
    subprocess.run(["cargo", "build", "--release", "--locked", "--package", "ldap-load"], cwd=root, check=True)
    return machine.TARGET / "release" / "ldap-load"
