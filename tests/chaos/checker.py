"""Checks every response against the guarantees, and counts for the report."""

import threading
import time
from collections import Counter

import jwt

from clients import RETRYABLE, SCOPE

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
        bound = self._bound(session, started)
        if bound is None:
            self._increment("granted after logout, as stale_if_error allows")
        elif since > bound:
            self.violation("accepted after logout", f"{since:.1f} s after its logout, by {response.server}")
        else:
            self._increment("granted after logout, within the bound")

    def _bound(self, session, now):
        """Seconds after the end of a session in which another replica may still accept it. None: until `stale_if_error`
        ends, because neither Keycloak nor Redis could report the end."""
        ended = session.logout_confirmed
        published = self.redis is not None and not self.redis.overlap(ended - SLACK_SECONDS, now)
        if published:
            return SLACK_SECONDS
        if session.revoked:
            # Keycloak calls the session active.
            return None
        if self.keycloak.overlap(ended - self.freshness, now):
            return None
        return self.freshness + SLACK_SECONDS

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
