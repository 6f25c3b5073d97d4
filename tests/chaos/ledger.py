"""What was promised, held against every answer, and what is counted for the table."""

import threading
import time
from collections import Counter

import jwt

from clients import AGAIN, SCOPE

# What may come between the decision of one replica and the next of another, over and above what is promised.
SLACK_SECONDS = 3
BREACHES_SHOWN = 20


class Ledger:
    def __init__(self, gateways, keycloak, redis, freshness_seconds, issuer):
        """`keycloak` and `redis` are their outages; the latter is None where there is no Redis."""
        self.gateways = {gateway.name: gateway for gateway in gateways}
        self.keycloak, self.redis, self.freshness, self.issuer = keycloak, redis, freshness_seconds, issuer
        self.keys = {}
        self.count = Counter()
        self.seconds = {"login": [], "exchange": [], "logout": []}
        self.breaches = []
        self._lock = threading.Lock()

    def publish(self, key_set):
        """The keys as a verifier fetched them, which never changes its mind."""
        self.keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(key_set).keys}

    def breach(self, kind, what):
        with self._lock:
            self.count[kind] += 1
            if len(self.breaches) < BREACHES_SHOWN:
                self.breaches.append(f"{kind}: {what}")

    def attempted(self, operation, began, answer):
        with self._lock:
            self.count["attempts"] += 1
            self.count[f"status {answer.status or 'none'}"] += 1
            self.seconds[operation].append(time.monotonic() - began)

    def finished(self, operation, session, began, retried, answer):
        with self._lock:
            self.count["requests"] += 1
            self.count[f"requests of {operation}"] += 1
            self.count["retried"] += retried
        away = self.keycloak.overlap(began, time.monotonic())
        alone = self._needs_nobody(operation, session)
        if answer.status != 0 and answer.status not in AGAIN:
            if away and alone:
                self._counted("served without Keycloak")
            return
        if away and not alone:
            self._counted(f"{operation} postponed")
            return
        self.breach("lost", f"{operation}: {answer.status} {answer.body} by {answer.server or 'no replica'}")

    def _needs_nobody(self, operation, session):
        """Whether every replica that could be asked knows the session, and so must get by without Keycloak."""
        if operation != "exchange" or session.leaving != float("inf"):
            return False
        return all(self._knows(gateway, session.known.get(name, 0)) for name, gateway in self.gateways.items())

    def _knows(self, gateway, exchanged):
        """A replica that may have missed revocations distrusts its earlier cached data."""
        missed = self.redis is not None and self.redis.overlap(exchanged, time.monotonic())
        return exchanged > gateway.began and not missed

    def logged_in(self, began, answer):
        if answer.status in (400, 401):
            self.breach("refused login", f"{answer.status} {answer.body} by {answer.server}")
        return answer.status == 200

    def logged_out(self, began, answer):
        if answer.status in (400, 401):
            self.breach("refused logout", f"{answer.status} {answer.body} by {answer.server}")
        return answer.status == 200

    def revoked(self):
        self._counted("revoked by an operator")

    def exchanged(self, session, began, answer):
        if answer.status == 200:
            self._granted(session, began, answer)
        elif answer.status == 401:
            if session.leaving == float("inf"):
                age = time.monotonic() - session.began
                self.breach("spurious 401", f"a session of {age:.1f} s, by {answer.server}")
            elif session.left < began:
                self._counted("refused after logout")
        elif answer.status != 0 and answer.status not in AGAIN:
            self.breach("strange answer", f"{answer.status} {answer.body}")

    def _counted(self, what):
        with self._lock:
            self.count[what] += 1

    def _granted(self, session, began, answer):
        self._verify(session, answer.body)
        if session.leaving == float("inf"):
            session.known[answer.server] = began
        since = began - session.left
        if since <= 0:
            return
        bound = self._bound(session, began)
        if bound is None:
            self._counted("granted after logout, as stale_if_error allows")
        elif since > bound:
            self.breach("resurrected", f"{since:.1f} s after its logout, by {answer.server}")
        else:
            self._counted("granted after logout, within the bound")

    def _bound(self, session, now):
        """Seconds after the end of a session in which another replica may not have noticed; None: for as long as old
        knowledge may be stretched, since neither Keycloak nor Redis could tell."""
        left = session.left
        published = self.redis is not None and not self.redis.overlap(left - SLACK_SECONDS, now)
        if published:
            return SLACK_SECONDS
        if session.revoked:
            # Keycloak calls the session active.
            return None
        if self.keycloak.overlap(left - self.freshness, now):
            return None
        return self.freshness + SLACK_SECONDS

    def _verify(self, session, body):
        token = body["access_token"]
        try:
            key = self.keys[jwt.get_unverified_header(token)["kid"]]
            claims = jwt.decode(token, key, algorithms=["ES256"], issuer=self.issuer, audience=self.issuer)
        except (KeyError, jwt.PyJWTError) as refusal:
            return self.breach("unverifiable token", repr(refusal))
        if claims["sub"] != session.user.subject or claims["sid"] != session.session_id:
            return self.breach("wrong user", f"{claims['sub']} instead of {session.user.subject}")
        if not claims.get("scope") == body["scope"] == session.user.scope:
            self.breach("wrong scope", f"{body['scope']!r} of {SCOPE!r} instead of {session.user.scope!r}")
