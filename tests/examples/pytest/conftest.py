"""One gateway for all tests, and a namespace in it for each test that uses the fixture `mock`."""

import json
import os
import subprocess
import time
import uuid
from dataclasses import dataclass

import httpx
import pytest

ISSUER = "http://auth.test"


@dataclass
class Addresses:
    public: str
    management: str


@pytest.fixture(scope="session")
def addresses(tmp_path_factory):
    """Port 0 selects a free port. The log has it as soon as both listeners accept connections."""
    settings = {
        "AUTH_GATEWAY__HTTP__LISTEN": "127.0.0.1:0",
        "AUTH_GATEWAY__HTTP__PUBLIC_URL": ISSUER,
        "AUTH_GATEWAY__MANAGEMENT__LISTEN": "127.0.0.1:0",
        "AUTH_GATEWAY__IAM__MOCK__FIXED_SIGNING_KEY": "true",
        "AUTH_GATEWAY__LOG__FORMAT": "json",
    }
    log = tmp_path_factory.mktemp("gateway") / "log"
    with log.open("w") as file:
        gateway = subprocess.Popen(
            [os.environ.get("GATEWAY_BIN", "auth-gateway-dev")], env=os.environ | settings, stdout=file
        )
    try:
        while '"message":"listening"' not in log.read_text():
            assert gateway.poll() is None, "the gateway exited"
            time.sleep(0.01)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        [listening] = [line for line in lines if line["message"] == "listening"]
        yield Addresses(f"http://{listening['http.address']}", f"http://{listening['management.address']}")
    finally:
        gateway.terminate()
        gateway.wait()


@pytest.fixture
def mock(addresses):
    namespace = uuid.uuid4().hex
    with Mock(addresses, namespace) as mock:
        yield mock
        mock.control("DELETE", f"/namespaces/{namespace}")


class Mock(httpx.Client):
    """A client of the gateway and of the mock's control API. The header selects the namespace."""

    def __init__(self, addresses, namespace):
        super().__init__(base_url=f"{addresses.public}/api/v1/auth", headers={"Mock-Namespace": namespace})
        self.base = f"{addresses.management}/mock/v1"

    def control(self, method, path, body=None):
        """Fails unless the control API accepts the request."""
        response = self.request(method, self.base + path, json=body)
        assert response.is_success, response.text
        return response.json() if response.content else None

    def log_in(self, email="alice@example.test", password="alice-pass"):
        return self.post("/login", json={"email": email, "password": password})

    def exchange(self, session, *scope):
        body = {"grant_type": "session", "scope": " ".join(scope)}
        return self.post("/token", json=session | body)
