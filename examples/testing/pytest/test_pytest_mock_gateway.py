"""What a test can do with the mock IAM."""

import urllib.request
from datetime import datetime, timedelta, timezone

import jwt
import pytest

from pytest_mock_gateway import MockGateway, CallFailed

READ = "urn:shop:orders:order:read"
WRITE = "urn:shop:orders:order:write"
ALICE = "alice@example.test"


def log_in(mock_gateway):
    return mock_gateway.log_in(ALICE, "alice-pass")


def test_a_locked_account_is_refused(mock_gateway):
    mock_gateway.users.change(ALICE, state="locked")
    with pytest.raises(CallFailed) as refused:
        log_in(mock_gateway)
    assert (refused.value.status, refused.value.error) == (401, "invalid_grant")
    [call] = mock_gateway.journal.calls(operation="login")
    assert call.reason == "locked"  # the client does not receive the reason


def test_users_are_created_and_deleted(mock_gateway):
    carol = mock_gateway.users.create("carol@example.test", "carol-pass", permissions=[READ])
    assert (carol.state, carol.permissions) == ("active", [READ])
    mock_gateway.log_in("carol@example.test", "carol-pass")
    assert mock_gateway.users.get("carol@example.test").sessions == 1
    mock_gateway.users.delete("carol@example.test")
    assert [user.email for user in mock_gateway.users.all()] == [ALICE, "bob@example.test"]


def test_a_removed_permission_is_missing_in_the_next_token(mock_gateway):
    session = log_in(mock_gateway)
    mock_gateway.users.change(ALICE, permissions=[READ])
    # The gateway uses the cached permissions for session.freshness.
    assert mock_gateway.exchange(session, READ, WRITE).scope == f"{READ} {WRITE}"
    mock_gateway.forget()
    assert mock_gateway.exchange(session, READ, WRITE).scope == READ


def test_the_iam_is_unreachable_for_the_next_login(mock_gateway):
    mock_gateway.faults.add("login", "unreachable", times=1)
    with pytest.raises(CallFailed, match="500") as failed:
        log_in(mock_gateway)
    assert failed.value.error == "temporarily_unavailable"
    assert mock_gateway.faults.all() == []
    log_in(mock_gateway)


def test_the_iam_fails_for_the_next_exchange(mock_gateway):
    session = log_in(mock_gateway)
    mock_gateway.forget()  # otherwise the exchange does not call the IAM
    mock_gateway.faults.add("introspection", "server_error", times=1)
    with pytest.raises(CallFailed, match="500"):
        mock_gateway.exchange(session, READ)
    mock_gateway.clock.advance("1s")  # until then the gateway holds the fault
    mock_gateway.exchange(session, READ)


def test_a_fault_with_a_delay_is_removed(mock_gateway):
    fault = mock_gateway.faults.add("login", delay="1ms", user=ALICE)
    log_in(mock_gateway)
    assert [left.applied for left in mock_gateway.faults.all()] == [1]
    mock_gateway.faults.remove(fault)
    assert mock_gateway.faults.all() == []


def test_a_session_expires_without_waiting(mock_gateway):
    session = log_in(mock_gateway)
    mock_gateway.clock.advance("8h")
    with pytest.raises(CallFailed, match="401"):
        mock_gateway.exchange(session, READ)


def test_the_clock_is_set(mock_gateway):
    there = datetime(2030, 1, 1, tzinfo=timezone.utc)
    mock_gateway.clock.set(there)
    assert timedelta() <= mock_gateway.clock.now() - there < timedelta(minutes=1)


def test_a_session_that_ends_at_the_iam_is_refused_at_once(mock_gateway):
    session, other = log_in(mock_gateway), log_in(mock_gateway)
    assert mock_gateway.end_sessions(session.session_id, notify=True) == 1
    with pytest.raises(CallFailed, match="401"):
        mock_gateway.exchange(session, READ)
    mock_gateway.exchange(other, READ)
    assert mock_gateway.end_sessions() == 1


def test_a_hundred_exchanges_call_the_iam_once(mock_gateway):
    session = log_in(mock_gateway)
    mock_gateway.forget()
    for _ in range(100):
        mock_gateway.exchange(session, READ)
    [call] = mock_gateway.journal.wait(1, operation="introspection", session=session.session_id)
    assert (call.user, call.outcome, call.session_id) == (ALICE, "ok", session.session_id)


def test_a_call_may_take_longer_than_the_longest_wait(mock_gateway, monkeypatch):
    limits, urlopen = [], urllib.request.urlopen

    def recorded(request, timeout):
        limits.append(timeout)
        return urlopen(request, timeout=timeout)

    log_in(mock_gateway)
    monkeypatch.setattr(urllib.request, "urlopen", recorded)
    [call] = mock_gateway.journal.wait(1, timeout="60s")
    assert call.user == ALICE
    [limit] = limits
    assert limit > 60


def test_a_signed_token_is_verified_by_the_published_keys(mock_gateway):
    token = mock_gateway.sign({"sub": "carol", "scope": READ})
    published = jwt.PyJWKClient(f"{mock_gateway.url}/.well-known/jwks.json")
    verified = jwt.decode(
        token, published.get_signing_key_from_jwt(token), algorithms=["ES256"],
        audience=mock_gateway.issuer, issuer=mock_gateway.issuer,
    )
    assert verified["sub"] == "carol"


def test_another_namespace_is_not_affected(mock_gateway, mock_gateway_process):
    other = MockGateway(mock_gateway_process, f"{mock_gateway.namespace}-other")
    mock_gateway.users.change(ALICE, state="locked")
    mock_gateway.log_out(mock_gateway.log_in("bob@example.test", "bob-pass"))
    log_in(other)
    assert [call.user for call in other.journal.calls()] == [ALICE]
    other.control("DELETE", f"/namespaces/{other.namespace}")


pytest_plugins = ["pytester"]


def test_a_failed_test_shows_the_calls(pytester, mock_gateway_process, monkeypatch):
    monkeypatch.setenv("GATEWAY_URL", mock_gateway_process.url)
    monkeypatch.setenv("GATEWAY_MANAGEMENT_URL", mock_gateway_process.management_url)
    pytester.makepyfile(
        """
        def test_fails(mock_gateway):
            mock_gateway.log_in("alice@example.test", "alice-pass")
            assert False
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*calls to the mock IAM*", "*operation='login'*outcome='ok'*"])
