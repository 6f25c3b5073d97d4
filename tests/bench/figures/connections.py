"""10,000 idle connections: how fast they are accepted, their memory, and their cost for the exchanges of 32 others."""

import collections
import contextlib
import resource
import select
import time

import load
import servers
import wire
from figures.fresh import one_session
from figures.mock import processor_seconds
from report import AT_LEAST, AT_MOST, Figure
from rounds import Rounds, Series
from wire import Failure

IDLE = 10_000
RATIO = 0.95
KIB = 9
ACCEPTS_A_SECOND = 2_000
ACCEPT_MS = 1_000
# Afterwards, an idle connection has only the memory that it keeps.
SETTLE_SECONDS = 1.5
# After the last connections were closed.
RETURN_SECONDS = 20
KEPT_MIB = 8
# Those that a gateway keeps for other things than clients.
OTHER_FILES = 4_096


def idle_count(bench):
    """As many as a process may have here, and `http.max_connections` for them: above 7/8 of that, idle ones are closed."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    others = 2 * bench.connections
    most = min((IDLE + others) * 8 // 7 + 1, files - min(files // 2, OTHER_FILES))
    return bench.size(min(IDLE, most * 7 // 8 - others), 500), most


class IdleConnections:
    """Connections that open at the rate of the goal. Each has had one response."""

    def __init__(self, load_, count):
        self.open, self.latencies_ms = [], []
        with load_.bodies.open("rb") as bodies:
            request = wire.request("POST", load_.url, load_.headers, bodies.readline().rstrip(b"\n"))
        waiting = collections.deque()
        begin = time.perf_counter()
        while len(self.latencies_ms) < count:
            due = begin + len(self.open) / ACCEPTS_A_SECOND
            if len(self.open) < count and time.perf_counter() >= due:
                connection = wire.connect(load_.url)
                connection.sendall(request)
                self.open.append(connection)
                waiting.append((due, connection))
            elif waiting:
                due, connection = waiting.popleft()
                if not connection.recv(1 << 16).startswith(b"HTTP/1.1 200 "):
                    raise Failure("connections: a new connection got no response")
                self.latencies_ms.append((time.perf_counter() - due) * 1e3)
        self.rate = count / (time.perf_counter() - begin)

    def check(self):
        poll = select.poll()
        for connection in self.open:
            poll.register(connection, select.POLLIN)
        if ended := poll.poll(0):
            raise Failure(f"connections: {len(ended)} of {len(self.open)} idle connections were closed")

    def close(self):
        for connection in self.open:
            connection.close()


def measure(bench):
    count, most = idle_count(bench)
    rounds = Rounds(bench, "connections")
    accepted, latencies, kib = [], [], []
    with servers.gateway(bench, bench.first, {"http.workers": 1, "http.max_connections": most}) as gateway:
        exchanges = one_session(bench, "connections", gateway.url)
        size, _ = servers.inspect(exchanges)

        def exchange():
            before = processor_seconds(gateway.child)
            outcome = load.run(exchanges, bench.second, bench.connections, seconds=bench.seconds, size=size)
            gateway.truncate_log()
            return (processor_seconds(gateway.child) - before) / outcome.requests * 1e6

        def beside_idle():
            before, _ = gateway.memory_mib()
            with contextlib.closing(IdleConnections(exchanges, count)) as idle:
                time.sleep(SETTLE_SECONDS)
                # Later, the allocator has the memory of earlier connections.
                if not kib:
                    kib.append((gateway.memory_mib()[0] - before) * 1024 / count)
                accepted.append(idle.rate)
                latencies.extend(idle.latencies_ms)
                micros = exchange()
                idle.check()
            return micros

        exchange()
        alone, _ = gateway.memory_mib()
        pairs = rounds.paired(bench.rounds, exchange, beside_idle)
        time.sleep(RETURN_SECONDS)
        kept = gateway.memory_mib()[0] - alone
    ratios = pairs.ratios(lambda micros: micros)
    without, beside = pairs.series(lambda micros: micros)
    yield Figure(
        "connections-rate", f"exchanges of {bench.connections} connections beside {count:,} idle ones, relative to without, by the "
        "processor time of an exchange, one worker", ratios.median, ratios.low, ratios.high, "", AT_LEAST, RATIO,
        f"{beside.median:.1f} µs and {without.median:.1f} µs", rounds.warnings(ratios), {"beside": beside.values, "without": without.values})
    yield Figure(
        "connections-memory", "resident memory for each idle connection", kib[0], kib[0], kib[0], "KiB", AT_MOST, KIB,
        f"{count:,} connections with one exchange each")
    yield Figure(
        "connections-kept", f"resident memory that is not returned {RETURN_SECONDS} s after they were closed", kept, kept, kept, "MiB",
        AT_MOST, KEPT_MIB, f"{len(latencies):,} connections, {count:,} at a time")
    latencies.sort()
    rate, p99 = Series(tuple(accepted)), latencies[len(latencies) * 99 // 100]
    yield Figure(
        "connections-accept", f"from {ACCEPTS_A_SECOND:,} new connections/s to the response to an exchange on each, p99", p99,
        latencies[0], latencies[-1], "ms", AT_MOST, ACCEPT_MS,
        f"{len(latencies):,} connections, {rate.median:,.0f}/s, p50 {latencies[len(latencies) // 2]:.1f} ms; none failed",
        rounds.warnings(rate), {"rates": rate.values})
