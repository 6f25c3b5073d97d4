"""Examples of what a test can do with the mock IAM."""

import time

import jwt

from conftest import ISSUER

READ = "urn:shop:orders:order:read"
WRITE = "urn:shop:orders:order:write"
ALICE = "/users/alice@example.test"


def test_a_locked_account_is_refused(mock):
    mock.control("PATCH", ALICE, {"state": "locked"})
    assert mock.log_in().status_code == 401
    [call] = mock.control("GET", "/journal?operation=login")["entries"]
    assert call["reason"] == "locked"  # the client does not receive the reason


def test_the_next_login_is_refused(mock):
    mock.control("POST", "/faults", {"operation": "login", "times": 1, "answer": {"refused": "disabled"}})
    assert [mock.log_in().status_code, mock.log_in().status_code] == [401, 200]


def test_a_removed_permission_is_missing_in_the_next_token(mock):
    session = mock.log_in().json()
    mock.control("PATCH", ALICE, {"permissions": [READ]})
    # The gateway uses the cached permissions for session.freshness.
    assert mock.exchange(session, READ, WRITE).json()["scope"] == f"{READ} {WRITE}"
    mock.control("POST", "/forget")
    assert mock.exchange(session, READ, WRITE).json()["scope"] == READ


def test_the_iam_is_unreachable_for_the_next_login(mock):
    mock.control("POST", "/faults", {"operation": "login", "times": 1, "answer": "unreachable"})
    response = mock.log_in()
    assert (response.status_code, response.json()["error"]) == (500, "temporarily_unavailable")
    assert mock.log_in().status_code == 200


def test_the_iam_fails_for_the_next_exchange(mock):
    session = mock.log_in().json()
    mock.control("POST", "/forget")  # otherwise the exchange does not call the IAM
    mock.control("POST", "/faults", {"operation": "introspection", "times": 1, "answer": "server_error"})
    assert mock.exchange(session, READ).status_code == 500
    mock.control("POST", "/time/advance", {"by": "1s"})  # until then the gateway holds the fault
    assert mock.exchange(session, READ).status_code == 200


def test_a_session_expires_without_waiting(mock):
    session = mock.log_in().json()
    mock.control("POST", "/time/advance", {"by": "8h"})
    assert mock.exchange(session, READ).status_code == 401


def test_a_hundred_exchanges_call_the_iam_once(mock):
    session = mock.log_in().json()
    mock.control("POST", "/forget")
    for _ in range(100):
        assert mock.exchange(session, READ).status_code == 200
    assert mock.control("GET", "/journal?operation=introspection")["count"] == 1


def test_a_token_signed_by_the_test_is_verified_by_the_published_keys(mock, addresses):
    key = mock.control("GET", "/signing-key")
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": ISSUER, "sub": "carol", "scope": READ, "iat": now, "exp": now + 60}
    token = jwt.encode(claims, jwt.PyJWK(key), headers={"kid": key["kid"], "typ": "at+jwt"})

    published = jwt.PyJWKClient(f"{addresses.public}/.well-known/jwks.json")
    verified = jwt.decode(
        token, published.get_signing_key_from_jwt(token), algorithms=["ES256"], audience=ISSUER, issuer=ISSUER
    )
    assert verified["sub"] == "carol"
