"""Runs an `auth-gateway-dev` in development mode with the mock."""

import contextlib
import json
import os
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from machine import TARGET, end, free_ports

BINARY = Path(os.environ.get("GATEWAY_BIN") or TARGET / "debug" / "auth-gateway-dev").resolve()


@contextlib.contextmanager
def running(settings=None, config=None):
    """Yields the URLs of both listeners (the public one is also the issuer) when it is ready; stops it afterwards.

    `settings` are named as in the configuration file: {"token.lifetime": "5m"}. `config` is such a file.
    """
    url, management_url, environment = make_environment(settings)
    if config is not None:
        environment["AUTH_GATEWAY_CONFIG"] = str(config)
    with tempfile.TemporaryFile() as log:
        gateway = subprocess.Popen([BINARY], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_until_ready(gateway, f"{management_url}/health/ready")
            yield url, management_url
            if gateway.poll() is not None:
                raise RuntimeError(f"the gateway exited with {gateway.returncode}")
        except BaseException:
            log.seek(0)
            print(log.read().decode(errors="replace")[-4000:])
            raise
        finally:
            end(gateway)


def make_environment(settings=None):
    """The URLs of both listeners, on free ports, and the environment for a gateway with these settings."""
    public, management = free_ports(2)
    url, management_url = f"http://127.0.0.1:{public}", f"http://127.0.0.1:{management}"
    chosen = {
        "http.listen": f"127.0.0.1:{public}",
        "http.public_url": url,
        "management.listen": f"127.0.0.1:{management}",
        **(settings or {}),
    }
    prefix = "AUTH_GATEWAY__"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(prefix)}
    environment.update({prefix + name.upper().replace(".", "__"): str(value) for name, value in chosen.items()})
    return url, management_url, environment


def wait_until_ready(gateway, health):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and gateway.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(health, timeout=5).close()
            return
        time.sleep(0.05)
    raise RuntimeError(f"the gateway is not ready (exit code so far: {gateway.poll()})")


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def log_in(url, email="alice@example.test", password="alice-pass"):
    return post(f"{url}/api/v1/auth/login", {"email": email, "password": password})


def exchange(url, session, scope):
    pair = {name: session[name] for name in ("session_id", "session_token")}
    return post(f"{url}/api/v1/auth/token", {**pair, "grant_type": "session", "scope": scope})
