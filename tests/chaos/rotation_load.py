"""The load of `rotation`: clients that exchange sessions, and verifiers of their access tokens."""

import base64
import collections
import http.client
import json
import queue
import random
import time
import urllib.parse
import urllib.request

import jwt

SCOPE = "urn:shop:orders:order:read"
ALICE = {"email": "alice@example.test", "password": "alice-pass"}
# Sessions and tokens are used until this many seconds before they expire.
SPARE = 2
# Clients wait when a verifier has this many tokens in its queue.
BACKLOG = 200


def kid_of(token):
    header = token.partition(".")[0]
    return json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))["kid"]


class Client:
    def __init__(self, url):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=30)

    def post(self, operation, body):
        headers = {"content-type": "application/json"}
        self.connection.request("POST", f"/api/v1/auth/{operation}", json.dumps(body), headers)
        response = self.connection.getresponse()
        return response.status, json.loads(response.read())


def exchange(url, tokens, stop, results):
    client, sessions = Client(url), collections.deque()
    counts, sealed, next_login = collections.Counter(exchanges=0), set(), 0
    while not stop.is_set():
        now = time.time()
        if now >= next_login:
            status, session = client.post("login", ALICE)
            counts["logins"] += 1
            counts["FAILED logins"] += status != 200
            if status == 200:
                sealed.add(kid_of(session["session_token"]))
                sessions.append((now + 60 - SPARE, session))
            next_login = now + 0.5
        while sessions and sessions[0][0] <= now:
            sessions.popleft()
        # The oldest session is the most likely to be sealed with a retired key.
        _, session = sessions[0] if random.random() < 0.5 else random.choice(sessions)
        pair = {name: session[name] for name in ("session_id", "session_token")}
        status, token = client.post("token", pair | {"grant_type": "session", "scope": SCOPE})
        counts["exchanges"] += 1
        counts["FAILED 401 at token"] += status == 401
        counts["FAILED other at token"] += status not in (200, 401)
        if status == 200:
            tokens.put((time.time() + token["expires_in"], token["access_token"]))
    results.put(counts | {"sealed": sealed})


class Verifier:
    """Fetches the keys when the cache lifetime ends, and never because of an unknown `kid`."""

    def __init__(self, url):
        self.url, self.until, self.keys, self.fetched = url, 0, {}, 0

    def error(self, token):
        """Why the token is not accepted, or None."""
        if time.monotonic() >= self.until:
            with urllib.request.urlopen(f"{self.url}/.well-known/jwks.json", timeout=10) as response:
                age = int(response.headers["cache-control"].rpartition("max-age=")[2])
                self.keys = {key["kid"]: jwt.PyJWK(key) for key in json.load(response)["keys"]}
            self.until, self.fetched = time.monotonic() + age, self.fetched + 1
        key = self.keys.get(kid_of(token))
        if key is None:
            return "unknown kid"
        try:
            jwt.decode(token, key, algorithms=["ES256"], issuer=self.url, audience=self.url)
        except jwt.PyJWTError as error:
            return type(error).__name__
        return None


def verify(url, tokens, results):
    verifier, kept, kids = Verifier(url), collections.deque(), set()
    counts, receiving = collections.Counter(), True

    def check(when, expires_at, token):
        # A verifier that had to wait for a core may be too late.
        if expires_at - 1 <= time.time():
            counts[f"not verified {when}, too late"] += 1
            return
        error = verifier.error(token)
        counts[f"verified {when}"] += 1
        if error:
            counts[f"FAILED refused {when}: {error}"] += 1

    while receiving or kept:
        try:
            received = tokens.get(timeout=0.05) if receiving else None
            receiving = received is not None
        except queue.Empty:
            received = None
        if received:
            kids.add(kid_of(received[1]))
            check("at once", *received)
            # Only a sample is verified again: all of them would be half of the load.
            if random.random() < 0.2:
                kept.append(received)
        while kept and kept[0][0] - SPARE <= time.time():
            check("before expiry", *kept.popleft())
        if not receiving:
            time.sleep(0.05)
    counts["fetches of the keys"] = verifier.fetched
    results.put(counts | {"kids": kids})
