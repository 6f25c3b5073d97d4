"""Closed-loop load by wrk: as fast as the server responses, on a fixed number of connections."""

import contextlib
import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import wire
from wire import Failure

SCRIPT = Path(__file__).resolve().with_name("load.lua")
# Responses of one kind differ by a few bytes. A redirect or an error page differs by far more.
SIZE_TOLERANCE = 0.05


@dataclass(frozen=True)
class Load:
    """Requests to one server, and the text that each response must contain."""

    name: str
    url: str
    bodies: Path  # one a line, sent in turn
    expect: str
    headers: dict = field(default_factory=lambda: {"Content-Type": "application/json"})

    def sample(self):
        """Sends one request and checks the response."""
        with self.bodies.open("rb") as bodies:
            body = bodies.readline().rstrip(b"\n")
        response = wire.send("POST", self.url, self.headers, body)
        if response.status != 200 or self.expect.encode() not in response.body:
            raise Failure(f"{self.name}: {response.status} {response.body[:300]!r}; expected {self.expect!r}")
        return response


@dataclass(frozen=True)
class Outcome:
    requests: int
    rate: float  # responses a second
    p50_ms: float
    p99_ms: float


def run(load, cores, connections, seconds=None, count=None, keep=None, size: Optional[int] = None, rate=None, refused=False):
    """Runs for `seconds`, or until `count` responses have arrived.

    `size`: bytes of one response. With `count`, every response is checked and no size is needed.
    `rate`: requests a second, at most; only without `count`. `refused`: every response must be an error.
    """
    bound = seconds or 600
    host, port = wire.address(load.url)
    scheme, _, path = load.url.partition("://")
    path = path.partition("/")[2]
    command = ["taskset", "-c", cores, "wrk", "-t", 1, "-c", connections, "-d", f"{bound}s", "--timeout", "10s"]
    for name, value in load.headers.items():
        command += ["-H", f"{name}: {value}"]
    command += ["-s", SCRIPT, f"{scheme}://{host}:{port}/{path}"]
    variables = {"BENCH_BODIES": load.bodies, "BENCH_COUNT": count, "BENCH_KEEP": keep, "BENCH_RATE": rate,
            "BENCH_EXPECT": load.expect if count else None}
    environment = {**os.environ, **{name: str(value) for name, value in variables.items() if value is not None}}
    done = subprocess.run(
        [str(argument) for argument in command], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=bound + 30,
    )
    result = None
    with contextlib.suppress(ValueError, IndexError):
        result = json.loads(done.stdout.strip().splitlines()[-1])
    if done.returncode != 0 or not isinstance(result, dict):
        raise Failure(f"{load.name}: wrk failed:\n{done.stdout[-2000:]}")
    expected_refusals = result["requests"] if refused else 0
    if result["refused"] != expected_refusals or result["socket_errors"] or result["wrong"] or not result["requests"]:
        raise Failure(f"{load.name}: {result}")
    if count is not None and result["requests"] != count:
        raise Failure(f"{load.name}: {result['requests']} responses to {count} requests")
    mean = result["bytes"] / result["requests"]
    if size is not None and abs(mean / size - 1) > SIZE_TOLERANCE:
        raise Failure(f"{load.name}: {mean:.0f} bytes a response; expected {size}")
    return Outcome(result["requests"], result["requests"] / result["seconds"], result["p50_ms"], result["p99_ms"])
