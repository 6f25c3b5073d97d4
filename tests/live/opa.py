#!/usr/bin/env python3
"""Builds Open Policy Agent and starts instances of it, with the policy in opa/, for the live tests.

    opa.py fetch           build the program; print it
    opa.py start           run one instance until it is killed (see launcher.py)
    opa.py stop FOLDER     stop every instance whose home is in FOLDER, and remove the homes

A POST of `{"input": {"iam": …, "subject": …, "groups": […]}}` to `decision` returns `{"result": ["scope", …]}`. A test changes
the data with PUT or PATCH of `data`, and the policy with PUT of `policy` (text/plain).
"""

import hashlib
import os
import shutil
import urllib.request
from pathlib import Path

from launcher import Server, main
from machine import LIVE, build, install

FOLDER = Path(__file__).resolve().parent / "opa"
MODULE = "github.com/open-policy-agent/opa"
POLICY, DATA = "policy.rego", "permissions.json"


class OPA(Server):
    name = "opa"

    def __init__(self):
        # A changed version needs a new build.
        sums = (FOLDER / "go.sum").read_bytes()
        self.program = LIVE / f"opa-{hashlib.sha256(sums).hexdigest()[:12]}"

    def fetch(self):
        if not self.program.exists():
            self.log("building (minutes)")
            install(["go", "mod", "download"], cwd=FOLDER)
            build(["go", "build", "-mod=readonly", "-o", self.program, MODULE], cwd=FOLDER, timeout=1500)
        return self.program

    def prepare(self, home, port, options):
        for name in (POLICY, DATA):
            shutil.copyfile(FOLDER / name, home / name)
        command = [
            self.program, "run", "--server", "--addr", f"127.0.0.1:{port}", "--skip-version-check",
            home / POLICY, home / DATA,
        ]
        return command, dict(os.environ)

    def facts(self, home, port):
        url = f"http://127.0.0.1:{port}"
        urllib.request.urlopen(f"{url}/health", timeout=5).close()
        return {
            "url": url, "decision": f"{url}/v1/data/gateway/scopes", "data": f"{url}/v1/data/permissions",
            "policy": f"{url}/v1/policies{home}/{POLICY}",
        }


if __name__ == "__main__":
    main(OPA(), __doc__)
