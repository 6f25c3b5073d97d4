"""Checks every response against the guarantees, and counts for the report.

    python3 tests/chaos/checker.py    checks the bounds with outages at known times
"""

import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import jwt

from clients import RETRYABLE, SCOPE, Session

# Tolerance for the time between the decision of one replica and that of another.
SLACK_SECONDS = 3
VIOLATIONS_SHOWN = 20


class Checker:
    def __init__(self, gateways, keycloak, redis, freshness_seconds, issuer, lifetime_seconds=float("inf")):
        """`keycloak` and `redis` are their outages; `redis` is None in a run without Redis. `lifetime_seconds`: of sessions."""
        self.gateways = {gateway.name: gateway for gateway in gateways}
        self.keycloak, self.redis, self.freshness, self.issuer = keycloak, redis, freshness_seconds, issuer
        self.keys = {}
        self.count = Counter()
        self.seconds = {"login": [], "exchange": [], "logout": []}
        self.lifetime = lifetime_seconds
        # The number of all violations, and examples.
        self.violated, self.violations = 0, []
        self._lock = threading.Lock()

    def publish(self, key_set):
        """Stores the key set, as a verifier would that fetches it once."""
        self.keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(key_set).keys}

    def violation(self, kind, what):
        with self._lock:
            self.count[kind] += 1
            self.violated += 1
            if len(self.violations) < VIOLATIONS_SHOWN:
                self.violations.append(f"{kind}: {what}")

    def attempted(self, operation, started, response):
        with self._lock:
            self.count["attempts"] += 1
            self.count[f"status {response.status or 'none'}"] += 1
            self.seconds[operation].append(time.monotonic() - started)

    def finished(self, operation, session, started, retried, response):
        with self._lock:
            self.count["requests"] += 1
            self.count[f"requests of {operation}"] += 1
            self.count["retried"] += retried
        keycloak_down = self.keycloak.overlap(started, time.monotonic())
        cached = self._is_cached(operation, session)
        if response.status != 0 and response.status not in RETRYABLE:
            if keycloak_down and cached:
                self._increment("served without Keycloak")
            return
        if keycloak_down and not cached:
            self._increment(f"{operation} postponed")
            return
        self.violation("lost", f"{operation}: {response.status} {response.body} by {response.server or 'no replica'}")

    def _is_cached(self, operation, session):
        """Whether every replica has the session in its cache, and so must serve it without Keycloak."""
        if operation != "exchange" or session.logout_started != float("inf"):
            return False
        return all(self._has_cached(gateway, session.last_exchanges.get(name, 0)) for name, gateway in self.gateways.items())

    def _has_cached(self, gateway, exchanged):
        """A replica that may have missed revocations distrusts its earlier cached data."""
        missed = self.redis is not None and self.redis.overlap(exchanged, time.monotonic())
        return exchanged > gateway.started and not missed

    def logged_in(self, started, response):
        if response.status in (400, 401):
            self.violation("refused login", f"{response.status} {response.body} by {response.server}")
        return response.status == 200

    def logged_out(self, session, started, response):
        age = started - session.started
        if response.status == 400 and self._may_have_expired(age):
            # Its sealing key may have been removed.
            self._increment("refused after its lifetime")
        elif response.status in (400, 401):
            self.violation("refused logout", f"{response.status} {response.body} by {response.server}, a session of {age:.1f} s")
        return response.status == 200

    def revoked(self):
        self._increment("revoked by an operator")

    def exchanged(self, session, started, response):
        age = started - session.started
        if response.status == 200:
            if age > self.lifetime + SLACK_SECONDS:
                self.violation("accepted after its lifetime", f"a session of {age:.1f} s, by {response.server}")
            self._granted(session, started, response)
        elif response.status == 401 and self._may_have_expired(age):
            self._increment("refused after its lifetime")
        elif response.status == 401:
            if session.logout_started == float("inf"):
                self.violation("spurious 401", f"a session of {age:.1f} s, by {response.server}")
            elif session.logout_confirmed < started:
                self._increment("refused after logout")
        elif response.status != 0 and response.status not in RETRYABLE:
            self.violation("unexpected response", f"{response.status} {response.body}")

    def _may_have_expired(self, age):
        return age > self.lifetime - SLACK_SECONDS

    def _increment(self, what):
        with self._lock:
            self.count[what] += 1

    def _granted(self, session, started, response):
        self._verify(session, response.body)
        if session.logout_started == float("inf"):
            session.last_exchanges[response.server] = started
        since = started - session.logout_confirmed
        if since <= 0:
            return
        bound = self._bound(session, started, time.monotonic())
        if bound is None:
            self._increment("granted after logout, as stale_if_error allows")
        elif since > bound:
            self.violation("accepted after logout", f"{since:.1f} s after its logout, by {response.server}")
        else:
            self._increment("granted after logout, within the bound")

    def _bound(self, session, started, now):
        """Seconds after the end of a session in which a request of this time may still be granted (docs/guarantees.md). None:
        no bound is promised while neither Keycloak nor Redis can report the end, nor for a revocation that was lost."""
        if self.redis is not None and not self.redis.overlap(started - SLACK_SECONDS, now) and not self._may_be_lost(session):
            return SLACK_SECONDS
        if session.revoked:
            # Keycloak calls the session active.
            return None
        if self.keycloak.overlap(started, now):
            return None
        return self.freshness + SLACK_SECONDS

    def _may_be_lost(self, session):
        """Whether in one outage of Redis each replica was restarted that knew the revocation, so that none adds it again; also
        if it is not known which replica knew it."""
        for begin, end in self.redis.since(session.logout_confirmed - SLACK_SECONDS):
            was_shared = session.logout_confirmed < begin - SLACK_SECONDS
            knew = [gateway for name, gateway in self.gateways.items() if was_shared or name == session.ended_by]
            since = max(session.logout_started, begin - SLACK_SECONDS)
            if all(any(since <= start <= end for start in gateway.starts) for gateway in knew):
                return True
        return False

    def _verify(self, session, body):
        token = body["access_token"]
        try:
            key = self.keys[jwt.get_unverified_header(token)["kid"]]
            claims = jwt.decode(token, key, algorithms=["ES256"], issuer=self.issuer, audience=self.issuer)
        except (KeyError, jwt.PyJWTError) as error:
            return self.violation("unverifiable token", repr(error))
        if claims["sub"] != session.user.subject or claims["sid"] != session.session_id:
            return self.violation("wrong user", f"{claims['sub']} instead of {session.user.subject}")
        if not claims.get("scope") == body["scope"] == session.user.scope:
            self.violation("wrong scope", f"{body['scope']!r} of {SCOPE!r} instead of {session.user.scope!r}")


