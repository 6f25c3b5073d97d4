"""The time that the gateway adds to one introspection without queueing."""

import statistics

import open_loop
import servers
import wire
from figures.stale import CALLS, check_calls
from realm import warm_up
from report import AT_MOST, Figure
from rounds import Rounds, Series

TARGET_MS = 0.5
RATE = 100
# Blocks of one second each, alternating between the two.
BLOCKS = 40
# At this rate no request waits for a connection unless a response takes a hundred times as long as usual.
CONNECTIONS = 8


def in_blocks(load_, count):
    """The requests of a load, cut into blocks of one second."""
    lines = load_.bodies.read_bytes().splitlines()[:count]
    requests = [wire.request("POST", load_.url, load_.headers, line) for line in lines]
    return iter([requests[begin:begin + RATE] for begin in range(0, count, RATE)])


def measure(bench):
    keycloak = bench.keycloak()
    rounds = Rounds(bench, "added")
    blocks = bench.size(BLOCKS, 3)
    count = blocks * RATE
    sessions = bench.sessions(count)
    introspections = keycloak.introspections(bench, keycloak.refresh_tokens(bench, count))
    warm_up(bench, introspections)
    bodies = bench.folder / "added"
    bodies.write_text("\n".join(sessions[:count]) + "\n")
    with servers.gateway(bench, bench.both, keycloak.settings(bench.sealing())) as gateway:
        before = gateway.counters()[CALLS]
        exchanges = servers.exchanges("stale exchange", gateway.url, bodies)
        exchange_blocks, introspection_blocks = in_blocks(exchanges, count), in_blocks(introspections, count)

        def paced(load_, requests):
            outcome = open_loop.run(load_.url, requests, RATE, CONNECTIONS, load_.expect.encode(), spin=False)
            return outcome.latencies_ms

        pairs = rounds.paired(
            blocks,
            lambda: paced(exchanges, next(exchange_blocks)),
            lambda: paced(introspections, next(introspection_blocks)))
        check_calls("added", gateway, count, before)
        gateway.check_log()
    added = Series(tuple(
        statistics.median(exchange) - statistics.median(introspection)
        for exchange, introspection in zip(pairs.a, pairs.b)))
    exchange, introspection = (statistics.median(sum(blocks, [])) for blocks in (pairs.a, pairs.b))
    yield Figure(
        "added", f"time that the gateway adds to one introspection at {RATE}/s, p50", added.median, added.low, added.high,
        "ms", AT_MOST, TARGET_MS, f"{exchange:.2f} ms and {introspection:.2f} ms",
        # The difference is near zero, so its relative spread means nothing.
        rounds.warnings(added, bound=None),
        {"added_ms": added.values, "exchange_p50_ms": exchange, "introspection_p50_ms": introspection},
    )
