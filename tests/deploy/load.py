"""Constant load of logins, exchanges and logouts, without retries, and the mock in place of a Keycloak."""

import base64
import collections
import http.client
import json
import threading
import time

import machine
import servers

EXCHANGES = 6
SCOPE = "urn:shop:orders:order:read"
ALICE = {"email": "alice@example.test", "password": "alice-pass"}
# Until the clients, which send one request after another, have ended.
JOIN_SECONDS = 30


class MockIam(servers.Server):
    """The mock in Keycloak's protocol."""

    def __init__(self, binary, folder):
        super().__init__("mock-iam", folder)
        self.binary = binary.with_name("auth-gateway-dev")
        if not self.binary.is_file():
            raise machine.CannotRun(f"{self.binary} is not built")
        (port,) = machine.free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.settings = machine.keycloak_settings({
            "url": self.url, "realm": "shop", "client_id": "auth-gateway", "client_secret": "of-the-drill-0123456789abcdef"})

    def command(self):
        return [self.binary, "mock-iam", "--backchannel-logout-url", "none"]

    def environment(self):
        return servers.settings_environment(self.settings)

    def is_ready(self):
        return servers.responds_200(f"{self.url}/realms/shop/.well-known/openid-configuration")


class Counts:
    """What all clients met."""

    def __init__(self):
        self._lock = threading.Lock()
        self.requests, self.failed = collections.Counter(), collections.Counter()
        self.examples, self.kids = [], {"signing": set(), "sealing": set()}

    def add(self, mode, operation, problem):
        with self._lock:
            self.requests[mode, operation] += 1
            if problem:
                self.failed[mode, operation] += 1
                self.examples.append(f"{time.strftime('%H:%M:%S')} {operation} ({mode}): {problem}")

    def print_table(self):
        for mode, operation in sorted(self.requests):
            print(f"{f'{operation} ({mode})':<44} {self.requests[mode, operation]}, failed: {self.failed[mode, operation]}")
        print(f"{'requests':<44} {self.requests.total()}, failed: {self.failed.total()}")

    def problems(self):
        return [f"{self.failed.total()} requests failed", *self.examples[:20]] if self.failed else []

    def add_kid(self, use, token):
        head = token.partition(".")[0]
        with self._lock:
            self.kids[use].add(json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))["kid"])


class Client(threading.Thread):
    """Logs in, exchanges and logs out at a fixed rate, over one connection. Its first session lasts until the end."""

    # How much of a delay it makes up for by requests without pauses.
    CATCHES_UP_SECONDS = 0

    def __init__(self, mode, port, rate, counts, stopping, keep_alive=True, user=ALICE):
        super().__init__(daemon=True)
        self.user = user
        self.mode, self.pause, self.counts, self.stopping = mode, 1 / rate, counts, stopping
        self.headers = {"content-type": "application/json"} | ({} if keep_alive else {"connection": "close"})
        # Opens a new connection only if the response to the previous request ended the connection.
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
        self.due = time.monotonic() + self.pause * hash(self.name) % 1

    def run(self):
        try:
            self.send_all()
        except Exception as error:  # A response that is not what the status says.
            self.counts.add(self.mode, "client", repr(error))

    def send_all(self):
        lasting = ended = None
        while not self.stopping.is_set():
            lasting = lasting or self.log_in()
            session = self.log_in()
            for _ in range(EXCHANGES):
                self.exchange("exchange", session, 200)
            # Since its logout, the other replicas have had time to read it from Redis, also on a busy machine.
            self.exchange("exchange after the logout", ended, 401)
            self.exchange("exchange of the first session", lasting, 200)
            ended = session if session and self.send("logout", session, 200) else None

    def log_in(self):
        body = self.send("login", self.user, 200)
        if body is None:
            return None
        self.counts.add_kid("sealing", body["session_token"])
        return {name: body[name] for name in ("session_id", "session_token")}

    def exchange(self, operation, session, expected):
        """The body of the response, as from `send`."""
        if session is None:
            return None
        body = self.send(operation, session | {"grant_type": "session", "scope": SCOPE}, expected)
        if body is not None and expected == 200:
            self.counts.add_kid("signing", body["access_token"])
        return body

    def send(self, operation, body, expected):
        """The body of the response; None if it is not the expected one, or at the end of the test."""
        if self.stopping.wait(max(0, self.due - time.monotonic())):
            return None
        self.due = max(self.due + self.pause, time.monotonic() - self.CATCHES_UP_SECONDS)
        path = f"/api/v1/auth/{'token' if operation.startswith('exchange') else operation}"
        try:
            self.connection.request("POST", path, json.dumps(body), self.headers)
            response = self.connection.getresponse()
            status, content = response.status, response.read()
            problem = None if status == expected else f"{status} {content[:200]!r}"
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            problem = repr(error)
        self.counts.add(self.mode, operation, problem)
        return None if problem else json.loads(content)


def stop(clients, stopping):
    stopping.set()
    for client in clients:
        client.join(timeout=JOIN_SECONDS)
