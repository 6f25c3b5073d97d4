"""The time from the start of a replica until it is ready."""

import time

from report import AT_MOST, Figure
from rounds import Rounds, Series
from servers import gateway

TARGET_MS = 50


def measure(bench):
    rounds = Rounds(bench, "start")

    def one():
        began = time.perf_counter()
        with gateway(bench, bench.both, pause_seconds=0.0005):
            return (time.perf_counter() - began) * 1e3

    took = Series(rounds.alone(bench.size(20, 3), one))
    yield Figure(
        "start", "from the start to the first 200 of `/health/ready`, development mode", took.median, took.low, took.high,
        "ms", AT_MOST, TARGET_MS, f"{len(took.values)} starts", rounds.warnings(took, bound=None),
        {"ms": took.values},
    )
