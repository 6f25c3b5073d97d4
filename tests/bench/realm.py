"""A real Keycloak for the benchmarks, with cheap password hashes and many sessions."""

import json
import urllib.parse

import load
import machine
import servers
import wire
from authorization_servers import FORM, AuthorizationServer, basic, form
from load import Load
from wire import Failure

# The cost of a password hash is not measured.
CHEAP_PASSWORDS = "hashAlgorithm(pbkdf2-sha256) and hashIterations(1)"
WARM_UP_RUNS = 12
WARM_UP_GAIN = 1.05


class Keycloak(AuthorizationServer):
    name, launcher = "Keycloak", "keycloak.py"
    paths = {"introspection": "token/introspect"}

    def __init__(self, facts):
        super().__init__(facts)
        self._tokens = []
        # So that name resolution has no effect on the figures.
        self.loopback = facts["url"].replace("//localhost", f"//{wire.LOOPBACK}")

    def endpoint(self, name, realm=None):
        path = self.paths.get(name, name)
        return f"{self.loopback}/realms/{realm or self.facts['realm']}/protocol/openid-connect/{path}"

    def as_client(self):
        return basic(self.facts["client_id"], self.facts["client_secret"])

    def iam_settings(self):
        return machine.keycloak_settings(self.facts)

    def prepare(self):
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

    def refresh_tokens(self, bench, count):
        """Refresh tokens of `count` sessions, made by logins without the gateway. Later calls return the same tokens."""
        missing = count - len(self._tokens)
        if missing <= 0:
            return self._tokens[:count]
        login = bench.folder / "keycloak-login"
        login.write_text(self.grant() + "\n")
        responses = bench.folder / "keycloak-sessions"
        logins = Load("Keycloak's login", self.endpoint("token"), login, '"refresh_token":"', self.as_client())
        load.run(logins, bench.both, bench.connections, count=missing, keep=responses)
        self._tokens += [json.loads(line)["refresh_token"] for line in responses.read_text().splitlines()]
        return self._tokens

    def introspections(self, bench, tokens):
        return self._load(bench, "introspection", "introspection", self.active,
                          [self.introspection({self.introspected: token}) for token in tokens])

    def refresh_grants(self, bench, tokens):
        return self._load(bench, "refresh", "token", '"access_token":"ey',
                          [form(grant_type="refresh_token", refresh_token=token) for token in tokens])

    def _load(self, bench, name, endpoint, expect, lines):
        bodies = bench.folder / f"keycloak-{name}"
        bodies.write_text("\n".join(lines) + "\n")
        return Load(f"Keycloak's {name}", self.endpoint(endpoint), bodies, expect, self.as_client())


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


def gateway_sessions(bench, settings, count, config=None):
    """Bodies of exchanges, one for each of `count` new sessions of a gateway with these settings."""
    login, responses = bench.folder / "gateway-login", bench.folder / "gateway-sessions"
    login.write_text(json.dumps(servers.CREDENTIALS) + "\n")
    with servers.gateway(bench, bench.both, settings, config=config) as gateway:
        logins = Load("the gateway's login", f"{gateway.url}/api/v1/auth/login", login, '"session_token":"')
        load.run(logins, bench.both, bench.connections, count=count, keep=responses)
    return [servers.exchange_body(json.loads(line)) for line in responses.read_text().splitlines()]


def sealing_keys(bench):
    """A folder with a key, so that a gateway can open the sessions of an earlier one."""
    folder = bench.folder / "sealing"
    folder.mkdir(mode=0o700, exist_ok=True)
    machine.build([bench.binary, "keys", "generate", "--dir", folder, "--first-use", "now", "--use", "sealing"])
    return folder
