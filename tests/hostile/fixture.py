"""A gateway under attack, the resources that it uses, and a regular client that must be served."""

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
    """The gateway did what it must not."""


def expect(holds, otherwise):
    if not holds:
        raise Failure(otherwise)


class Gateway:
    """One that runs, as its machine sees it."""

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
        """The connections and listeners, each by a name that is its own."""
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
        answer = wire.ask("GET", f"{self.management}/metrics")
        for line in answer.body.decode().splitlines():
            name, _, value = line.rpartition(" ")
            if name == series:
                return float(value)
        raise Failure(f"no series {series}")

    def shed(self, reason):
        return int(self.counter(f'auth_gateway_shed_total{{reason="{reason}"}}'))

    def serves(self, why):
        """A whole visit, as of now."""
        outcome = visit(self.address)
        expect(outcome is None, f"{why}: {outcome}")


@contextlib.contextmanager
def running(settings=None, stdout=None, prefix=()):
    """A gateway on the mock; `stdout` takes its log, `prefix` is the command that it is started by."""
    url, management, environment = gateway.settled({"log.format": "json", **(settings or {})})
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(
            [*map(str, prefix), str(gateway.BINARY)], env=environment, stdin=subprocess.DEVNULL,
            stdout=log if stdout is None else stdout, stderr=log,
        )
        try:
            gateway.wait_until_ready(child, f"{management}/health/ready")
            yield Gateway(url, management, child, log)
            expect(child.poll() is None, f"the gateway ended by itself with {child.returncode}")
        except BaseException:
            log.seek(0)
            print(log.read().decode(errors="replace")[-600:])
            raise
        finally:
            machine.end(child)


def visit(address, timeout=10, retried=None):
    """Login, two exchanges, logout, on one connection; returns what was wrong, or nothing.

    Retries once after a 503, and appends the path to `retried`.
    """
    def ask(path, body, again=True):
        connection.request("POST", f"{API}/{path}", json.dumps(body), JSON)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status == 503 and again:
            if retried is not None:
                retried.append(path)
            time.sleep(float(answer.headers["retry-after"]))
            return ask(path, body, again=False)
        expect(answer.status == 200, f"{path}: {answer.status} {text[:200]!r}")
        return json.loads(text)

    connection = http.client.HTTPConnection(*address, timeout=timeout)
    try:
        session = ask("login", CREDENTIALS)
        pair = {name: session[name] for name in ("session_id", "session_token")}
        for _ in range(2):
            granted = ask("token", {**pair, "grant_type": "session", "scope": SCOPE})["scope"]
            expect(granted == SCOPE, f"granted {granted!r}")
        ask("logout", pair)
    except (Failure, OSError, http.client.HTTPException) as failure:
        return f"{type(failure).__name__}: {failure}"
    finally:
        connection.close()
    return None


class Normal:
    """A client that comes again and again, in a process of its own, and notes how it was received."""

    def __init__(self, address):
        self._address = address
        self._stop = multiprocessing.Event()
        self._told, telling = multiprocessing.Pipe(duplex=False)
        self._process = multiprocessing.Process(target=self._run, args=(telling,), daemon=True)
        self._process.start()
        # So that its end is seen here, however it comes.
        telling.close()

    def _run(self, telling):
        took, wrong, retried = [], [], []
        while not self._stop.is_set():
            began = time.monotonic()
            outcome = visit(self._address, retried=retried)
            took.append(time.monotonic() - began)
            if outcome is not None:
                wrong.append(outcome)
            time.sleep(0.02)
        telling.send((took, wrong, retried))

    def leave(self):
        """How long each visit took, in seconds, sorted; fails where one went wrong."""
        self._stop.set()
        took, wrong, retried = self._told.recv()
        self._process.join()
        expect(not wrong, f"{len(wrong)} of {len(took)} normal visits failed: {wrong[:3]}")
        expect(took, "no normal visit at all")
        # Where the machine itself is short of time, a worker may be behind for a moment.
        few = max(5, len(took) / 50)
        expect(len(retried) <= few, f"{len(retried)} requests of {len(took)} visits had to wait")
        return sorted(took)


@contextlib.contextmanager
def served_all_the_while(running_gateway, slowest=5.0):
    """Normal visits go on within the block, and every one succeeds in bounded time."""
    normal = Normal(running_gateway.address)
    try:
        yield
    except BaseException:
        normal._process.terminate()
        raise
    took = normal.leave()
    expect(took[-1] <= slowest, f"a normal visit took {took[-1]:.1f} s")
    print(f"  normal visits: {len(took)}, p50 {took[len(took) // 2] * 1e3:.0f} ms, slowest {took[-1] * 1e3:.0f} ms")


def eventually(holds, seconds, otherwise):
    """Waits until it holds; returns how long that took."""
    began = time.monotonic()
    while not holds():
        waited = time.monotonic() - began
        expect(waited <= seconds, otherwise() if callable(otherwise) else otherwise)
        time.sleep(0.05)
    return time.monotonic() - began
