"""Starts and stops the measured servers on the cores of a figure."""

import base64
import contextlib
import json
import os
import re
import shlex
import socket
import subprocess
import time
from pathlib import Path

import machine
import wire
from load import Load
from wire import Failure

SCOPE = "urn:shop:orders:order:read urn:shop:orders:order:write"
CREDENTIALS = {"email": "alice@example.test", "password": "alice-pass"}
JSON = {"Content-Type": "application/json"}
READY_SECONDS = 30
SETTINGS_PREFIX = "AUTH_GATEWAY_"


@contextlib.contextmanager
def process(command, cores, log, environment=None):
    """Runs a server until the end of the block, where it must still be running."""
    command = ["taskset", "-c", cores, *command]
    with log.open("ab") as sink:
        child = subprocess.Popen(
            [str(argument) for argument in command], env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
    try:
        yield child
        if child.poll() is not None:
            raise Failure(f"{command[3]} exited with {child.returncode}")
    except Failure as failure:
        raise Failure(f"{failure}\n{log_tail(log)}") from None
    finally:
        machine.end(child)


def log_tail(log):
    return log.read_text(errors="replace")[-1000:]


def wait_for(child, method, url, pause_seconds=0.01):
    """Waits until the URL responds with 200."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and child.poll() is None:
        with contextlib.suppress(OSError):
            if wire.send(method, url).status == 200:
                return
        time.sleep(pause_seconds)
    raise Failure(f"{url} does not respond (exit code so far: {child.poll()})")


def wait_for_port(child, port):
    """Waits until a connection is accepted."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and child.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection((wire.LOOPBACK, port)).close()
            return
        time.sleep(0.01)
    raise Failure(f"port {port} accepts no connection (exit code so far: {child.poll()})")


def log_in(url):
    response = wire.send("POST", f"{url}/api/v1/auth/login", JSON, json.dumps(CREDENTIALS).encode())
    if response.status != 200:
        raise Failure(f"{url}: login got {response.status} {response.body[:300]!r}")
    return json.loads(response.body)


def exchange_body(session):
    pair = {name: session[name] for name in ("session_id", "session_token")}
    return json.dumps({**pair, "grant_type": "session", "scope": SCOPE})


def part_of_token(token, index):
    part = token.split(".")[index]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def exchanges(name, url, bodies):
    """The load on the token endpoint; every response must grant the requested scope."""
    return Load(name, f"{url}/api/v1/auth/token", bodies, f'"scope":"{SCOPE}"')


def inspect(load):
    """Makes one exchange; returns the size of the response and the signature algorithm of the token."""
    response = load.sample()
    body = json.loads(response.body)
    header, claims = (part_of_token(body["access_token"], index) for index in (0, 1))
    if body["scope"] != SCOPE or claims.get("scope") != SCOPE:
        raise Failure(f"{load.name}: granted {body['scope']!r}, signed {claims.get('scope')!r}")
    return response.size, header["alg"]


class Gateway:
    def __init__(self, url, management, child, log):
        self.url, self.management, self.child, self.log = url, management, child, log

    def counters(self):
        response = wire.send("GET", f"{self.management}/metrics")
        lines = (line.rpartition(" ") for line in response.body.decode().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in lines}

    def iam_calls(self, operation):
        """How many calls of this operation the IAM has answered."""
        return sum(count for name, count in self.counters().items() if name.startswith("auth_gateway_iam_calls_total{")
                   and f'operation="{operation}"' in name and 'outcome="ok"' in name)

    def check_log(self):
        """Fails if the gateway dropped log lines, because it did less work than in production."""
        dropped = self.counters()["auth_gateway_log_lines_dropped_total"]
        if dropped:
            raise Failure(f"the gateway dropped {dropped:.0f} log lines")

    def truncate_log(self):
        """Empties the log, so that the rounds do not fill the disk."""
        os.truncate(self.log, 0)

    def memory_mib(self):
        """Resident memory now, and its peak."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        return tuple(int(re.search(rf"{name}:\s+(\d+) kB", status).group(1)) / 1024 for name in ("VmRSS", "VmHWM"))


def environment(settings, config=None):
    """The environment for a program with exactly these settings. `config`: a file with those that the environment cannot have."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS_PREFIX)}
    chosen = {f"{SETTINGS_PREFIX}_{name.upper().replace('.', '__')}": str(value) for name, value in settings.items()}
    if config is not None:
        chosen[f"{SETTINGS_PREFIX}CONFIG"] = str(config)
    return {**inherited, **chosen}


@contextlib.contextmanager
def gateway(bench, cores, settings=None, pause_seconds=0.01, config=None, scheme="http"):
    """An auth-gateway on free ports; by default in development mode with the mock."""
    public, management = (f"127.0.0.1:{port}" for port in machine.free_ports(2))
    settings = settings or {}
    public = settings.get("http.listen", public)
    chosen = {
        "http.listen": public,
        "http.public_url": f"{scheme}://{public}",
        "management.listen": management,
        **settings,
    }
    log = bench.folder / f"gateway-{scheme}.log"
    log.write_bytes(b"")
    with process([bench.binary], cores, log, environment(chosen, config)) as child:
        wait_for(child, "GET", f"http://{management}/health/ready", pause_seconds)
        yield Gateway(f"{scheme}://{public}", f"http://{management}", child, log)


@contextlib.contextmanager
def reference_server(bench, workers, cores):
    """Yields the URL of the reference server, and starts it unless a running one is given."""
    if bench.reference_urls.get(workers):
        yield bench.reference_urls[workers].rstrip("/")
        return
    port = machine.free_ports(1)[0]
    command = [argument.format(port=port, workers=workers) for argument in shlex.split(bench.reference_command)]
    url = f"http://127.0.0.1:{port}"
    with process(command, cores, bench.folder / "reference.log") as child:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            with contextlib.suppress(OSError):
                log_in(url)
                break
            if time.monotonic() > deadline or child.poll() is not None:
                raise Failure(f"the reference server does not respond at {url}")
            time.sleep(0.05)
        yield url
