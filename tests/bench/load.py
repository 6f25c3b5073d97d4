"""Closed-loop load by wrk: as fast as the server answers, on a fixed number of connections."""

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
# Answers to one kind of request differ by a few bytes. A redirect or an error page differs by far more.
SIZE_TOLERANCE = 0.05


@dataclass(frozen=True)
class Load:
    """Requests that one server gets, and what each answer must contain."""

    name: str
    url: str
    bodies: Path  # one a line, sent in turn
    expect: str
    headers: dict = field(default_factory=lambda: {"Content-Type": "application/json"})

    def sample(self):
        """One request, answered as it must be."""
        with self.bodies.open("rb") as bodies:
            body = bodies.readline().rstrip(b"\n")
        answer = wire.ask("POST", self.url, self.headers, body)
        if answer.status != 200 or self.expect.encode() not in answer.body:
            raise Failure(f"{self.name}: {answer.status} {answer.body[:300]!r} in place of {self.expect!r}")
        return answer


@dataclass(frozen=True)
class Outcome:
    requests: int
    rate: float  # answers a second
    p50_ms: float
    p99_ms: float


def run(load, cores, connections, seconds=None, count=None, keep=None, size: Optional[int] = None):
    """Either for some seconds, or until so many answers have come.

    `size`: what one answer has on the wire, in bytes. Counted answers are looked at one by one and need none.
    """
    bound = seconds or 600
    host, port = wire.address(load.url)
    path = load.url.split("/", 3)[3]
    command = ["taskset", "-c", cores, "wrk", "-t", 1, "-c", connections, "-d", f"{bound}s", "--timeout", "10s"]
    for name, value in load.headers.items():
        command += ["-H", f"{name}: {value}"]
    command += ["-s", SCRIPT, f"http://{host}:{port}/{path}"]
    variables = {"BENCH_BODIES": load.bodies, "BENCH_COUNT": count, "BENCH_KEEP": keep,
            "BENCH_EXPECT": load.expect if count else None}
    environment = {**os.environ, **{name: str(value) for name, value in variables.items() if value is not None}}
    done = subprocess.run(
        [str(argument) for argument in command], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=bound + 30,
    )
    said = None
    with contextlib.suppress(ValueError, IndexError):
        said = json.loads(done.stdout.strip().splitlines()[-1])
    if done.returncode != 0 or not isinstance(said, dict):
        raise Failure(f"{load.name}: wrk failed:\n{done.stdout[-2000:]}")
    if said["refused"] or said["socket_errors"] or said["wrong"] or not said["requests"]:
        raise Failure(f"{load.name}: {said}")
    if count is not None and said["requests"] != count:
        raise Failure(f"{load.name}: {said['requests']} answers to {count} requests")
    mean = said["bytes"] / said["requests"]
    if size is not None and abs(mean / size - 1) > SIZE_TOLERANCE:
        raise Failure(f"{load.name}: {mean:.0f} bytes an answer where {size} were expected")
    return Outcome(said["requests"], said["requests"] / said["seconds"], said["p50_ms"], said["p99_ms"])
