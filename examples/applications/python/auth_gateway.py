"""A client of the authentication gateway. Copy this file: it needs Python 3.10 or later and nothing else.

    gateway = AuthGateway("https://auth.example.com")
    session = gateway.log_in("alice@example.test", "alice-pass")
    token = session.access_token("urn:shop:orders:order:read")  # before each request to a service; it is cached
    session.log_out()

All methods can be called by several threads at once. Every failure of a call is an `AuthGatewayError`.
"""

import contextlib
import enum
import http.client
import itertools
import json
import random
import socket
import threading
import time
from concurrent import futures
from dataclasses import dataclass, field
from urllib.parse import urlsplit

# A token is renewed after 70 to 85 % of its lifetime, at random, so that clients do not renew together. It is not used
# in the last 5 %, so that it does not expire on the way to a service.
RENEW_AFTER, RENEW_JITTER, USABLE_FOR = 0.7, 0.15, 0.95
# After a failed renewal, while the old token can be used.
RENEWAL_PAUSE_SECONDS = 5
# Before repetition n: half of BACKOFF_SECONDS * 2**n to all of it, in addition to `Retry-After`.
BACKOFF_SECONDS, BACKOFF_MAX_SECONDS = 0.25, 4


class AuthGatewayError(Exception):
    """The gateway's log has the `request_id`."""

    def __init__(self, message, request_id=None):
        super().__init__(f"{message} (request {request_id})" if request_id else message)
        self.request_id = request_id


class InvalidCredentials(AuthGatewayError):
    """The login was refused: ask the user again."""


class SessionOver(AuthGatewayError):
    """The session has ended: the user must log in again."""


class RequestRefused(AuthGatewayError):
    """The program or its configuration is wrong: a repetition is useless."""

    def __init__(self, status, error, description, request_id):
        super().__init__(f"status {status}, {error or 'not of the gateway'}: {description}", request_id)
        self.status, self.error = status, error


class GatewayFault(AuthGatewayError):
    """The gateway or its IAM has a fault that a repetition does not remove: report it with the `request_id`."""


class Unavailable(AuthGatewayError):
    """All repetitions failed, or the call may not be repeated: try later, after `retry_after` seconds if it is known."""

    def __init__(self, message, risk, retry_after=None, request_id=None):
        super().__init__(message, request_id)
        self.risk, self.retry_after = risk, retry_after


class Risk(enum.IntEnum):
    """Whether a failed call may have had an effect. A call is repeated up to the risk that it can take."""

    NONE = 1  # It was not processed.
    ACCEPTED = 2  # Perhaps; the gateway says that it may be repeated.
    UNKNOWN = 3  # Perhaps; the gateway did not respond.


# A one-time password is used up once it reached the IAM. Exchanges and logouts have the same effect when repeated.
LOGIN_RISK, OTP_LOGIN_RISK, IDEMPOTENT_RISK, NEVER = Risk.ACCEPTED, Risk.NONE, Risk.UNKNOWN, 0


@dataclass(frozen=True)
class Timing:
    """For tests: the time in seconds, from any origin; a pause; and a number from 0 to 1."""

    now: object = time.monotonic
    sleep: object = time.sleep
    random: object = random.random


@dataclass(frozen=True)
class AccessToken:
    """`scope` has what was granted, which can be less than what was requested."""

    value: str = field(repr=False)
    scope: str


class AuthGateway:
    """`attempt_seconds` bounds each request, `deadline_seconds` a call with all repetitions."""

    def __init__(self, url, attempt_seconds=10.0, deadline_seconds=20.0, timing=Timing()):
        self._url = urlsplit(url)
        self._attempt_seconds, self._deadline_seconds, self._timing = attempt_seconds, deadline_seconds, timing

    def __repr__(self):
        return f"AuthGateway({self._url.geturl()!r})"

    def log_in(self, email, password, otp=None, client_address=None):
        """A server passes the user's address, by which the gateway limits logins."""
        credentials = {"email": email, "password": password} | ({"otp": otp} if otp else {})
        headers = {"X-Forwarded-For": client_address} if client_address else {}
        body = self._call("login", credentials, headers, OTP_LOGIN_RISK if otp else LOGIN_RISK)
        return Session(self, *_texts(body, "session_id", "session_token", "expires_at"))

    def resume(self, session_id, session_token, expires_at=None):
        """A session that was stored."""
        return Session(self, session_id, session_token, expires_at)

    def _call(self, operation, body, headers, risk, before_repetition=lambda: None):
        """The response, after repetitions as far as the risk allows them."""
        deadline = self._timing.now() + self._deadline_seconds
        for attempt in itertools.count():
            try:
                seconds = min(self._attempt_seconds, deadline - self._timing.now())
                return self._attempt(operation, body, headers, seconds)
            except Unavailable as failure:
                backoff = min(BACKOFF_MAX_SECONDS, BACKOFF_SECONDS * 2**attempt)
                pause = (failure.retry_after or 0) + backoff * (1 + self._timing.random()) / 2
                if failure.risk > risk or self._timing.now() + pause >= deadline:
                    raise
                last = failure
            self._timing.sleep(pause)
            before_repetition()
            if self._timing.now() >= deadline:
                raise last

    def _attempt(self, operation, body, headers, seconds):
        try:
            status, retry_after, text = self._post(operation, json.dumps(body), headers, seconds)
        # Before Python 3.11 the TimeoutError of futures is not an OSError.
        except (OSError, http.client.HTTPException, futures.TimeoutError) as error:
            raise Unavailable(f"no response to {operation}: {type(error).__name__}", Risk.UNKNOWN) from None
        try:
            content = json.loads(text)
        except ValueError:
            content = None  # The error would quote the text, which can have secrets.
        content = content if isinstance(content, dict) else {}
        if status == 200:
            return content
        raise _failure(operation, status, content, int(retry_after) if retry_after.isdecimal() else None)

    def _post(self, operation, body, headers, seconds):
        """Sends one request on a connection of its own. Redirects are not followed."""
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        until = time.monotonic() + seconds
        with contextlib.closing(kind(self._url.netloc, timeout=seconds)) as connection:
            # The timeout is for each address of the name, and then for each read, and not for the resolution of the name.
            _result_within(seconds, connection.connect)
            timer = threading.Timer(until - time.monotonic(), _shut_down, [connection.sock])
            timer.daemon = True
            timer.start()
            try:
                headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
                connection.request("POST", f"{self._url.path.rstrip('/')}/api/v1/auth/{operation}", body, headers)
                response = connection.getresponse()
                return response.status, response.getheader("Retry-After", ""), response.read()
            finally:
                timer.cancel()


