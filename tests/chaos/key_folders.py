"""Folders of keys that are replaced while a gateway uses them, as an operator would with `keys generate` and `keys rotate`."""

import datetime
import subprocess
from pathlib import Path

# The tolerance of the gateway for the difference of clocks.
CLOCKS_SECONDS = 60


class KeyFolders:
    """One folder for each kind of key. The lifetimes are in seconds, as the gateway has them."""

    def __init__(self, place, binary, max_age, token_lifetime, session_lifetime):
        self.binary = binary
        # A new key is published for this long before its first use.
        self.lead = max_age + CLOCKS_SECONDS
        self.lifetimes = [
            "--jwks-max-age", f"{max_age}s", "--token-lifetime", f"{token_lifetime}s",
            "--session-max-lifetime", f"{session_lifetime}s"]
        self.folders = {use: str(Path(place) / use) for use in ("signing", "sealing")}
        self.generated = 0
        for use, folder in self.folders.items():
            self._keys("generate", "--dir", folder, "--use", use, "--first-use", "2020-01-01T00:00:00Z")

    def settings(self):
        return {f"keys.{use}_dir": folder for use, folder in self.folders.items()}

    def replace(self):
        """Makes a key of each kind, published as early as `keys rotate` would, and removes those that nothing needs."""
        first_use = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self.lead)
        for use, folder in self.folders.items():
            kind = ["--dir", folder, "--use", use]
            self._keys("generate", *kind, "--first-use", f"{first_use:%Y-%m-%dT%H:%M:%S.%fZ}")
            self._keys("rotate", *kind, "--every", "3650d", *self.lifetimes)
        self.generated += 1

    def in_use(self):
        lines = self._keys("list", "--dir", self.folders["signing"], *self.lifetimes).splitlines()
        # KIND ALGORITHM in use FIRST-USE KID, and more while gateways change to another key.
        return next(line.split()[5] for line in lines if " in use " in line)

    def _keys(self, *arguments):
        command = [self.binary, "keys", *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stderr}")
        return done.stdout
