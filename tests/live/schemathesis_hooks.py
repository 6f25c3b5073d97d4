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
# A schema counts characters, the gateway bytes in UTF-8.
LOGIN_BYTES_MAX = {"email": 320, "password": 1024, "otp": 64}
ERROR_MEMBERS = {"error", "error_description", "request_id"}


def one_in(count, text):
    """Selects by a hash of the generated data, so that a repeated case has the same result."""
    return zlib.crc32(repr(text).encode()) % count == 0


def without_long_members(body):
    """Members of a login that the gateway refuses only because of their bytes get a text that it reads."""
    texts = {"email": "nobody@example.test", "password": "too-long", "otp": "000000"}
    is_long = lambda name: isinstance(body.get(name), str) and len(body[name].encode(errors="replace")) > LOGIN_BYTES_MAX[name]
    return {**body, **{name: text for name, text in texts.items() if is_long(name)}}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Replaces random credentials and sessions in well-formed requests by valid ones."""
    if case.meta is None or not case.meta.generation.mode.is_positive or not isinstance(case.body, dict):
        return
    if case.path == LOGIN:
        if one_in(2, case.body):
            case.body = {**case.body, "email": "alice@example.test", "password": "alice-pass"}
        case.body = without_long_members(case.body)
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