@dataclass
class _Cached:
    token: AccessToken
    renew_at: float
    usable_until: float


class Session:
    """Store `session_id` and `session_token` to continue with `resume`. The token is a secret like a password."""

    def __init__(self, gateway, session_id, session_token, expires_at):
        self.session_id, self.session_token, self.expires_at = session_id, session_token, expires_at
        self._gateway, self._timing = gateway, gateway._timing
        self._lock = threading.Lock()
        self._over = False
        self._tokens = {}
        self._exchanges = {}  # Those in progress.

    def __repr__(self):
        return f"Session({self.session_id!r})"

    def access_token(self, scope):
        """A token from the cache or of a new exchange. Concurrent calls with the same scope share one exchange."""
        with self._lock:
            self._require_active()
            cached, running = self._tokens.get(scope), self._exchanges.get(scope)
            now = self._timing.now()
            usable = cached is not None and now < cached.usable_until
            if usable and (running or now < cached.renew_at):
                return cached.token
            if running is None:
                exchange = self._exchanges[scope] = futures.Future()
        if running:
            return running.result()
        try:
            exchange.set_result(self._renew(scope, cached) if usable else self._exchange(scope, IDEMPOTENT_RISK))
        except BaseException as error:
            exchange.set_exception(error)
        finally:
            with self._lock:
                del self._exchanges[scope]
        return exchange.result()

    def discard(self, token):
        """Removes a token that a service refused with 401, so that the next call makes a new one."""
        with self._lock:
            self._tokens = {scope: cached for scope, cached in self._tokens.items() if cached.token != token}

    def log_out(self):
        """Ends the session here at once, also if the call fails. It can be repeated."""
        self._end()
        self._gateway._call("logout", self._pair(), {}, IDEMPOTENT_RISK)

    def _renew(self, scope, cached):
        """One attempt only, because the old token can still be used."""
        try:
            return self._exchange(scope, NEVER)
        except SessionOver:
            raise
        except AuthGatewayError as failure:
            pause = max(RENEWAL_PAUSE_SECONDS, getattr(failure, "retry_after", None) or 0)
            cached.renew_at = self._timing.now() + pause
            with self._lock:
                self._require_active()  # A logout during the renewal.
                if self._tokens.get(scope) is not cached:  # A service has refused the old token.
                    raise
            return cached.token

    def _exchange(self, scope, risk):
        sent_at = self._timing.now()
        body = {**self._pair(), "grant_type": "session", "scope": scope}
        try:
            content = self._gateway._call("token", body, {}, risk, self._require_active)
        except SessionOver:
            self._end()
            raise
        token = AccessToken(*_texts(content, "access_token", "scope"))
        lifetime = content.get("expires_in")
        if type(lifetime) is not int:
            raise GatewayFault("the response has no lifetime")
        renew_after = RENEW_AFTER + RENEW_JITTER * self._timing.random()
        with self._lock:
            self._require_active()  # A logout during the exchange.
            self._tokens[scope] = _Cached(token, sent_at + lifetime * renew_after, sent_at + lifetime * USABLE_FOR)
        return token

    def _pair(self):
        return {"session_id": self.session_id, "session_token": self.session_token}

    def _require_active(self):
        if self._over:
            raise SessionOver("the session has ended")

    def _end(self):
        with self._lock:
            self._over = True
            self._tokens = {}


def _failure(operation, status, content, retry_after):
    error, request_id = content.get("error"), content.get("request_id")
    message = f"{operation}: status {status}"
    if status in (408, 429):
        return Unavailable(message, Risk.NONE, retry_after, request_id)
    if error == "temporarily_unavailable":
        return Unavailable(message, Risk.ACCEPTED, retry_after, request_id)
    if status in (502, 503, 504) and error is None:
        return Unavailable(f"{message} of a proxy", Risk.UNKNOWN, retry_after)
    if status == 401 and error == "invalid_grant":
        if operation == "login":
            return InvalidCredentials("the credentials are not accepted", request_id)
        return SessionOver("the session is not accepted", request_id)
    if 400 <= status < 500:
        return RequestRefused(status, error, content.get("error_description"), request_id)
    return GatewayFault(message, request_id)


def _texts(content, *names):
    values = [content.get(name) for name in names]
    if not all(isinstance(value, str) for value in values):
        raise GatewayFault(f"the response does not have {' and '.join(names)}")
    return values


def _result_within(seconds, function):
    """The result of a function that cannot be interrupted: after a `TimeoutError` it continues in its thread."""
    result = futures.Future()

    def call():
        try:
            result.set_result(function())
        except Exception as error:
            result.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return result.result(seconds)


def _shut_down(connected):
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
