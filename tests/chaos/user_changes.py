"""Changes users at the IAM, and checks that the gateway follows within its limits."""

import json
import threading
import time
import urllib.parse
from collections import Counter

import wire
from clients import RETRYABLE, SCOPE
from servers import ServerError

CHANGED_SCOPE = "urn:shop:orders:order:write"
KEPT_SCOPE = "urn:shop:orders:order:read"
SLACK_SECONDS = 5
PASSWORD = "changed-pass"


class UserChanges(threading.Thread):
    """Each user gets a role and loses it, is disabled, and is enabled, over and over; all users at once."""

    def __init__(self, keycloak, outages, gateways, count, bound_seconds, checker, stopping):
        """`bound_seconds`: after a change, when no token may be granted as before it. Keycloak must have been reachable."""
        super().__init__(name="users", daemon=True)
        self.keycloak, self.outages, self.bound = keycloak, outages, bound_seconds + SLACK_SECONDS
        self.urls = [f"http://127.0.0.1:{gateway.public}/api/v1/auth" for gateway in gateways]
        self.checker, self.stopping = checker, stopping
        self.count = Counter()
        self.failure = None
        (client,) = keycloak.administer("GET", "/clients?clientId=shop-api")
        self.roles = f"role-mappings/clients/{client['id']}"
        role = lambda name: keycloak.administer("GET", f"/clients/{client['id']}/roles/{urllib.parse.quote(name, safe='')}")
        self.role = role(CHANGED_SCOPE)
        self.users = {}
        for number in range(count):
            email = f"changed-{number}@example.test"
            keycloak.administer("POST", "/users", {
                "username": f"changed-{number}", "email": email, "emailVerified": True, "enabled": True,
                "firstName": "Changed", "lastName": "User",
                "credentials": [{"type": "password", "value": PASSWORD, "temporary": False}]})
            (user,) = keycloak.administer("GET", f"/users?exact=true&email={urllib.parse.quote(email)}")
            self.users[email] = user["id"]
            keycloak.administer("POST", f"/users/{user['id']}/{self.roles}", [role(KEPT_SCOPE)])

    def run(self):
        try:
            while not self.stopping.is_set():
                self.change()
        except Stopped:
            pass
        except Exception as failure:
            self.failure = failure
            self.stopping.set()

    def change(self):
        bodies = [self.log_in(email) for email in self.users]
        for method, scope in (("POST", f"{KEPT_SCOPE} {CHANGED_SCOPE}"), ("DELETE", KEPT_SCOPE)):
            for user in self.users.values():
                self.administer(method, f"/users/{user}/{self.roles}", [self.role])
            self.await_all("role", bodies, lambda response, scope=scope: response.status == 200
                           and set(json.loads(response.body)["scope"].split()) == set(scope.split()))
        self.set_enabled(False)
        self.await_all("disabled", bodies, lambda response: response.status == 401)
        for email in self.users:
            self.log_in(email, expected=401)
        self.set_enabled(True)

    def set_enabled(self, enabled):
        for user in self.users.values():
            self.administer("PUT", f"/users/{user}", {"enabled": enabled})

    def administer(self, method, path, body):
        while True:
            started = time.monotonic()
            try:
                return self.keycloak.administer(method, path, body)
            except (OSError, ServerError):
                # The change may have been made; each may be repeated.
                if not self.outages.overlap(started, time.monotonic()):
                    raise
                self.wait(1)

    def log_in(self, email, expected=200):
        """The body of an exchange of the new session."""
        while True:
            response = self.send("login", 0, {"email": email, "password": PASSWORD})
            if response is not None and response.status == expected:
                self.count[f"login, {expected}"] += 1
                if expected == 200:
                    session = json.loads(response.body)
                    pair = {name: session[name] for name in ("session_id", "session_token")}
                    return {**pair, "grant_type": "session", "scope": SCOPE}
                return None
            if response is not None:
                self.checker.violation("changed user", f"login: {response.status} {response.body[:300]!r} instead of {expected}")
            self.wait(1)

    def await_all(self, what, bodies, is_as_changed):
        """Until each replica responds for each session as it must after the change."""
        changed = time.monotonic()
        pending = [(body, replica) for body in bodies for replica in range(len(self.urls))]
        late = False
        while pending:
            started, still = time.monotonic(), []
            for body, replica in pending:
                response = self.send("token", replica, body)
                if response is not None and is_as_changed(response):
                    self.count[f"followed: {what}"] += 1
                else:
                    still.append((body, replica))
            pending = still
            # Without Keycloak, the gateway cannot know the change, nor within the bound after its return.
            if pending and not late and started - changed > self.bound and not self.outages.overlap(started - self.bound, started):
                late = True
                self.checker.violation("changed user", f"{what}: not followed after {started - changed:.0f} s")
            if pending:
                self.wait(1)

    def send(self, operation, replica, body):
        """None: refused because Keycloak is down."""
        started = time.monotonic()
        content = json.dumps(body).encode()
        url = f"{self.urls[replica]}/{operation}"
        response = wire.send("POST", url, {"content-type": "application/json"}, content)
        self.count[f"status {response.status}"] += 1
        if response.status in RETRYABLE:
            if not self.outages.overlap(started, time.monotonic()):
                self.checker.violation("changed user", f"{operation}: {response.status} {response.body[:300]!r}")
            return None
        return response

    def wait(self, seconds):
        if self.stopping.wait(seconds):
            raise Stopped


class Stopped(Exception):
    """The test ends during a change."""
