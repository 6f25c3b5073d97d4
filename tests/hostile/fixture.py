"""A gateway under attack, its use of resources, and a regular client that must be served."""

import contextlib
import http.client
import json
import multiprocessing
import os
import re
import subprocess
import tempfile
import time
import urllib.parse
from pathlib import Path

import gateway
import machine
import wire

CREDENTIALS = {"email": "alice@example.test", "password": "alice-pass"}
SCOPE = "urn:shop:orders:order:read"
JSON = {"content-type": "application/json"}
API = "/api/v1/auth"


class Failure(Exception):
    """The gateway violated an expectation."""


def expect(condition, message):
    if not condition:
        raise Failure(message)


class Gateway:
    """A running gateway, and its resources from /proc."""

    def __init__(self, url, management, child, log):
        self.url, self.management, self.child, self.log = url, management, child, log
        parts = urllib.parse.urlsplit(url)
        self.address = parts.hostname, parts.port
        self._proc = Path(f"/proc/{child.pid}")
        self.listeners = frozenset()
        self.listeners = frozenset(self.sockets())

    def fds(self):
        return len(os.listdir(self._proc / "fd"))

    def sockets(self):
        """The open sockets by their inode, without the listeners."""
        found = set()
        for entry in (self._proc / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                target = os.readlink(entry)
                if target.startswith("socket:"):
                    found.add(target)
        return found - self.listeners

    def threads(self):
        return len(os.listdir(self._proc / "task"))

    def rss_mib(self):
        return int(re.search(r"VmRSS:\s+(\d+) kB", (self._proc / "status").read_text()).group(1)) / 1024

    def cpu_seconds(self):
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def counter(self, series):
        response = wire.send("GET", f"{self.management}/metrics")
        for line in response.body.decode().splitlines():
            name, _, value = line.rpartition(" ")
            if name == series:
                return float(value)
        raise Failure(f"no series {series}")

    def shed(self, reason):
        return int(self.counter(f'auth_gateway_shed_total{{reason="{reason}"}}'))

    def check_serves(self, when):
        """Fails unless one whole session succeeds."""
        error = run_session(self.address)
        expect(error is None, f"{when}: {error}")


@contextlib.contextmanager
def running(settings=None, stdout=None, prefix=()):
    """Runs a gateway with the mock; `stdout` receives its log, `prefix` is a command that starts it."""
    url, management, environment = gateway.make_environment({"log.format": "json", **(settings or {})})
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(
            [*map(str, prefix), str(gateway.BINARY)], env=environment, stdin=subprocess.DEVNULL,
            stdout=log if stdout is None else stdout, stderr=log,
        )
        try:
            gateway.wait_until_ready(child, f"{management}/health/ready")
            yield Gateway(url, management, child, log)
            expect(child.poll() is None, f"the gateway exited with {child.returncode}")
        except BaseException:
            log.seek(0)
            print(log.read().decode(errors="replace")[-600:])
            raise
        finally:
            machine.end(child)


def run_session(address, timeout=10, retried=None):
    """Login, two exchanges and logout on one connection; returns the error, or None.

    Retries once after a 503, and appends the path to `retried`.
    """
    def post(path, body, retry=True):
        connection.request("POST", f"{API}/{path}", json.dumps(body), JSON)
        response = connection.getresponse()
        text = response.read()
        if response.status == 503 and retry:
            if retried is not None:
                retried.append(path)
            time.sleep(float(response.headers["retry-after"]))
            return post(path, body, retry=False)
        expect(response.status == 200, f"{path}: {response.status} {text[:200]!r}")
        return json.loads(text)

    connection = http.client.HTTPConnection(*address, timeout=timeout)
    try:
        session = post("login", CREDENTIALS)
        pair = {name: session[name] for name in ("session_id", "session_token")}
        for _ in range(2):
            granted = post("token", {**pair, "grant_type": "session", "scope": SCOPE})["scope"]
            expect(granted == SCOPE, f"granted {granted!r}")
        post("logout", pair)
    except (Failure, OSError, http.client.HTTPException) as failure:
        return f"{type(failure).__name__}: {failure}"
    finally:
        connection.close()
    return None


class RegularClient:
    """A client that runs sessions repeatedly in a separate process, and records their duration and errors."""

    def __init__(self, address):
        self._address = address
        self._stop = multiprocessing.Event()
        self._results, sender = multiprocessing.Pipe(duplex=False)
        self._process = multiprocessing.Process(target=self._run, args=(sender,), daemon=True)
        self._process.start()
        # So that `recv` fails if the process ends without a result.
        sender.close()

    def _run(self, sender):
        durations, errors, retried = [], [], []
        while not self._stop.is_set():
            began = time.monotonic()
            error = run_session(self._address, retried=retried)
            durations.append(time.monotonic() - began)
            if error is not None:
                errors.append(error)
            time.sleep(0.02)
        sender.send((durations, errors, retried))

    def stop(self):
        """Returns the sorted durations in seconds; fails if a session failed."""
        self._stop.set()
        durations, errors, retried = self._results.recv()
        self._process.join()
        expect(not errors, f"{len(errors)} of {len(durations)} regular sessions failed: {errors[:3]}")
        expect(durations, "the regular client ran no session")
        # On a busy machine, a worker may shed a few requests.
        few = max(5, len(durations) / 50)
        expect(len(retried) <= few, f"{len(retried)} requests of {len(durations)} sessions were retried")
        return sorted(durations)


@contextlib.contextmanager
def regular_client_served(running_gateway, slowest=5.0):
    """A regular client runs sessions during the block; each must succeed within `slowest` seconds."""
    client = RegularClient(running_gateway.address)
    try:
        yield
    except BaseException:
        client._process.terminate()
        raise
    durations = client.stop()
    expect(durations[-1] <= slowest, f"a regular session took {durations[-1]:.1f} s")
    print(f"  regular sessions: {len(durations)}, p50 {durations[len(durations) // 2] * 1e3:.0f} ms,"
          f" slowest {durations[-1] * 1e3:.0f} ms")


def eventually(condition, seconds, message):
    """Waits until the condition is true; returns the seconds that this took."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        expect(waited <= seconds, message() if callable(message) else message)
        time.sleep(0.05)
    return time.monotonic() - began
