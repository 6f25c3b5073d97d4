#!/usr/bin/env python3
"""Installs Debian's package of Glewlwyd, an OAuth 2 server, and starts instances of it for the live tests.

    glewlwyd.py fetch           install the package; print the program
    glewlwyd.py start           run one instance until it is killed (see launcher.py)
    glewlwyd.py stop FOLDER     stop every instance whose home is in FOLDER, and remove the homes

Its administration API is that of the server, at `admin.url`, with the header `admin.header`. It locks no accounts.
"""

import contextlib
import json
import os
import sqlite3
import urllib.request

import population
from launcher import Server, main
from machine import build, debian

SCHEMA = "/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3"
MODULES = "/usr/lib/glewlwyd"
# Of the administrator that the schema creates.
ADMIN = {"username": "admin", "password": "password"}
SESSION_SECONDS = 28800

CONFIGURATION = """
port = {port}
bind_address = "127.0.0.1"
external_url = "{url}"
login_url = "login.html"
api_prefix = "api"
log_mode = "console"
log_level = "INFO"
session_expiration = 2419200
session_key = "GLEWLWYD2_SESSION_ID"
admin_scope = "g_admin"
profile_scope = "g_profile"
user_module_path = "{modules}/user"
client_module_path = "{modules}/client"
user_auth_scheme_module_path = "{modules}/scheme"
plugin_module_path = "{modules}/plugin"
hash_algorithm = "SHA512"
database = {{ type = "sqlite3"; path = "{home}/glewlwyd.db"; }};
"""


class Glewlwyd(Server):
    name = "glewlwyd"

    def __init__(self):
        self.program = None

    def fetch(self):
        self.program, _ = debian("glewlwyd", "openssl")
        return self.program

    def prepare(self, home, port, options):
        configuration = home / "glewlwyd.conf"
        configuration.write_text(CONFIGURATION.format(port=port, url=url(port), home=home, modules=MODULES))
        if not (home / "glewlwyd.db").exists():
            with contextlib.closing(sqlite3.connect(home / "glewlwyd.db")) as database, open(SCHEMA) as schema:
                # One write to the disk for each change instead of several.
                database.execute("PRAGMA journal_mode = WAL")
                database.executescript(schema.read())
            key_pair(home / "signing", "RSA", "rsa_keygen_bits:2048")
            key_pair(home / "client", "EC", "ec_paramgen_curve:P-256")
        return [self.program, f"--config-file={configuration}"], dict(os.environ)

    def facts(self, home, port):
        admin = Administrator(f"{url(port)}/api")
        populated = home / "populated"
        if not populated.exists():
            try:
                populate(admin, home, issuer(port))
            except OSError as error:
                # The server responds, so a retry would fail as well.
                raise RuntimeError(error) from error
            populated.touch()
        clients = {**population.CLIENTS, "jwt": {**JWT_CLIENT, "key_file": str(home / "client.key")}}
        return {
            "url": url(port), "issuer": issuer(port), "clients": clients,
            # A grant without a scope is refused; scopes that the user lacks are left out.
            "scope": " ".join(population.SCOPES),
            "admin": {"url": admin.url, "header": ["cookie", admin.cookie]},
        }


JWT_CLIENT = {"id": "auth-gateway-jwt", "method": "private_key_jwt", "algorithm": "ES256"}


class Administrator:
    """An administrator with a session that does not expire."""

    def __init__(self, url):
        self.url, self.cookie = url, ""
        with self.request("POST", "/auth/", ADMIN) as response:
            self.cookie = response.headers["set-cookie"].partition(";")[0]

    def request(self, method, path, body):
        headers = {"content-type": "application/json", "cookie": self.cookie}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers, method=method)
        return urllib.request.urlopen(request, timeout=10)

    def call(self, method, path, body):
        self.request(method, path, body).close()


def populate(admin, home, issuer):
    # The default is ten minutes, after which the administrator would need a new login.
    admin.call("PUT", "/scope/g_admin", {"name": "g_admin", "password_required": True, "password_max_age": 0})
    plugin = {
        "iss": issuer, "jwt-type": "rsa", "jwt-key-size": "256",
        "key": (home / "signing.key").read_text(), "cert": (home / "signing.pub").read_text(),
        "access-token-duration": SESSION_SECONDS, "refresh-token-duration": SESSION_SECONDS,
        "code-duration": 600, "refresh-token-rolling": False, "refresh-token-one-use": "never",
        "allow-non-oidc": True, "subject-type": "public",
        **{f"auth-type-{kind}-enabled": False for kind in ("code", "token", "none", "client", "device")},
        **{f"auth-type-{kind}-enabled": True for kind in ("id-token", "password", "refresh")},
        "introspection-revocation-allowed": True, "introspection-revocation-allow-target-client": True,
        "introspection-revocation-auth-scope": [],
        # Also enables assertions of clients.
        "request-parameter-allow": True, "client-pubkey-parameter": "pubkey",
    }
    admin.call("POST", "/mod/plugin/", {"module": "oidc", "name": "oidc", "parameters": plugin})
    for scope in population.SCOPES:
        admin.call("POST", "/scope/", {"name": scope})
    for client in population.CLIENTS.values():
        add_client(admin, client, client_secret=client["secret"])
    add_client(admin, JWT_CLIENT, pubkey=(home / "client.pub").read_text())
    for user in population.USERS:
        admin.call("POST", "/user/", user)


def add_client(admin, client, **credential):
    admin.call("POST", "/client/", {
        "client_id": client["id"], "confidential": True, "enabled": True, "redirect_uri": [], "scope": [],
        "authorization_type": ["password", "refresh_token"], "token_endpoint_auth_method": [client["method"]],
        **credential,
    })


def key_pair(path, algorithm, option):
    key, public = path.with_suffix(".key"), path.with_suffix(".pub")
    build(["openssl", "genpkey", "-quiet", "-algorithm", algorithm, "-pkeyopt", option, "-out", key])
    build(["openssl", "pkey", "-in", key, "-pubout", "-out", public])


def url(port):
    return f"http://127.0.0.1:{port}"


def issuer(port):
    return f"{url(port)}/api/oidc"


if __name__ == "__main__":
    main(Glewlwyd(), __doc__)
