"""How long the slowest of a hundred takes while the gateway has half as much to do as it can."""

import load
import open_loop
import servers
import wire
from figures.fresh import one_session
from report import AT_MOST, Figure
from rounds import Rounds, Series

TARGET_MS = 2
CONNECTIONS = 64
# Beyond this the generator, and not the gateway, makes the tail.
LATE_MS = 0.5
RATE_TOLERANCE = 0.02


def measure(bench):
    rounds = Rounds(bench, "tail")
    with servers.gateway(bench, bench.first, {"http.workers": 1}) as gateway:
        exchanges = one_session(bench, "gateway", gateway.url)
        size, _ = servers.inspected(exchanges)

        def as_fast_as_it_goes():
            outcome = load.run(exchanges, bench.second, bench.connections, seconds=bench.seconds, size=size)
            gateway.forget_log()
            return outcome.rate

        as_fast_as_it_goes()
        peak = Series(rounds.alone(3, as_fast_as_it_goes)).median
        rate = peak / 2
        body = exchanges.bodies.read_bytes().rstrip(b"\n")
        requests = [wire.request("POST", exchanges.url, exchanges.headers, body)] * int(rate * bench.seconds)

        def at_half():
            with open_loop.pinned({int(bench.second)}):
                outcome = open_loop.run(
                    exchanges.url, requests, rate, CONNECTIONS, exchanges.expect.encode(), spin=True)
            gateway.check_log()
            gateway.forget_log()
            return outcome

        outcomes = rounds.alone(bench.rounds, at_half)
    achieved, late = (Series(tuple(map(of, outcomes))) for of in (lambda one: one.rate, lambda one: one.late_p99_ms))
    p50, p99 = (Series(tuple(one.percentile(percent) for one in outcomes)) for percent in (50, 99))
    doubts = rounds.doubts(p99)
    if abs(achieved.median / rate - 1) > RATE_TOLERANCE:
        doubts.append(f"{achieved.median:,.0f}/s were achieved in place of {rate:,.0f}/s")
    if late.median > LATE_MS:
        doubts.append(f"one request in a hundred left {late.median:.2f} ms late")
    yield Figure(
        "tail", "p99 of the fresh exchange at half of its peak rate, one worker, open loop", p99.median, p99.low,
        p99.high, "ms", AT_MOST, TARGET_MS,
        f"{achieved.median:,.0f}/s, half of {peak:,.0f}/s; p50 {p50.median:.2f} ms", doubts,
        {"peak_rate": peak, "p50_ms": p50.values, "p99_ms": p99.values, "generator_late_p99_ms": late.values},
    )
