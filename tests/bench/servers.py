"""Starts what is measured, on the cores that a figure names, and ends it."""

import base64
import contextlib
import json
import os
import re
import shlex
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
    """A server that runs until the end of the block, where it must still be running."""
    command = ["taskset", "-c", cores, *command]
    with log.open("ab") as sink:
        child = subprocess.Popen(
            [str(argument) for argument in command], env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
    try:
        yield child
        if child.poll() is not None:
            raise Failure(f"{command[3]} ended by itself with {child.returncode}")
    except Failure as failure:
        raise Failure(f"{failure}\n{last_words(log)}") from None
    finally:
        machine.end(child)


def last_words(log):
    return log.read_text(errors="replace")[-1000:]


def wait_for(child, method, url, pause_seconds=0.01):
    """Until the URL answers with 200."""
    give_up = time.monotonic() + READY_SECONDS
    while time.monotonic() < give_up and child.poll() is None:
        with contextlib.suppress(OSError):
            if wire.ask(method, url).status == 200:
                return
        time.sleep(pause_seconds)
    raise Failure(f"{url} does not answer (exit code so far: {child.poll()})")


def log_in(url):
    answer = wire.ask("POST", f"{url}/api/v1/auth/login", JSON, json.dumps(CREDENTIALS).encode())
    if answer.status != 200:
        raise Failure(f"{url}: login answered {answer.status} {answer.body[:300]!r}")
    return json.loads(answer.body)


def exchange_body(session):
    pair = {name: session[name] for name in ("session_id", "session_token")}
    return json.dumps({**pair, "grant_type": "session", "scope": SCOPE})


def part_of_token(token, index):
    part = token.split(".")[index]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def exchanges(name, url, bodies):
    """The load on the token endpoint: every answer grants the scope that was asked for."""
    return Load(name, f"{url}/api/v1/auth/token", bodies, f'"scope":"{SCOPE}"')


def inspected(load):
    """One exchange, its token opened: the size of the answer, and the algorithm of the signature."""
    answer = load.sample()
    reply = json.loads(answer.body)
    header, claims = (part_of_token(reply["access_token"], index) for index in (0, 1))
    if reply["scope"] != SCOPE or claims.get("scope") != SCOPE:
        raise Failure(f"{load.name}: granted {reply['scope']!r}, signed {claims.get('scope')!r}")
    return answer.size, header["alg"]


class Gateway:
    def __init__(self, url, management, child, log):
        self.url, self.management, self.child, self.log = url, management, child, log

    def counters(self):
        answer = wire.ask("GET", f"{self.management}/metrics")
        lines = (line.rpartition(" ") for line in answer.body.decode().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in lines}

    def check_log(self):
        """A gateway that drops log lines does less than its users see it do."""
        dropped = self.counters()["auth_gateway_log_lines_dropped_total"]
        if dropped:
            raise Failure(f"the gateway dropped {dropped:.0f} log lines")

    def forget_log(self):
        """Empties the log, which is written at its end, so that rounds do not fill the disk."""
        os.truncate(self.log, 0)

    def memory_mib(self):
        """Resident now, and at the most so far."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        return tuple(int(re.search(rf"{name}:\s+(\d+) kB", status).group(1)) / 1024 for name in ("VmRSS", "VmHWM"))


def environment(settings):
    """What a program is given to run with these settings and no others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS_PREFIX)}
    chosen = {f"{SETTINGS_PREFIX}_{name.upper().replace('.', '__')}": str(value) for name, value in settings.items()}
    return {**kept, **chosen}


@contextlib.contextmanager
def gateway(bench, cores, settings=None, pause_seconds=0.01):
    """An auth-gateway on free ports; in development mode, with the mock, where the settings name nothing else."""
    public, management = (f"127.0.0.1:{port}" for port in machine.free_ports(2))
    chosen = {
        "http.listen": public,
        "http.public_url": f"http://{public}",
        "management.listen": management,
        **(settings or {}),
    }
    log = bench.folder / "gateway.log"
    log.write_bytes(b"")
    with process([bench.binary], cores, log, environment(chosen)) as child:
        wait_for(child, "GET", f"http://{management}/health/ready", pause_seconds)
        yield Gateway(f"http://{public}", f"http://{management}", child, log)


@contextlib.contextmanager
def yardstick(bench, workers, cores):
    """Yields the URL of the other server: one that runs already, or one that is started as the gateway is."""
    if bench.yardstick_urls.get(workers):
        yield bench.yardstick_urls[workers].rstrip("/")
        return
    port = machine.free_ports(1)[0]
    command = [argument.format(port=port, workers=workers) for argument in shlex.split(bench.yardstick_command)]
    url = f"http://127.0.0.1:{port}"
    with process(command, cores, bench.folder / "yardstick.log") as child:
        give_up = time.monotonic() + READY_SECONDS
        while True:
            with contextlib.suppress(OSError):
                log_in(url)
                break
            if time.monotonic() > give_up or child.poll() is not None:
                raise Failure(f"the yardstick does not answer at {url}")
            time.sleep(0.05)
        yield url
