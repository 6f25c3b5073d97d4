"""A real Keycloak for the benchmarks, with cheap password hashes and many sessions."""

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

import load
import machine
import servers
import wire
from load import Load
from wire import Failure

LAUNCHER = Path(__file__).resolve().parents[1] / "live" / "keycloak.py"
# The first start downloads Keycloak.
START_SECONDS = 1500
# The cost of a password hash is not measured.
CHEAP_PASSWORDS = "hashAlgorithm(pbkdf2-sha256) and hashIterations(1)"
WARM_UP_RUNS = 12
WARM_UP_GAIN = 1.05
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def form(**members):
    return urllib.parse.urlencode(members)


class Keycloak:
    def __init__(self, facts):
        self.facts = facts
        self._tokens = []
        # So that name resolution has no effect on the figures.
        self.loopback = facts["url"].replace("//localhost", f"//{wire.LOOPBACK}")

    def endpoint(self, name, realm=None):
        return f"{self.loopback}/realms/{realm or self.facts['realm']}/protocol/openid-connect/{name}"

    def as_client(self):
        pair = f"{self.facts['client_id']}:{self.facts['client_secret']}"
        return {**FORM, "Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}

    def use_cheap_password_hashes(self):
        admin = form(grant_type="password", client_id="admin-cli", username=self.facts["admin_user"],
                     password=self.facts["admin_password"])
        response = wire.send("POST", self.endpoint("token", "master"), FORM, admin.encode())
        if response.status != 200:
            raise Failure(f"the administrator cannot log in: {response.status} {response.body[:300]!r}")
        token = json.loads(response.body)["access_token"]
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        base = f"{self.loopback}/admin/realms/{self.facts['realm']}"

        def change(path, value):
            response = wire.send("PUT", base + path, headers, json.dumps(value).encode())
            if response.status != 204:
                raise Failure(f"PUT {path}: {response.status} {response.body[:300]!r}")

        change("", {"passwordPolicy": CHEAP_PASSWORDS})
        email = urllib.parse.quote(servers.CREDENTIALS["email"])
        user = json.loads(wire.send("GET", f"{base}/users?exact=true&email={email}", headers).body)[0]["id"]
        password = {"type": "password", "temporary": False, "value": servers.CREDENTIALS["password"]}
        change(f"/users/{user}/reset-password", password)

    def settings(self, sealing):
        """The settings of a gateway that uses this Keycloak."""
        return {
            **machine.keycloak_settings(self.facts),
            "keys.sealing_dir": sealing,
            # All sessions belong to one user.
            "login_limits.account_failures": 0,
            "login_limits.account_sessions_per_minute": 0,
            "login_limits.rate": 0,
        }

    def refresh_tokens(self, bench, count):
        """Refresh tokens of `count` sessions, made by logins without the gateway. Later calls return the same tokens."""
        missing = count - len(self._tokens)
        if missing <= 0:
            return self._tokens[:count]
        login = bench.folder / "keycloak-login"
        login.write_text(form(grant_type="password", username=servers.CREDENTIALS["email"],
                              password=servers.CREDENTIALS["password"]) + "\n")
        responses = bench.folder / "keycloak-sessions"
        logins = Load("Keycloak's login", self.endpoint("token"), login, '"refresh_token":"', self.as_client())
        load.run(logins, bench.both, bench.connections, count=missing, keep=responses)
        self._tokens += [json.loads(line)["refresh_token"] for line in responses.read_text().splitlines()]
        return self._tokens

    def introspections(self, bench, tokens):
        return self._load(bench, "introspection", "token/introspect", '"active":true',
                          [form(token=token, token_type_hint="refresh_token") for token in tokens])

    def refresh_grants(self, bench, tokens):
        return self._load(bench, "refresh", "token", '"access_token":"ey',
                          [form(grant_type="refresh_token", refresh_token=token) for token in tokens])

    def _load(self, bench, name, endpoint, expect, lines):
        bodies = bench.folder / f"keycloak-{name}"
        bodies.write_text("\n".join(lines) + "\n")
        return Load(f"Keycloak's {name}", self.endpoint(endpoint), bodies, expect, self.as_client())


@contextlib.contextmanager
def keycloak(bench):
    """Starts Keycloak on the cores of the benchmark; Java sizes its thread pools by the cores that it sees."""
    machine.LIVE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="homes-", dir=machine.LIVE) as homes:
        child = subprocess.Popen(
            ["taskset", "-c", bench.both, sys.executable, str(LAUNCHER), "start"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, env={**os.environ, "SERVER_HOMES": homes})
        try:
            readable, _, _ = select.select([child.stdout], [], [], START_SECONDS)
            line = child.stdout.readline() if readable else b""
            if not line:
                if child.wait(timeout=5) == machine.CANNOT_RUN:
                    raise machine.CannotRun("there is no Keycloak, see above")
                logs = map(servers.log_tail, Path(homes).glob("run-*/keycloak.log"))
                raise Failure("\n".join(["Keycloak does not start", *logs]))
            started = Keycloak(json.loads(line))
            started.use_cheap_password_hashes()
            yield started
        finally:
            # The child process has become Java.
            machine.end(child)
            child.stdout.close()


def warm_up(bench, load_):
    """Repeats the load until two runs in a row are no faster than before, so that Java has compiled the hot code."""
    best, without_gain = 0.0, 0
    for _ in range(bench.size(WARM_UP_RUNS, 1)):
        rate = load.run(load_, bench.both, bench.connections, seconds=bench.seconds).rate
        bench.log(f"warming up, {load_.name}: {rate:,.0f}/s")
        without_gain = without_gain + 1 if rate < best * WARM_UP_GAIN else 0
        if without_gain == 2:
            break
        best = max(best, rate)


def gateway_sessions(bench, settings, count):
    """Bodies of exchanges, one for each of `count` new sessions of a gateway with these settings."""
    login, responses = bench.folder / "gateway-login", bench.folder / "gateway-sessions"
    login.write_text(json.dumps(servers.CREDENTIALS) + "\n")
    with servers.gateway(bench, bench.both, settings) as gateway:
        logins = Load("the gateway's login", f"{gateway.url}/api/v1/auth/login", login, '"session_token":"')
        load.run(logins, bench.both, bench.connections, count=count, keep=responses)
    return [servers.exchange_body(json.loads(line)) for line in responses.read_text().splitlines()]


def sealing_keys(bench):
    """A folder with a key, so that a gateway can open the sessions of an earlier one."""
    folder = bench.folder / "sealing"
    folder.mkdir(mode=0o700, exist_ok=True)
    machine.build([bench.binary, "keys", "generate", "--dir", folder, "--first-use", "now", "--use", "sealing"])
    return folder
