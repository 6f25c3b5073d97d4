"""The load of `rotation`: clients that exchange sessions, and verifiers of what they get."""

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
# A session is used until shortly before its end, a token verified until shortly before its own.
SPARE = 2
# Clients wait for verifiers that are further behind than this many tokens.
AHEAD = 200


def kid_of(token):
    header = token.partition(".")[0]
    return json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))["kid"]


class Client:
    def __init__(self, url):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=30)

    def post(self, operation, body):
        headers = {"content-type": "application/json"}
        self.connection.request("POST", f"/api/v1/auth/{operation}", json.dumps(body), headers)
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())


def exchange(url, tokens, stop, figures):
    client, sessions = Client(url), collections.deque()
    counts, sealed, next_login = collections.Counter(exchanges=0), set(), 0
    while not stop.is_set():
        now = time.time()
        if now >= next_login:
            status, session = client.post("login", ALICE)
            counts["logins"] += 1
            counts["WRONG logins"] += status != 200
            if status == 200:
                sealed.add(kid_of(session["session_token"]))
                sessions.append((now + 60 - SPARE, session))
            next_login = now + 0.5
        while sessions and sessions[0][0] <= now:
            sessions.popleft()
        # The oldest is the likeliest to be sealed with a key that is used no more.
        _, session = sessions[0] if random.random() < 0.5 else random.choice(sessions)
        pair = {name: session[name] for name in ("session_id", "session_token")}
        status, token = client.post("token", pair | {"grant_type": "session", "scope": SCOPE})
        counts["exchanges"] += 1
        counts["WRONG 401 at token"] += status == 401
        counts["WRONG other at token"] += status not in (200, 401)
        if status == 200:
            tokens.put((time.time() + token["expires_in"], token["access_token"]))
    figures.put(counts | {"sealed": sealed})


class Verifier:
    """Asks for the keys when it may, and never because it met an unknown one."""

    def __init__(self, url):
        self.url, self.until, self.keys, self.fetched = url, 0, {}, 0

    def refusal(self, token):
        """Why the token is not accepted; none where it is."""
        if time.monotonic() >= self.until:
            with urllib.request.urlopen(f"{self.url}/.well-known/jwks.json", timeout=10) as answer:
                age = int(answer.headers["cache-control"].rpartition("max-age=")[2])
                self.keys = {key["kid"]: jwt.PyJWK(key) for key in json.load(answer)["keys"]}
            self.until, self.fetched = time.monotonic() + age, self.fetched + 1
        key = self.keys.get(kid_of(token))
        if key is None:
            return "unknown kid"
        try:
            jwt.decode(token, key, algorithms=["ES256"], issuer=self.url, audience=self.url)
        except jwt.PyJWTError as refusal:
            return type(refusal).__name__
        return None


def verify(url, tokens, figures):
    verifier, kept, kids = Verifier(url), collections.deque(), set()
    counts, open_still = collections.Counter(), True

    def look(when, expires_at, token):
        # A verifier that this machine held up looks at what has expired by right.
        if expires_at - 1 <= time.time():
            counts[f"not verified {when}, too late"] += 1
            return
        refusal = verifier.refusal(token)
        counts[f"verified {when}"] += 1
        if refusal:
            counts[f"WRONG refused {when}: {refusal}"] += 1

    while open_still or kept:
        try:
            received = tokens.get(timeout=0.05) if open_still else None
            open_still = received is not None
        except queue.Empty:
            received = None
        if received:
            kids.add(kid_of(received[1]))
            look("at once", *received)
            # A sample is looked at again: all of them would be half of the load.
            if random.random() < 0.2:
                kept.append(received)
        while kept and kept[0][0] - SPARE <= time.time():
            look("before its end", *kept.popleft())
        if not open_still:
            time.sleep(0.05)
    counts["fetches of the keys"] = verifier.fetched
    figures.put(counts | {"kids": kids})
