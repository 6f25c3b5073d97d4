"""Hooks for Schemathesis: valid users and sessions, and rules that the document states only in prose.

Loaded by schemathesis through SCHEMATHESIS_HOOKS.
"""

import os
import zlib

import gateway
import schemathesis

PUBLIC_URL = os.environ["PUBLIC_URL"]
LOGIN, TOKEN, LOGOUT, BACKCHANNEL_LOGOUT = (
    f"/api/v1/auth/{name}" for name in ("login", "token", "logout", "backchannel-logout")
)
# A schema counts characters, the gateway bytes in UTF-8: the most of each member of a login, and what replaces a longer one.
LOGIN_LIMITS = {"email": (320, "nobody@example.test"), "password": (1024, "wrong-pass"), "otp": (64, "000000")}
ERROR_MEMBERS = {"error", "error_description", "request_id"}


def one_in(count, text):
    """Selects by a hash of the generated data, so that a repeated case has the same result."""
    return zlib.crc32(repr(text).encode()) % count == 0


def within_limits(login):
    """The login with short members in place of those that the gateway refuses only because of their bytes."""
    def is_long(name, bytes_max):
        return isinstance(login.get(name), str) and len(login[name].encode(errors="replace")) > bytes_max

    return {**login, **{name: short for name, (bytes_max, short) in LOGIN_LIMITS.items() if is_long(name, bytes_max)}}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Replaces random credentials and sessions in well-formed requests by valid ones."""
    if case.meta is None or not case.meta.generation.mode.is_positive or not isinstance(case.body, dict):
        return
    if case.path == LOGIN:
        if one_in(2, case.body):
            case.body = {**case.body, "email": "alice@example.test", "password": "alice-pass"}
        case.body = within_limits(case.body)
    # A logout without a valid session is a 400 by contract, so a well-formed one needs a valid session.
    elif case.path == LOGOUT or (case.path == TOKEN and not one_in(4, case.body)):
        session = gateway.log_in(PUBLIC_URL)
        case.body = {**case.body, **{name: session[name] for name in ("session_id", "session_token")}}


@schemathesis.check
def responses_of_operations_have_no_store(ctx, response, case):
    """RFC 6749 section 5.1, and OpenID Connect Back-Channel Logout 1.0 section 2.8, on errors too."""
    if case.path in (LOGIN, TOKEN, LOGOUT, BACKCHANNEL_LOGOUT):
        assert response.headers.get("cache-control") == ["no-store"], "Cache-Control is not no-store"


@schemathesis.check
def a_401_has_a_challenge(ctx, response, case):
    """RFC 9110 section 15.5.2; never Basic, for which a browser opens a dialog."""
    if response.status_code == 401:
        challenges = response.headers.get("www-authenticate") or []
        assert challenges, "a 401 without WWW-Authenticate"
        assert not any("basic" in challenge.lower() for challenge in challenges), "a Basic challenge"


@schemathesis.check
def every_error_has_the_same_members(ctx, response, case):
    """RFC 6749 section 5.2 on every path, except for readiness, which has its own schema."""
    if response.status_code < 400 or case.path == "/health/ready" and response.status_code == 503:
        return
    # A response to HEAD has no body.
    if response.request.method == "HEAD":
        return
    assert response.headers["content-type"][0].startswith("application/json"), "an error that is not JSON"
    error = response.json()
    assert isinstance(error, dict) and set(error) == ERROR_MEMBERS, "an error with other members"
    assert all(isinstance(value, str) and value for value in error.values()), "an error with an empty member"
    assert [error["request_id"]] == response.headers.get("x-request-id"), "another request id in the header"


@schemathesis.check
class EveryEndpointSucceededOnce:
    """Login, token and logout must each have succeeded at least once, or the run proves little."""

    def __init__(self):
        self.missing = {LOGIN, TOKEN, LOGOUT}
        self.is_public = False

    def after_response(self, ctx, response, case):
        self.is_public = self.is_public or case.path in (LOGIN, TOKEN, LOGOUT)
        if response.status_code == 200:
            self.missing.discard(case.path)

    def after_run(self, ctx):
        assert not (self.is_public and self.missing), f"never returned 200: {sorted(self.missing)}"