def check_bounds():
    """Raises AssertionError if a bound is another one than documented: in an outage of Redis or Keycloak, or after it."""
    from servers import Outages

    freshness, redis, keycloak = 5, Outages(0, [(100, 112)]), Outages(0, [(200, 220)])

    def bound(at, confirmed, revoked=False, restarts=(), redis=redis):
        """Of a session that ended at the replica `a`. `restarts`: of replicas, with their times."""
        gateways = [SimpleNamespace(name=name, starts=[0, *(time for of, time in restarts if of == name)]) for name in "abc"]
        session = Session(None, "", "", 0, confirmed, confirmed, "a", revoked)
        return Checker(gateways, keycloak, redis, freshness, "")._bound(session, at, at)

    after_freshness = freshness + SLACK_SECONDS
    all_restarted = [("a", 102), ("b", 105), ("c", 111)]
    assert bound(60, 50) == bound(60, 50, revoked=True) == SLACK_SECONDS, "with Redis"
    assert bound(105, 50) == after_freshness and bound(105, 50, revoked=True) is None, "while Redis is down"
    assert bound(116, 50) == bound(116, 50, revoked=True) == SLACK_SECONDS, "when Redis is back"
    assert bound(116, 105) == bound(116, 105, revoked=True) == SLACK_SECONDS, "when Redis is back, for an end in its outage"
    assert bound(116, 50, True, all_restarted[1:]) == SLACK_SECONDS, "a replica has added the revocation again"
    assert bound(116, 50, True, all_restarted) is None, "no replica knew the revocation"
    assert bound(116, 103, True, all_restarted[1:]) == SLACK_SECONDS, "only others were restarted"
    assert bound(116, 101, True, all_restarted[:1]) is None, "the only replica that knew the revocation was restarted"
    assert bound(116, 101, False, all_restarted[:1]) == after_freshness, "Keycloak knows the logout"
    assert bound(210, 190, redis=None) is None, "without Redis, while Keycloak is down"
    assert bound(221, 190, redis=None) == after_freshness, "without Redis, when Keycloak is back"
    assert bound(60, 50, revoked=True, redis=None) is None, "without Redis, no other replica knows a revocation"


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parent.parent / "live"))
    check_bounds()
