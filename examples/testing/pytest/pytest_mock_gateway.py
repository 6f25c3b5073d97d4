"""pytest fixtures for tests against auth-gateway with its mock IAM. Needs pytest and nothing else.

`mock_gateway` is a namespace of its own for each test: users, sessions, faults, time and journal.

`GATEWAY_BIN` is the program that is started once for all tests; without it, `auth-gateway-dev` from the PATH.
`GATEWAY_URL` and `GATEWAY_MANAGEMENT_URL` are the two listeners of one that runs already, if both are set.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Iterator
from urllib.parse import quote, urlencode

import pytest


class CallFailed(Exception):
    """The gateway or the mock refused a call, or failed."""

    def __init__(self, what: str, status: int, body: Any):
        super().__init__(f"{what}: {status} {json.dumps(body)}")
        self.status = status
        self.error: str | None = body.get("error") if isinstance(body, dict) else None


@dataclass(frozen=True)
class User:
    email: str
    subject: str
    permissions: list[str]
    attributes: dict[str, Any]
    state: str
    sessions: int
    otp: str | None = None


@dataclass(frozen=True)
class Fault:
    id: int
    operation: str
    applied: int
    remaining: int | None


@dataclass(frozen=True)
class Call:
    """A call that the gateway made to the IAM."""

    number: int
    at: str
    operation: str
    outcome: str
    reason: str | None
    user: str | None
    session: str | None
    session_id: str | None
    request_id: str | None
    fault: int | None
    took_ms: float


@dataclass(frozen=True)
class Session:
    session_id: str
    session_token: str
    verified_at: str
    expires_at: str


@dataclass(frozen=True)
class AccessToken:
    access_token: str
    scope: str
    expires_in: int
    token_type: str


@dataclass(frozen=True)
class Gateway:
    """A running gateway."""

    url: str
    management_url: str
    issuer: str


class MockGateway:
    """One namespace of a gateway. `headers` select it: the application under test forwards them to the gateway."""

    def __init__(self, gateway: Gateway, namespace: str):
        self.url, self.management_url, self.issuer = gateway.url, gateway.management_url, gateway.issuer
        self.namespace = namespace
        self.headers = {"Mock-Namespace": namespace}
        self.users, self.faults = Users(self), Faults(self)
        self.clock, self.journal = Clock(self), Journal(self)

    def log_in(self, email: str, password: str, otp: str | None = None) -> Session:
        body = {"email": email, "password": password} | ({} if otp is None else {"otp": otp})
        return made(Session, self.call("POST", f"{self.url}/api/v1/auth/login", body))

    def exchange(self, session: Session, *scopes: str) -> AccessToken:
        body = pair(session) | {"grant_type": "session", "scope": " ".join(scopes)}
        return made(AccessToken, self.call("POST", f"{self.url}/api/v1/auth/token", body))

    def log_out(self, session: Session) -> None:
        self.call("POST", f"{self.url}/api/v1/auth/logout", pair(session))

    def forget(self) -> None:
        """Clears the gateway's caches: the next exchange of each session calls the IAM."""
        self.control("POST", "/forget")

    def sign(self, claims: dict[str, Any] | None = None, header: dict[str, Any] | None = None) -> str:
        """An access token with these claims in place of those of an ordinary one; None removes one."""
        return self.control("POST", "/tokens", {"claims": claims or {}, "header": header or {}})["access_token"]

    def end_sessions(self, session: str | None = None, notify: bool = False) -> int:
        """Ends one session, by either id, or all of them, at the IAM; `notify` sends back-channel logouts."""
        path = "/sessions" if session is None else f"/sessions/{quote(session, safe='')}"
        return self.control("DELETE", f"{path}?notify=true" if notify else path)["ended"]

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """Any call of the control API, which /mock/v1/openapi.yaml describes."""
        return self.call(method, f"{self.management_url}/mock/v1{path}", body)

    def call(self, method: str, url: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = self.headers | ({} if body is None else {"Content-Type": "application/json"})
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            # Longer than `journal.wait` can take.
            with urllib.request.urlopen(request, timeout=70) as response:
                return parsed(response.read())
        except urllib.error.HTTPError as refused:
            with refused:
                raise CallFailed(f"{method} {url}", refused.code, parsed(refused.read())) from None


class Users:
    def __init__(self, gateway: MockGateway):
        self._control = gateway.control

    def all(self) -> list[User]:
        return [made(User, user) for user in self._control("GET", "/users")["users"]]

    def get(self, email: str) -> User:
        return made(User, self._control("GET", path_of(email)))

    def create(self, email: str, password: str, **members: Any) -> User:
        """`permissions`, `state`, `attributes`, `subject` and `totp_secret`, as in a users file."""
        return made(User, self._control("POST", "/users", {"email": email, "password": password, **members}))

    def change(self, email: str, **members: Any) -> User:
        """`password`, `permissions`, `state`, `attributes` and `totp_secret`."""
        return made(User, self._control("PATCH", path_of(email), members))

    def delete(self, email: str) -> None:
        self._control("DELETE", path_of(email))


class Faults:
    def __init__(self, gateway: MockGateway):
        self._control = gateway.control

    def add(
        self, operation: str, answer: Any = None, *, delay: Any = None, times: int | None = None,
        share: float | None = None, user: str | None = None,
    ) -> Fault:
        """`faults.add("login", "unreachable", times=1)`, or with a delay: `delay="300ms"`, `delay={"uniform": [...]}`."""
        delay = {"fixed": delay} if isinstance(delay, str) else delay
        rule = {"operation": operation, "answer": answer, "delay": delay, "times": times, "share": share, "user": user}
        rule = {name: value for name, value in rule.items() if value is not None}
        return made(Fault, self._control("POST", "/faults", rule))

    def all(self) -> list[Fault]:
        """Those that are not used up."""
        return [made(Fault, fault) for fault in self._control("GET", "/faults")["faults"]]

    def remove(self, fault: Fault) -> None:
        self._control("DELETE", f"/faults/{fault.id}")


class Clock:
    """The time of the mock and of the gateway, in this namespace."""

    def __init__(self, gateway: MockGateway):
        self._control = gateway.control

    def now(self) -> datetime:
        return datetime.fromisoformat(self._control("GET", "/time")["now"].replace("Z", "+00:00"))

    def advance(self, by: str) -> None:
        """By a duration such as "30s", "8h" or "1d"."""
        self._control("POST", "/time/advance", {"by": by})

    def set(self, now: datetime) -> None:
        self._control("PUT", "/time", {"now": now.isoformat()})


class Journal:
    """The calls of the gateway to the IAM. Filters: `operation`, `user`, `outcome`, `request_id` and `session`."""

    def __init__(self, gateway: MockGateway):
        self._control = gateway.control

    def calls(self, **filters: str) -> list[Call]:
        return self._entries("/journal", filters)

    def wait(self, count: int, timeout: str = "5s", **filters: str) -> list[Call]:
        """Waits for this number of calls, at most 60 s. Returns those that there are."""
        return self._entries("/journal/wait", {**filters, "count": str(count), "timeout": timeout})

    def _entries(self, path: str, filters: dict[str, str]) -> list[Call]:
        selection = self._control("GET", f"{path}?{urlencode({'limit': '10000', **filters})}")
        return [made(Call, entry) for entry in selection["entries"]]


@pytest.fixture(scope="session")
def mock_gateway_settings() -> dict[str, str]:
    """Override it for settings of the started gateway, named as in the configuration file: `{"token.lifetime": "5m"}`."""
    return {}


@pytest.fixture(scope="session")
def mock_gateway_process(
    mock_gateway_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """The gateway of all tests."""
    url, management_url = os.environ.get("GATEWAY_URL"), os.environ.get("GATEWAY_MANAGEMENT_URL")
    if url and management_url:
        yield Gateway(url, management_url, issuer_of(url))
        return
    log = tmp_path_factory.mktemp("mock-gateway") / "log"
    process, gateway = started(mock_gateway_settings, log)
    yield gateway
    process.terminate()
    process.wait()


@pytest.fixture
def mock_gateway(mock_gateway_process: Gateway, request: pytest.FixtureRequest) -> Iterator[MockGateway]:
    """A namespace for this test. Its journal is part of the report if the test fails."""
    gateway = MockGateway(mock_gateway_process, uuid.uuid4().hex)
    request.node.stash[OF_TEST] = gateway
    yield gateway
    gateway.control("DELETE", f"/namespaces/{gateway.namespace}")


OF_TEST = pytest.StashKey[MockGateway]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    gateway = item.stash.get(OF_TEST, None)
    if report.when == "call" and report.failed and gateway is not None:
        # The gateway may be what failed.
        with contextlib.suppress(OSError, CallFailed):
            report.sections.append(("calls to the mock IAM", "\n".join(map(str, gateway.journal.calls()))))
    return report


def started(settings: dict[str, str], log: Path) -> tuple[subprocess.Popen[bytes], Gateway]:
    """Starts the program. The issuer is the URL of the listener, so that services find the keys by discovery."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    settings = {
        "http.listen": url.removeprefix("http://"), "http.public_url": url, "management.listen": "127.0.0.1:0",
        "log.format": "json", **settings,
    }
    variables = {f"AUTH_GATEWAY__{name.upper().replace('.', '__')}": value for name, value in settings.items()}
    program = os.environ.get("GATEWAY_BIN", "auth-gateway-dev")
    with log.open("wb") as output:
        process = subprocess.Popen([program], env=os.environ | variables, stdout=output, stderr=output)
    # The log has this line as soon as both listeners accept connections.
    while '"message":"listening"' not in (text := log.read_text()):
        if process.poll() is not None:
            raise RuntimeError(f"{program} exited with {process.returncode}:\n{text}")
        time.sleep(0.002)
    lines = [json.loads(line) for line in text.splitlines() if '"message":"listening"' in line]
    return process, Gateway(url, f"http://{lines[0]['management.address']}", url)


def issuer_of(url: str) -> str:
    with urllib.request.urlopen(f"{url}/.well-known/oauth-authorization-server", timeout=60) as response:
        return json.load(response)["issuer"]


def made(kind: Any, members: dict[str, Any]) -> Any:
    """The members that the type has; a later version may return more."""
    return kind(**{field.name: members[field.name] for field in fields(kind) if field.name in members})


def pair(session: Session) -> dict[str, str]:
    return {"session_id": session.session_id, "session_token": session.session_token}


def path_of(email: str) -> str:
    return f"/users/{quote(email, safe='')}"


def parsed(body: bytes) -> Any:
    return json.loads(body) if body else None
