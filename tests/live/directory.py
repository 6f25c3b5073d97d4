"""What the launchers of directories have in common."""

import os
import subprocess

from launcher import Server


class Directory(Server):
    """A server that tests administer by LDAP, as `admin_dn`."""

    base = ""
    admin = ""
    admin_password = ""
    service = ""
    service_password = ""
    ldapsearch = ""
    # The address by which it is read until it is ready.
    ready = "plain_url"

    def addresses(self, home, port):
        """Returns the facts that are not the same for all instances."""
        raise NotImplementedError

    def facts(self, home, port):
        """Fails until the server listens and reads its data."""
        addresses = self.addresses(home, port)
        read = [self.ldapsearch, "-x", "-LLL", "-H", addresses[self.ready], "-D", self.service, "-w", self.service_password,
                "-b", self.base, "-s", "base", "1.1"]
        trusted = {**os.environ, "LDAPTLS_CACERT": addresses["ca_file"]}
        if subprocess.run(read, capture_output=True, env=trusted).returncode != 0:
            raise ValueError("not ready")
        return {
            **addresses,
            "base": self.base,
            "admin_dn": self.admin,
            "admin_password": self.admin_password,
            "bind_dn": self.service,
            "bind_password": self.service_password,
        }
