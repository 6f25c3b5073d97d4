"""Ordinary clients: they log in, exchange, log out, and give every request that fails a second attempt and no third.

A request has failed where no answer came (the connection could not be made, or ended before the answer did) and where
the answer is a 429, 500, 502, 503 or 504. The second attempt comes after what `Retry-After` says, at most 3 s, or after
0.3 s where nothing is said: what HTTP libraries do with `retries = 1` and what the API's description asks for.
Repeating is safe here: an exchange changes nothing, a logout may be repeated, and of two logins one is left unused.
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
AGAIN = {429, 500, 502, 503, 504}
PAUSE_SECONDS = 0.3
PAUSE_MAX_SECONDS = 3
# Longer than any deadline of the gateway: it is the gateway that gives up first.
PATIENCE_SECONDS = 15


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
    began: float
    # The first attempt to log out, and the first that was confirmed.
    leaving: float = float("inf")
    left: float = float("inf")
    # By an operator: the IAM does not know of it.
    revoked: bool = False
    # Which replica has exchanged it, and when the last such exchange began.
    known: dict = field(default_factory=dict)

    def pair(self):
        return {"session_id": self.session_id, "session_token": self.session_token}


@dataclass
class Answer:
    status: int  # 0: none came
    body: dict
    server: str
    retry_after: float


class Failed(Exception):
    """No answer came."""


class Operator:
    """Ends sessions through the management listeners of the replicas."""

    def __init__(self, gateways, token):
        self.gateways, self.token = gateways, token

    def revoke(self, session_id, dice):
        """Whether a replica has recorded it. A replica that is killed is no failure of the others."""
        for gateway in dice.sample(self.gateways, len(self.gateways)):
            request = urllib.request.Request(
                f"http://127.0.0.1:{gateway.management}/admin/v1/sessions/revoke",
                json.dumps({"session_id": session_id}).encode(),
                {"content-type": "application/json", "authorization": f"Bearer {self.token}"})
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS):
                    return True
            except urllib.error.HTTPError:
                raise
            except OSError:
                continue
        return False


class Client(threading.Thread):
    """Sends so many requests a second, one after another, over one connection while it lasts."""

    SESSIONS = 5
    GRAVES = 12

    def __init__(self, number, port, rate, users, operator, ledger, stopping):
        super().__init__(name=f"client-{number}", daemon=True)
        self.operator = operator
        self.dice = random.Random(number)
        self.port, self.rate, self.users, self.ledger, self.stopping = port, rate, users, ledger, stopping
        self.connection = None
        self.alive, self.dead = [], []
        self.failure = None

    def run(self):
        try:
            due = time.monotonic() + self.dice.random() / self.rate
            while not self.stopping.wait(max(0, due - time.monotonic())):
                self.act()
                # Whoever is late does not hurry.
                due = max(due + 1 / self.rate, time.monotonic())
        except Exception as failure:
            self.failure = failure
            self.stopping.set()
            raise

    def act(self):
        roll = self.dice.random()
        if len(self.alive) < self.SESSIONS and (roll < 0.3 or not self.alive):
            self.log_in()
        elif roll < 0.03:
            self.log_out(self.alive.pop(self.dice.randrange(len(self.alive))))
        elif roll < 0.04 and self.alive:
            self.revoke(self.alive.pop(self.dice.randrange(len(self.alive))))
        elif roll < 0.15 and self.dead:
            self.exchange(self.dice.choice(self.dead))
        elif self.alive:
            self.exchange(self.dice.choice(self.alive))

    def log_in(self):
        user = self.dice.choice(self.users)
        body = {"email": user.email, "password": user.password}
        began, answer = self.twice("login", "/api/v1/auth/login", body)
        if self.ledger.logged_in(began, answer):
            body = answer.body
            self.alive.append(Session(user, body["session_id"], body["session_token"], time.monotonic()))

    def exchange(self, session):
        body = {**session.pair(), "grant_type": "session", "scope": SCOPE}
        judge = lambda began, answer: self.ledger.exchanged(session, began, answer)
        self.twice("exchange", "/api/v1/auth/token", body, session, judge)

    def log_out(self, session):
        session.leaving = min(session.leaving, time.monotonic())
        began, answer = self.twice("logout", "/api/v1/auth/logout", session.pair())
        if self.ledger.logged_out(began, answer):
            session.left = time.monotonic()
            self.dead = [*self.dead[1 - self.GRAVES:], session]
        else:
            # A client without a confirmed logout tries again later.
            self.alive.append(session)

    def revoke(self, session):
        """An operator ends it, at a replica that runs."""
        session.leaving = min(session.leaving, time.monotonic())
        if self.operator.revoke(session.session_id, self.dice):
            session.revoked, session.left = True, time.monotonic()
            self.ledger.revoked()
            self.dead = [*self.dead[1 - self.GRAVES:], session]
        else:
            self.alive.append(session)

    def twice(self, operation, path, body, session=None, judge=None):
        """When the request began, and its last answer."""
        began = time.monotonic()
        answer = self.once(operation, path, body, judge)
        retried = answer.status == 0 or answer.status in AGAIN
        if retried:
            pause = answer.retry_after if answer.status else PAUSE_SECONDS
            time.sleep(pause)
            answer = self.once(operation, path, body, judge)
        self.ledger.finished(operation, session, began, retried, answer)
        return began, answer

    def once(self, operation, path, body, judge):
        began = time.monotonic()
        try:
            answer = self.send(path, json.dumps(body))
        except (OSError, http.client.HTTPException):
            self.hang_up()
            answer = Answer(0, {}, "", PAUSE_SECONDS)
        self.ledger.attempted(operation, began, answer)
        if judge is not None:
            judge(began, answer)
        return answer

    def send(self, path, body):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        self.connection.request("POST", path, body, {"content-type": "application/json"})
        answer = self.connection.getresponse()
        said = answer.read()
        wait = answer.getheader("retry-after")
        wait = min(float(wait), PAUSE_MAX_SECONDS) if wait else PAUSE_SECONDS
        try:
            said = json.loads(said)
        except ValueError:
            # The balancer's own words.
            said = {}
        return Answer(answer.status, said, answer.getheader("x-served-by") or "", wait)

    def hang_up(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None
