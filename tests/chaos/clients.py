"""Clients that log in, exchange and log out. A failed request is retried once.

A request fails if no response arrives (the connection fails or ends too early), or if the response is a 429, 500, 502,
503 or 504. The retry starts after `Retry-After`, at most 3 s, or after 0.3 s without that header. HTTP libraries with
`retries = 1` do the same, and the API's description asks for it.
Repeating is safe: an exchange changes nothing, a logout may be repeated, and of two logins one stays unused.
"""

import http.client
import json
import random
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field

SCOPE = "urn:shop:orders:order:read urn:shop:orders:order:write urn:shop:catalog:item:read"
RETRYABLE = {429, 500, 502, 503, 504}
RETRY_SECONDS = 0.3
RETRY_MAX_SECONDS = 3
# Longer than any deadline of the gateway, so that the deadline of the gateway ends a request first.
TIMEOUT_SECONDS = 15


@dataclass
class User:
    email: str
    password: str
    scope: str
    subject: str = ""


@dataclass
class Session:
    user: User
    session_id: str
    session_token: str
    started: float
    # When the first attempt to log out started, and when the first one was confirmed.
    logout_started: float = float("inf")
    logout_confirmed: float = float("inf")
    # The replica that confirmed it; empty if it is not known which.
    ended_by: str = ""
    # By an operator: the IAM has no record of it.
    revoked: bool = False
    # The start of the last exchange of this session, by replica.
    last_exchanges: dict = field(default_factory=dict)

    def pair(self):
        return {"session_id": self.session_id, "session_token": self.session_token}


@dataclass
class Response:
    status: int  # 0: no response
    body: dict
    server: str
    retry_after: float


class Operator:
    """Ends sessions through the management listeners of the replicas."""

    def __init__(self, gateways, token):
        self.gateways, self.token = gateways, token

    def revoke(self, session_id, rng):
        """Returns the name of the replica that has recorded it; None if all are down."""
        for gateway in rng.sample(self.gateways, len(self.gateways)):
            request = urllib.request.Request(
                f"http://127.0.0.1:{gateway.management}/admin/v1/sessions/revoke",
                json.dumps({"session_id": session_id}).encode(),
                {"content-type": "application/json", "authorization": f"Bearer {self.token}"})
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):
                    return gateway.name
            except urllib.error.HTTPError:
                raise
            except OSError:
                continue
        return None


class Client(threading.Thread):
    """Sends requests at a fixed rate, one after another, over one connection while it is open."""

    SESSIONS = 5
    ENDED_SESSIONS = 12

    def __init__(self, number, port, rate, users, operator, checker, stopping):
        super().__init__(name=f"client-{number}", daemon=True)
        self.operator = operator
        self.rng = random.Random(number)
        self.port, self.rate, self.users, self.checker, self.stopping = port, rate, users, checker, stopping
        self.connection = None
        self.active, self.ended = [], []
        self.failure = None

    def run(self):
        try:
            due = time.monotonic() + self.rng.random() / self.rate
            while not self.stopping.wait(max(0, due - time.monotonic())):
                self.act()
                # A late client does not send a burst of requests to catch up.
                due = max(due + 1 / self.rate, time.monotonic())
        except Exception as failure:
            self.failure = failure
            self.stopping.set()
            raise

    def act(self):
        draw = self.rng.random()
        if len(self.active) < self.SESSIONS and (draw < 0.3 or not self.active):
            self.log_in()
        elif draw < 0.03:
            self.log_out(self.active.pop(self.rng.randrange(len(self.active))))
        elif draw < 0.04 and self.active:
            self.revoke(self.active.pop(self.rng.randrange(len(self.active))))
        elif draw < 0.15 and self.ended:
            self.exchange(self.rng.choice(self.ended))
        elif self.active:
            self.exchange(self.rng.choice(self.active))

    def log_in(self):
        user = self.rng.choice(self.users)
        body = {"email": user.email, "password": user.password}
        started, response = self.send_with_retry("login", "/api/v1/auth/login", body)
        if self.checker.logged_in(started, response):
            body = response.body
            self.active.append(Session(user, body["session_id"], body["session_token"], time.monotonic()))

    def exchange(self, session):
        body = {**session.pair(), "grant_type": "session", "scope": SCOPE}
        check = lambda started, response: self.checker.exchanged(session, started, response)
        self.send_with_retry("exchange", "/api/v1/auth/token", body, session, check)

    def log_out(self, session):
        session.logout_started = min(session.logout_started, time.monotonic())
        started, response = self.send_with_retry("logout", "/api/v1/auth/logout", session.pair())
        if self.checker.logged_out(session, started, response):
            session.ended_by, session.logout_confirmed = response.server, time.monotonic()
            self.ended = [*self.ended[1 - self.ENDED_SESSIONS:], session]
        else:
            # A client without a confirmed logout tries again later.
            self.active.append(session)

    def revoke(self, session):
        """An operator ends it at a replica that is running."""
        session.logout_started = min(session.logout_started, time.monotonic())
        if by := self.operator.revoke(session.session_id, self.rng):
            session.ended_by, session.revoked, session.logout_confirmed = by, True, time.monotonic()
            self.checker.revoked()
            self.ended = [*self.ended[1 - self.ENDED_SESSIONS:], session]
        else:
            self.active.append(session)

    def send_with_retry(self, operation, path, body, session=None, check=None):
        """Returns when the request started, and its last response."""
        started = time.monotonic()
        response = self.send_once(operation, path, body, check)
        retried = response.status == 0 or response.status in RETRYABLE
        if retried:
            delay = response.retry_after if response.status else RETRY_SECONDS
            time.sleep(delay)
            response = self.send_once(operation, path, body, check)
        self.checker.finished(operation, session, started, retried, response)
        return started, response

    def send_once(self, operation, path, body, check):
        started = time.monotonic()
        try:
            response = self.send(path, json.dumps(body))
        except (OSError, http.client.HTTPException):
            self.close()
            response = Response(0, {}, "", RETRY_SECONDS)
        self.checker.attempted(operation, started, response)
        if check is not None:
            check(started, response)
        return response

    def send(self, path, body):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_SECONDS)
        self.connection.request("POST", path, body, {"content-type": "application/json"})
        response = self.connection.getresponse()
        content = response.read()
        wait = response.getheader("retry-after")
        wait = min(float(wait), RETRY_MAX_SECONDS) if wait else RETRY_SECONDS
        try:
            content = json.loads(content)
        except ValueError:
            # An error page of the load balancer.
            content = {}
        return Response(response.status, content, response.getheader("x-served-by") or "", wait)

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None
