"""The p99 latency of an exchange at half of the peak rate."""

import load
import open_loop
import servers
import wire
from figures.fresh import one_session
from report import AT_MOST, Figure
from rounds import Rounds, Series

TARGET_MS = 2
CONNECTIONS = 64
# If the generator sends later than this, it causes the tail latency, and not the gateway.
LATE_MS = 0.5
RATE_TOLERANCE = 0.02


def measure(bench):
    rounds = Rounds(bench, "tail")
    with servers.gateway(bench, bench.first, {"http.workers": 1}) as gateway:
        exchanges = one_session(bench, "gateway", gateway.url)
        size, _ = servers.inspect(exchanges)

        def at_peak():
            outcome = load.run(exchanges, bench.second, bench.connections, seconds=bench.seconds, size=size)
            gateway.truncate_log()
            return outcome.rate

        at_peak()
        peak = Series(rounds.alone(3, at_peak)).median
        rate = peak / 2
        body = exchanges.bodies.read_bytes().rstrip(b"\n")
        requests = [wire.request("POST", exchanges.url, exchanges.headers, body)] * int(rate * bench.seconds)

        def at_half():
            with open_loop.pinned({int(bench.second)}):
                outcome = open_loop.run(
                    exchanges.url, requests, rate, CONNECTIONS, exchanges.expect.encode(), spin=True)
            gateway.check_log()
            gateway.truncate_log()
            return outcome

        outcomes = rounds.alone(bench.rounds, at_half)
    achieved, late = (Series(tuple(map(of, outcomes))) for of in (lambda one: one.rate, lambda one: one.late_p99_ms))
    p50, p99 = (Series(tuple(one.percentile(percent) for one in outcomes)) for percent in (50, 99))
    warnings = rounds.warnings(p99)
    if abs(achieved.median / rate - 1) > RATE_TOLERANCE:
        warnings.append(f"{achieved.median:,.0f}/s were achieved instead of {rate:,.0f}/s")
    if late.median > LATE_MS:
        warnings.append(f"one request in a hundred was sent {late.median:.2f} ms late")
    yield Figure(
        "tail", "p99 of the fresh exchange at half of its peak rate, one worker, open loop", p99.median, p99.low,
        p99.high, "ms", AT_MOST, TARGET_MS,
        f"{achieved.median:,.0f}/s, half of {peak:,.0f}/s; p50 {p50.median:.2f} ms", warnings,
        {"peak_rate": peak, "p50_ms": p50.values, "p99_ms": p99.values, "generator_late_p99_ms": late.values},
    )
