"""A login without the audit log, with it, and with `audit.fail_closed`, which waits until its line is on the disk.

The file is in the target folder, so the figures are those of its disk.
"""

import contextlib
import os
import time

import load
import open_loop
import servers
import wire
from figures.mock import logging_in
from report import AT_LEAST, AT_MOST, Figure
from rounds import Rounds, Series
from wire import Failure

# At this rate no login waits for another one.
RATE = 100
CONNECTIONS = 8
P50_RATIO = 1.1
# Longer than a line stays in memory.
LINGER_SECONDS = 0.3
SYNCS = 100
LINE_BYTES = 350
SETTINGS = {"audit.destination": "file", "keys.identifier_key": "a-key-of-the-measurement-0123456789"}


class Logins:
    """Logins at one gateway."""

    def __init__(self, bench, gateway, file=None):
        self.bench, self.gateway, self.file = bench, gateway, file
        self.login = logging_in(bench, gateway)
        self.size = self.login.sample().size
        body = self.login.bodies.read_bytes().rstrip(b"\n")
        self.requests = [wire.request("POST", self.login.url, self.login.headers, body)] * (RATE * bench.seconds)

    def measure(self):
        """At the fixed rate, then as fast as possible."""
        with open_loop.pinned({int(self.bench.second)}):
            paced = open_loop.run(
                self.login.url, self.requests, RATE, CONNECTIONS, self.login.expect.encode(), spin=False)
        fast = load.run(
            self.login, self.bench.second, self.bench.connections, seconds=self.bench.seconds, size=self.size)
        self.gateway.check_log()
        self.gateway.truncate_log()
        if self.file:
            self.check_lines()
            os.truncate(self.file, 0)
        return paced, fast

    def check_lines(self):
        time.sleep(LINGER_SECONDS)
        counters = self.gateway.counters()
        logins = counters['auth_gateway_requests_total{route="login",outcome="ok"}']
        lines, lost = (counters[f"auth_gateway_audit_lines_{name}"] for name in ("total", "lost_total"))
        if lines < logins or lost:
            raise Failure(f"audit: {lines:.0f} lines of {logins:.0f} logins, {lost:.0f} lost")


def synced_ms(file):
    """How long appending a line takes until it is on the disk, in the order of the attempts."""
    times = []
    for _ in range(SYNCS):
        began = time.perf_counter()
        file.write(b"x" * LINE_BYTES)
        os.fdatasync(file.fileno())
        times.append((time.perf_counter() - began) * 1e3)
    return times


@contextlib.contextmanager
def gateways(bench):
    """Logins without the audit log, with it, and with `fail_closed`, each at a gateway of its own."""
    with contextlib.ExitStack() as stack:

        def start(settings, file=None):
            settings = {"http.workers": 1, **settings}
            return Logins(bench, stack.enter_context(servers.gateway(bench, bench.first, settings)), file)

        files = [bench.folder / f"audit-{name}.log" for name in ("open", "closed")]
        with_file = [{**SETTINGS, "audit.file": file} for file in files]
        yield start({}), start(with_file[0], files[0]), start({**with_file[1], "audit.fail_closed": "true"}, files[1])


def measure(bench):
    rounds = Rounds(bench, "audit")
    with gateways(bench) as logins, (bench.folder / "synced").open("ab", buffering=0) as file:
        measures = [*(one.measure for one in logins), lambda: synced_ms(file)]
        without, *audited, synced = rounds.in_turn(bench.rounds, measures)
    ordered = sorted(sum(synced, []))
    disk = [ordered[len(ordered) * percent // 100] for percent in (50, 99)]
    disk = f"; a write and `fdatasync` of this disk: p50 {disk[0]:.2f} ms, p99 {disk[1]:.2f} ms"
    named = [("audit", "the audit log", P50_RATIO, ""), ("audit-closed", "`audit.fail_closed`", None, disk)]
    for (name, what, p50_target, more), outcomes in zip(named, audited):
        yield latency(rounds, f"{name}-login", what, p50_target, more, outcomes, without)
        yield rate(rounds, f"{name}-rate", what, outcomes, without)


def latency(rounds, name, what, target, more, outcomes, without):
    p50, p50_without, p99, p99_without = (
        Series(tuple(paced.percentile(percent) for paced, _ in of)) for percent in (50, 99) for of in (outcomes, without))
    ratios = Series(tuple(one / other for one, other in zip(p50.values, p50_without.values)))
    return Figure(
        name, f"login with {what} relative to one without, {RATE}/s, p50", ratios.median, ratios.low, ratios.high, "",
        AT_MOST, target,
        f"p50 {p50.median:.2f} ms and {p50_without.median:.2f} ms; p99 {p99.median:.2f} ms and {p99_without.median:.2f} ms{more}",
        rounds.warnings(ratios),
        {"p50_ms": p50.values, "p50_without_ms": p50_without.values, "p99_ms": p99.values, "p99_without_ms": p99_without.values},
    )


def rate(rounds, name, what, outcomes, without):
    rates, rates_without = (Series(tuple(fast.rate for _, fast in of)) for of in (outcomes, without))
    ratios = Series(tuple(one / other for one, other in zip(rates.values, rates_without.values)))
    return Figure(
        name, f"logins a second with {what} relative to without, one worker", ratios.median, ratios.low, ratios.high, "",
        AT_LEAST, None,
        f"{rates.median:,.0f}/s and {rates_without.median:,.0f}/s on {rounds.bench.connections} connections",
        rounds.warnings(ratios), {"rates": rates.values, "rates_without": rates_without.values},
    )
