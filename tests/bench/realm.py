"""A real Keycloak for the bench, with cheap passwords and with sessions to ask about."""

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
# The first start of all downloads Keycloak.
START_SECONDS = 1500
# A login is not what is measured here: it should cost next to nothing.
CHEAP_PASSWORDS = "hashAlgorithm(pbkdf2-sha256) and hashIterations(1)"
WARM_UP_RUNS = 12
WARM_ENOUGH = 1.05
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def form(**members):
    return urllib.parse.urlencode(members)


class Keycloak:
    def __init__(self, facts):
        self.facts = facts
        self._tokens = []
        # What is measured must not depend on how a name resolves.
        self.loopback = facts["url"].replace("//localhost", f"//{wire.LOOPBACK}")

    def endpoint(self, name, realm=None):
        return f"{self.loopback}/realms/{realm or self.facts['realm']}/protocol/openid-connect/{name}"

    def as_client(self):
        pair = f"{self.facts['client_id']}:{self.facts['client_secret']}"
        return {**FORM, "Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}

    def make_passwords_cheap(self):
        admin = form(grant_type="password", client_id="admin-cli", username=self.facts["admin_user"],
                     password=self.facts["admin_password"])
        answer = wire.ask("POST", self.endpoint("token", "master"), FORM, admin.encode())
        if answer.status != 200:
            raise Failure(f"the administrator cannot log in: {answer.status} {answer.body[:300]!r}")
        token = json.loads(answer.body)["access_token"]
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        base = f"{self.loopback}/admin/realms/{self.facts['realm']}"

        def change(path, value):
            answer = wire.ask("PUT", base + path, headers, json.dumps(value).encode())
            if answer.status != 204:
                raise Failure(f"PUT {path}: {answer.status} {answer.body[:300]!r}")

        change("", {"passwordPolicy": CHEAP_PASSWORDS})
        email = urllib.parse.quote(servers.CREDENTIALS["email"])
        user = json.loads(wire.ask("GET", f"{base}/users?exact=true&email={email}", headers).body)[0]["id"]
        password = {"type": "password", "temporary": False, "value": servers.CREDENTIALS["password"]}
        change(f"/users/{user}/reset-password", password)

    def settings(self, sealing):
        """Those of a gateway that stands before this Keycloak."""
        return {
            **machine.keycloak_settings(self.facts),
            "keys.sealing_dir": sealing,
            # One user makes all the sessions, as fast as Keycloak can.
            "login_limits.account_failures": 0,
            "login_limits.account_sessions_per_minute": 0,
            "login_limits.rate": 0,
        }

    def refresh_tokens(self, bench, count):
        """Of so many sessions, made by logging in here without the gateway. The same ones when asked again."""
        missing = count - len(self._tokens)
        if missing <= 0:
            return self._tokens[:count]
        login = bench.folder / "keycloak-login"
        login.write_text(form(grant_type="password", username=servers.CREDENTIALS["email"],
                              password=servers.CREDENTIALS["password"]) + "\n")
        answers = bench.folder / "keycloak-sessions"
        logins = Load("Keycloak's login", self.endpoint("token"), login, '"refresh_token":"', self.as_client())
        load.run(logins, bench.both, bench.connections, count=missing, keep=answers)
        self._tokens += [json.loads(line)["refresh_token"] for line in answers.read_text().splitlines()]
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
    """Started on the cores of the bench; Java makes itself at home on as many as it sees."""
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
                logs = map(servers.last_words, Path(homes).glob("run-*/keycloak.log"))
                raise Failure("\n".join(["Keycloak does not start", *logs]))
            started = Keycloak(json.loads(line))
            started.make_passwords_cheap()
            yield started
        finally:
            # The child has become Java itself.
            machine.end(child)
            child.stdout.close()


def warm_up(bench, asked):
    """Java compiles what it does often: until two runs are hardly faster than the best before."""
    best, without_gain = 0.0, 0
    for _ in range(bench.size(WARM_UP_RUNS, 1)):
        rate = load.run(asked, bench.both, bench.connections, seconds=bench.seconds).rate
        bench.say(f"warming up, {asked.name}: {rate:,.0f}/s")
        without_gain = without_gain + 1 if rate < best * WARM_ENOUGH else 0
        if without_gain == 2:
            break
        best = max(best, rate)


def gateway_sessions(bench, settings, count):
    """Bodies of exchanges, one for each of so many sessions that a gateway with these settings makes."""
    login, answers = bench.folder / "gateway-login", bench.folder / "gateway-sessions"
    login.write_text(json.dumps(servers.CREDENTIALS) + "\n")
    with servers.gateway(bench, bench.both, settings) as gateway:
        logins = Load("the gateway's login", f"{gateway.url}/api/v1/auth/login", login, '"session_token":"')
        load.run(logins, bench.both, bench.connections, count=count, keep=answers)
    return [servers.exchange_body(json.loads(line)) for line in answers.read_text().splitlines()]


def sealing_keys(bench):
    """A folder with a key, so that gateways started one after the other open the same sessions."""
    folder = bench.folder / "sealing"
    folder.mkdir(mode=0o700, exist_ok=True)
    machine.build([bench.binary, "keys", "generate", "--dir", folder, "--first-use", "now", "--use", "sealing"])
    return folder
