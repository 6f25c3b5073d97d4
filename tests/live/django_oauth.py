#!/usr/bin/env python3
"""Installs django-oauth-toolkit and starts instances of a small OAuth 2 server with it for the live tests.

    django_oauth.py fetch           install the packages, make the database; print the Python
    django_oauth.py start           run one instance until it is killed (see launcher.py)
    django_oauth.py stop FOLDER     stop every instance whose home is in FOLDER, and remove the homes

Its administration API, at `admin.url` with the header `admin.header`, is in django-oauth/server.py. It locks no accounts.
"""

import json
import os
import shutil
import urllib.request
from pathlib import Path

import population
from launcher import Server, created_atomically, main, seed_folder
from machine import build, virtual_environment

PROGRAM = Path(__file__).resolve().parent / "django-oauth"
ADMIN_KEY = "for-tests-only-5Tn8bQ2mR7yW1zL4"


class DjangoOAuth(Server):
    name = "django-oauth"

    def __init__(self):
        self.python = None
        population_text = json.dumps([population.SCOPES, population.USERS, population.CLIENTS])
        inputs = [path.read_text() for path in sorted(PROGRAM.glob("*.*"))] + [population_text]
        self.seed = seed_folder(self.name, "".join(inputs).encode())

    def fetch(self):
        self.python = virtual_environment("django-oauth-venv", PROGRAM / "requirements.txt")
        if not self.seed.exists():
            with created_atomically(self.seed) as scratch:
                build([self.python, PROGRAM / "server.py"], env=self.environment(scratch))
        return self.python

    def environment(self, home):
        return {
            **os.environ, "SERVER_HOME": str(home), "ADMIN_KEY": ADMIN_KEY, "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": f"{PROGRAM}:{PROGRAM.parent}",
        }

    def prepare(self, home, port, options):
        if not (home / "database").exists():
            shutil.copyfile(self.seed / "database", home / "database")
        command = [
            self.python, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "--threads", "8", "--no-control-socket",
            # Also the time until a new connection is closed whose request was not read: 2 s are too few on a busy machine.
            "--keep-alive", "60",
            "--worker-tmp-dir", home, "server:application",
        ]
        return command, self.environment(home)

    def facts(self, home, port):
        url = f"http://127.0.0.1:{port}"
        issuer = f"{url}/o"
        with urllib.request.urlopen(f"{url}/.well-known/oauth-authorization-server/o", timeout=5) as response:
            if json.load(response)["issuer"] != issuer:
                raise ValueError("another issuer")
        return {
            "url": url, "issuer": issuer, "clients": population.CLIENTS,
            # A grant without a scope gets all scopes of the user.
            "scope": None,
            "admin": {"url": f"{url}/api", "header": ["authorization", f"token {ADMIN_KEY}"]},
        }


if __name__ == "__main__":
    main(DjangoOAuth(), __doc__)
