#!/usr/bin/env python3
"""Builds Open Policy Agent and starts instances of it, with the policy in opa/, for the live tests.

    opa.py fetch           build the program; print it
    opa.py start           run one instance until it is killed (see launcher.py)
    opa.py stop FOLDER     stop every instance whose home is in FOLDER, and remove the homes

A POST of `{"input": {"iam": …, "subject": …, "groups": […]}}` to `decision` returns `{"result": ["scope", …]}`. A test changes
the data with PUT or PATCH of `data`, and the policy with PUT of `policy` (text/plain).
"""

import os
import shutil
import urllib.request
from pathlib import Path

from launcher import Server, main
from machine import go_program

FOLDER = Path(__file__).resolve().parent / "opa"
MODULE = "github.com/open-policy-agent/opa"
POLICY, DATA = "policy.rego", "permissions.json"


class OPA(Server):
    name = "opa"

    def fetch(self):
        return go_program(FOLDER, MODULE)

    def prepare(self, home, port, options):
        for name in (POLICY, DATA):
            shutil.copyfile(FOLDER / name, home / name)
        command = [
            self.fetch(), "run", "--server", "--addr", f"127.0.0.1:{port}", "--skip-version-check",
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
