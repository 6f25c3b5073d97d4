"""Real servers for the benchmarks: their settings, and the calls that the adapters make, without a gateway."""

import base64
import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path

import machine
import servers
import wire
from wire import Failure

LAUNCHERS = Path(__file__).resolve().parents[1] / "live"
# The first start downloads the server.
START_SECONDS = 1500
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def form(**members):
    return urllib.parse.urlencode(members)


class IdentityServer:
    """One running server. A subclass states how it differs from the others."""

    name = launcher = ""
    # The name of its section of the settings.
    iam = ""

    def __init__(self, facts):
        self.facts = facts

    def prepare(self):
        """Prepares the server for measurements."""

    def iam_settings(self):
        """The settings of the section of the IAM."""
        raise NotImplementedError

    def settings(self, sealing):
        """The settings of a gateway that uses this server."""
        return {
            **self.iam_settings(),
            "keys.sealing_dir": sealing,
            # All sessions belong to one user.
            "login_limits.account_failures": 0,
            "login_limits.account_sessions_per_minute": 0,
            "login_limits.rate": 0,
        }


class AuthorizationServer(IdentityServer):
    """A server with which the adapters speak OAuth 2.0."""

    iam = "keycloak"
    # The token that the adapter introspects, and the text of a response about an active one.
    introspected = "refresh_token"
    active = '"active":true'
    # Logins a second that the server can process beside the load generator.
    login_rate = 100

    def endpoint(self, name):
        """The address of the endpoint `token` or `introspection`."""
        raise NotImplementedError

    def as_client(self):
        """The headers of a request of the gateway's client."""
        client = self.facts["clients"]["basic"]
        return basic(client["id"], client["secret"])

    def grant(self):
        """The body of a password grant."""
        scope = self.facts.get("scope")
        return form(grant_type="password", username=servers.CREDENTIALS["email"],
                    password=servers.CREDENTIALS["password"], **({"scope": scope} if scope else {}))

    def introspection(self, tokens):
        """The body of the introspection of a session with these tokens."""
        return form(token=tokens[self.introspected], token_type_hint=self.introspected)


class OAuth2Server(AuthorizationServer):
    iam = "oauth2"
    preset = ""
    paths = {}

    def endpoint(self, name):
        return f"{self.facts['issuer']}/{self.paths[name]}"

    def iam_settings(self):
        client = self.facts["clients"]["basic"]
        settings = {"preset": self.preset, "issuer": self.facts["issuer"], "client_id": client["id"],
                    "client_secret": client["secret"], "scope": self.facts["scope"]}
        return {f"iam.{self.iam}.{name}": value for name, value in settings.items() if value}


class Glewlwyd(OAuth2Server):
    name, launcher, preset = "Glewlwyd", "glewlwyd.py", "glewlwyd"
    paths = {"token": "token", "introspection": "introspect"}
    # It hashes passwords with PBKDF2.
    login_rate = 10


class DjangoOAuthToolkit(OAuth2Server):
    name, launcher, preset = "django-oauth-toolkit", "django_oauth.py", "django-oauth-toolkit"
    paths = {"token": "token/", "introspection": "introspect/"}
    introspected, active = "access_token", '"active": true'
    # Each login writes to its database several times.
    login_rate = 20


def basic(user, password):
    pair = f"{user}:{password}"
    return {**FORM, "Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


@contextlib.contextmanager
def started(bench, kind):
    """Starts a server on the cores of the benchmark; Java sizes its thread pools by the cores that it sees."""
    bench.log(f"starting {kind.name}")
    machine.LIVE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="homes-", dir=machine.LIVE) as homes:
        child = subprocess.Popen(
            ["taskset", "-c", bench.both, sys.executable, str(LAUNCHERS / kind.launcher), "start"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, env={**os.environ, "SERVER_HOMES": homes})
        try:
            readable, _, _ = select.select([child.stdout], [], [], START_SECONDS)
            line = child.stdout.readline() if readable else b""
            if not line:
                if child.wait(timeout=5) == machine.CANNOT_RUN:
                    raise machine.CannotRun(f"there is no {kind.name}, see above")
                logs = map(servers.log_tail, Path(homes).glob("run-*/*.log"))
                raise Failure("\n".join([f"{kind.name} does not start", *logs]))
            server = kind(json.loads(line))
            server.prepare()
            yield server
        finally:
            # The child process has become the server.
            machine.end(child)
            child.stdout.close()
