"""Offers three times as many exchanges as the gateway can serve, at a fixed rate.

The tokens are signed with RSA, so that a few thousand requests a second need one core, and this generator can offer
three times as many. The gateway and the generator have one core each.
"""

import contextlib
import json
import os
import select
import socket
import tempfile
import time
from dataclasses import dataclass, field

import gateway as programs
import machine
import fixture
import wire
from fixture import expect

CONNECTIONS = 1500
PEAK_SECONDS = 4
OVERLOAD_SECONDS = int(os.environ.get("OVERLOAD_SECONDS", "10"))
OVERLOAD_FACTOR = 3
GROWTH_MIB = 96
# In a debug build, a refusal costs far more than in a release build, and everything takes longer.
RELEASE = programs.BINARY.parent.name == "release"
GOODPUT, SLOWEST_SECONDS = (0.9, 1) if RELEASE else (0.5, 5)


@dataclass
class Outcome:
    seconds: float
    served: list = field(default_factory=list)  # seconds from the time at which each was due
    refused: list = field(default_factory=list)
    offered: int = 0
    late: int = 0  # due while no connection was free

    def goodput(self):
        return len(self.served) / self.seconds


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0.0


def offer(address, request, rate, connections, seconds, sample=None):
    """Sends `rate` requests a second, independent of responses; without a rate, as fast as connections are free."""
    outcome = Outcome(seconds)
    with contextlib.ExitStack() as stack:
        poll = stack.enter_context(contextlib.closing(select.epoll()))
        clients, free, waiting = {}, [], {}
        stack.callback(lambda: [client.close() for client in clients.values()])

        def open_one():
            client = socket.create_connection(address, timeout=10)
            client.setblocking(False)
            poll.register(client, select.EPOLLIN)
            clients[client.fileno()] = client
            free.append(client.fileno())

        begin = time.perf_counter()
        end = begin + seconds
        while (now := time.perf_counter()) < end:
            target = int((now - begin) * rate) if rate else outcome.offered + connections - len(waiting)
            while outcome.offered < target and len(waiting) < connections:
                if not free:
                    open_one()
                number = free.pop()
                clients[number].send(request)
                due = begin + outcome.offered / rate if rate else now
                waiting[number] = due, bytearray()
                outcome.offered += 1
            if rate and outcome.offered < target:
                # No connection is free: the request counts as offered and is not sent.
                outcome.late += target - outcome.offered
                outcome.offered = target
            for number, _ in poll.poll(0.001):
                part = clients[number].recv(1 << 16)
                if not part and number in free:
                    # The gateway closed an idle connection.
                    free.remove(number)
                    clients.pop(number).close()
                    continue
                expect(part and number in waiting, "the gateway closed a connection, or sent an unexpected response")
                due, received = waiting[number]
                received += part
                response = wire.parse(received)
                if response is None:
                    continue
                del waiting[number]
                free.append(number)
                took = time.perf_counter() - due
                if response.status == 200:
                    outcome.served.append(took)
                else:
                    expect(response.status == 503, f"{response.status} {response.body[:200]!r}")
                    check_error(received, response)
                    outcome.refused.append(took)
            if sample is not None:
                sample()
    return outcome


def check_error(received, response):
    body = json.loads(response.body)
    expect(
        body["error"] == "temporarily_unavailable" and b"\r\nretry-after: " in received[:600].lower(),
        f"not an error response: {bytes(received)!r}")


@contextlib.contextmanager
def pinned(core):
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run():
    """At three times the capacity (open loop), goodput stays, refusals have Retry-After, and recovery is immediate."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise machine.CannotRun("two cores are needed, one for the gateway and one for its clients")
    with tempfile.TemporaryDirectory() as folder:
        for use, more in (("signing", ["--alg", "RS256"]), ("sealing", [])):
            machine.build([
                str(programs.BINARY), "keys", "generate", "--dir", f"{folder}/{use}", "--use", use, *more])
        settings = {
            "http.workers": 1, "keys.signing_dir": f"{folder}/signing", "keys.sealing_dir": f"{folder}/sealing",
            "session.freshness": "10m", "permissions.ttl": "10m",
        }
        with fixture.running(settings, prefix=["taskset", "-c", cores[0]]) as gateway, pinned(cores[1]):
            overload(gateway)


def overload(gateway):
    session = programs.log_in(gateway.url)
    pair = {name: session[name] for name in ("session_id", "session_token")}
    body = json.dumps({**pair, "grant_type": "session", "scope": fixture.SCOPE}).encode()
    request = wire.request("POST", f"{gateway.url}{fixture.API}/token", {"Content-Type": "application/json"}, body)
    offer(gateway.address, request, None, 32, 1)
    peak = offer(gateway.address, request, None, 32, PEAK_SECONDS).goodput()
    rss = gateway.rss_mib()
    growth, next_sample = 0.0, 0.0

    def sample():
        nonlocal growth, next_sample
        if time.perf_counter() > next_sample:
            growth, next_sample = max(growth, gateway.rss_mib() - rss), time.perf_counter() + 0.2

    overloaded = offer(gateway.address, request, OVERLOAD_FACTOR * peak, CONNECTIONS, OVERLOAD_SECONDS, sample)
    ended = time.monotonic()
    fixture.eventually(lambda: fixture.run_session(gateway.address) is None, 10, "no recovery")
    recovered = time.monotonic() - ended
    # The load of other processes may have changed meanwhile.
    peak_after = offer(gateway.address, request, None, 32, PEAK_SECONDS).goodput()
    expect(
        overloaded.offered - overloaded.late > 1.5 * peak * overloaded.seconds, f"{overloaded.offered - overloaded.late} were sent: no overload")
    goodput = overloaded.goodput() / min(peak, peak_after)
    served, refused = percentile(overloaded.served, 99), percentile(overloaded.refused, 99)
    print(
        f"  peak {peak:,.0f}/s before and {peak_after:,.0f}/s after; offered {overloaded.offered / overloaded.seconds:,.0f}/s,"
        f" of which {overloaded.late / overloaded.seconds:,.0f}/s had no free connection; goodput {overloaded.goodput():,.0f}/s ({goodput:.2f} of the lower peak),"
        f" refused {len(overloaded.refused) / overloaded.seconds:,.0f}/s\n"
        f"  served: p50 {percentile(overloaded.served, 50) * 1e3:.0f} ms, p99 {served * 1e3:.0f} ms;"
        f" refused: p50 {percentile(overloaded.refused, 50) * 1e3:.0f} ms, p99 {refused * 1e3:.0f} ms;"
        f" +{growth:.0f} MiB; recovered in {recovered:.1f} s")
    expect(goodput >= GOODPUT, f"goodput fell to {goodput:.2f} of the peak")
    expect(overloaded.refused, "no request was refused")
    expect(max(served, refused) < SLOWEST_SECONDS, f"p99 of {served:.2f} s (served) and {refused:.2f} s (refused)")
    expect(growth < GROWTH_MIB, f"{growth:.0f} MiB more")
    expect(recovered < 10, f"recovered in {recovered:.1f} s")
