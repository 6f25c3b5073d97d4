#!/usr/bin/env python3
"""Builds Ory Kratos and starts instances of it for the live tests.

    kratos.py fetch           build the program and an empty database; print the program
    kratos.py start           run one instance until it is killed (see launcher.py)
    kratos.py stop FOLDER     stop every instance whose home is in FOLDER, and remove the homes

A login by a user whose address is not verified is refused. Nothing sends mail. The addresses in its responses lead
nowhere, as if they were those for browsers.
"""

import contextlib
import json
import os
import shutil
import sqlite3
import urllib.request
from pathlib import Path

from launcher import Server, created_atomically, main, seed_folder
from machine import build, free_ports, go_program

FOLDER = Path(__file__).resolve().parent / "kratos"
MODULE = "github.com/ory/kratos"
DATABASE, CONFIGURATION, SCHEMA, ADMIN_PORT = "kratos.sqlite", "kratos.json", "person.json", "admin-port"

IDENTITY_SCHEMA = {
    "$id": "https://example.test/person.json",
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Person",
    "type": "object",
    "properties": {"traits": {
        "type": "object",
        "properties": {"email": {
            "type": "string", "format": "email",
            "ory.sh/kratos": {"credentials": {"password": {"identifier": True}}, "verification": {"via": "email"}},
        }},
        "required": ["email"],
        "additionalProperties": False,
    }},
}


class Kratos(Server):
    name = "kratos"

    def add_options(self, start):
        start.add_argument("--without-passwords", action="store_true", help="disable logins with a password")

    def fetch(self):
        program = go_program(FOLDER, MODULE, tags="sqlite")
        self.database = seed_folder("kratos", program.name.encode())
        if not self.database.exists():
            # The migrations take as long as 50 starts.
            with created_atomically(self.database) as folder:
                configuration = write_configuration(folder, 1, 1, passwords=True)
                source = {**os.environ, "DSN": dsn(folder)}
                build([program, "migrate", "sql", "--read-from-env", "--yes", "--config", configuration], env=source)
                # The program ends without it, and only the file of the database is copied.
                with contextlib.closing(sqlite3.connect(folder / DATABASE)) as database:
                    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return program

    def prepare(self, home, port, options):
        program = self.fetch()
        if not (home / DATABASE).exists():
            shutil.copyfile(self.database / DATABASE, home / DATABASE)
            (home / ADMIN_PORT).write_text(str(free_ports(1)[0]))
        admin_port = int((home / ADMIN_PORT).read_text())
        configuration = write_configuration(home, port, admin_port, passwords=not options.without_passwords)
        return [program, "serve", "--config", configuration], dict(os.environ)

    def facts(self, home, port):
        url, admin = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{(home / ADMIN_PORT).read_text()}/admin"
        for ready in (f"{url}/health/ready", f"{admin}/health/ready"):
            urllib.request.urlopen(ready, timeout=5).close()
        return {"url": url, "admin": admin, "database": str(home / DATABASE)}


def dsn(folder):
    # SQLite alone orders the transactions, each from its beginning, and each has connections for the reads within it.
    # With the locks of Kratos' library, a statement can wait for a transaction that waits for that statement's lock.
    waiting = "lock=false&_busy_timeout=20000&_txlock=immediate&_journal_mode=WAL&max_conns=100&max_idle_conns=100"
    return f"sqlite://{folder / DATABASE}?_fk=true&mode=rwc&_sync=OFF&{waiting}"


def write_configuration(folder, port, admin_port, *, passwords):
    (folder / SCHEMA).write_text(json.dumps(IDENTITY_SCHEMA))
    nowhere = "https://login.example.test/"
    configuration = {
        "version": "v1.3.1",
        "dsn": dsn(folder),
        "serve": {
            "public": {"base_url": nowhere, "host": "127.0.0.1", "port": port},
            "admin": {"base_url": nowhere, "host": "127.0.0.1", "port": admin_port},
        },
        "selfservice": {
            "default_browser_return_url": nowhere,
            "methods": {
                "password": {"enabled": passwords, "config": {
                    "haveibeenpwned_enabled": False, "identifier_similarity_check_enabled": False,
                }},
                "code": {"enabled": True},
                "lookup_secret": {"enabled": True},
            },
            "flows": {
                "verification": {"enabled": True, "use": "code"},
                "login": {"after": {"password": {"hooks": [{"hook": "require_verified_address"}]}}},
            },
        },
        "session": {"lifespan": "8h"},
        "identity": {"default_schema_id": "person", "schemas": [{"id": "person", "url": f"file://{folder / SCHEMA}"}]},
        "courier": {"smtp": {"connection_uri": "smtp://127.0.0.1:1/"}},
        # Little cost, for many logins. With bcrypt, passwords have at most 72 bytes.
        "hashers": {"algorithm": "argon2", "argon2": {
            "memory": "1MB", "iterations": 1, "parallelism": 1, "salt_length": 16, "key_length": 16,
            "expected_duration": "1ms", "expected_deviation": "1ms", "dedicated_memory": "64MB",
        }},
        "secrets": {"cookie": ["only-for-tests-0123456789"], "cipher": ["only-for-tests-0123456789-abcdef"]},
        "log": {"level": "info"},
    }
    path = folder / CONFIGURATION
    path.write_text(json.dumps(configuration))
    return path


if __name__ == "__main__":
    main(Kratos(), __doc__)
