"""The load of `soak`: one process that logs in, exchanges and logs out at a fixed rate, however slow the responses are.

It counts all responses. Those that are not what a healthy server sends, those of ended sessions, and a sample of the
granted tokens go to the process with the checker.
"""

import contextlib
import itertools
import json
import random
import sys
import time
from collections import Counter, deque
from pathlib import Path

# After the modules of this folder, some of which have the same names.
sys.path.append(str(Path(__file__).resolve().parent.parent / "bench"))

import open_loop
import wire
from clients import SCOPE, Response, Session

# To each replica.
CONNECTIONS = 32
LOGINS_PER_SECOND = 1
SESSIONS = 100
FIRST_SESSIONS = 50
ENDED_SESSIONS = 50
# One of so many requests is with an ended session, and one of so many granted tokens is verified.
ENDED_EVERY, VERIFIED_EVERY = 500, 500
HEADERS = {"content-type": "application/json"}


class Load:
    """`events` receives Counters, ("late", seconds), and (operation, session, started, response) of what has to be checked."""

    def __init__(self, urls, users, rate, events):
        self.urls, self.rate, self.events = urls, rate, events
        self.users = itertools.cycle(users)
        self.active, self.ended = deque(), deque(maxlen=ENDED_SESSIONS)
        self.count = Counter()
        self.late = 0.0

    def run(self, stop):
        for _ in range(FIRST_SESSIONS):
            user, content = self._login()
            response = wire.send("POST", f"{self.urls[0]}/api/v1/auth/login", HEADERS, content)
            self._started(user, json.loads(response.body))
        with contextlib.ExitStack() as stack:
            pool = open_loop.ConnectionPool(self.urls, CONNECTIONS, stack)
            begin = next_login = next_report = time.monotonic()
            sent = 0
            while True:
                now = time.monotonic()
                if now >= next_report:
                    self._report()
                    next_report += 1
                    if stop.is_set():
                        return
                due = begin + sent / self.rate
                while due <= now and pool.free:
                    self.late = max(self.late, now - due)
                    if now >= next_login:
                        operation, session, content = "login", *self._request_login()
                        next_login += 1 / LOGINS_PER_SECOND
                    else:
                        operation, session, content = self._request(sent, now)
                    # What is due is only known to the pool as a value that comes back with the response.
                    pool.send(content, (operation, session, now), None)
                    sent += 1
                    now = time.monotonic()
                    due = begin + sent / self.rate
                timeout = due - now if pool.free else 0.5
                for context, response in pool.responses(max(0, min(timeout, 0.5))):
                    self._received(*context, response)

    def _report(self):
        self.events.put(self.count)
        self.events.put(("late", self.late))
        self.count, self.late = Counter(), 0.0

    def _login(self):
        user = next(self.users)
        return user, json.dumps({"email": user.email, "password": user.password}).encode()

    def _request_login(self):
        user, body = self._login()
        return user, wire.request("POST", f"{self.urls[0]}/api/v1/auth/login", HEADERS, body)

    def _request(self, sent, now):
        if len(self.active) > SESSIONS:
            session = self.active.popleft()
            session.logout_started = now
            body = json.dumps(session.pair()).encode()
            return "logout", session, wire.request("POST", f"{self.urls[0]}/api/v1/auth/logout", HEADERS, body)
        if sent % ENDED_EVERY == 0 and self.ended:
            session = random.choice(self.ended)
        else:
            session = self.active[sent % len(self.active)]
        return "exchange", session, session.exchange

    def _started(self, user, body):
        session = Session(user, body["session_id"], body["session_token"], time.monotonic())
        content = json.dumps({**session.pair(), "grant_type": "session", "scope": SCOPE}).encode()
        # Made once: it is sent thousands of times.
        session.exchange = wire.request("POST", f"{self.urls[0]}/api/v1/auth/token", HEADERS, content)
        self.active.append(session)

    def _received(self, operation, session, started, response):
        self.count[operation, response.status] += 1
        if response.status == 200:
            if operation == "login":
                self._started(session, json.loads(response.body))
                return
            if operation == "logout":
                session.logout_confirmed = time.monotonic()
                self.ended.append(session)
                return
            granted = self.count["exchange", 200]
            if session.logout_started == float("inf") and granted % VERIFIED_EVERY:
                return
        try:
            body = json.loads(response.body)
        except ValueError:
            body = {"not JSON": repr(response.body[:300])}
        self.events.put((operation, session, started, Response(response.status, body, "", 0)))


def run(urls, users, rate, events, stop):
    try:
        Load(urls, users, rate, events).run(stop)
    except Exception as failure:
        events.put(("failure", repr(failure)))
    events.put(None)
