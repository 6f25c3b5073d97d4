"""Compared values are measured alternately, round by round, because the speed of a machine changes over minutes."""

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

IDLE_SHARE = 0.1
SAMPLE_SECONDS = 0.3
SPREAD = 0.25
WAITING_ROUNDS = 4


def busy():
    """The share of the processor time of the machine that is in use during the next 0.3 s."""

    def ticks():
        whole = Path("/proc/stat").read_text().splitlines()[0]
        user, nice, system, idle, waiting, *others = map(int, whole.split()[1:9])
        return user + nice + system + sum(others), idle + waiting

    used, unused = ticks()
    time.sleep(SAMPLE_SECONDS)
    used, unused = (later - before for later, before in zip(ticks(), (used, unused)))
    return used / max(used + unused, 1)


@dataclass(frozen=True)
class Series:
    """One figure over several rounds."""

    values: tuple

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def low(self):
        return min(self.values)

    @property
    def high(self):
        return max(self.values)

    @property
    def spread(self):
        return (self.high - self.low) / abs(self.median) if self.median else 0.0

    def __str__(self):
        return f"{number(self.median)} ({number(self.low)} to {number(self.high)})"


def number(value):
    """Formats a value with about three significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


@dataclass(frozen=True)
class Pairs:
    """The results of two alternating measurements."""

    a: tuple
    b: tuple

    def series(self, of_one):
        return Series(tuple(map(of_one, self.a))), Series(tuple(map(of_one, self.b)))

    def ratios(self, of_one):
        return Series(tuple(of_one(a) / of_one(b) for a, b in zip(self.a, self.b)))


class Rounds:
    """Runs rounds and records reasons to distrust their results."""

    def __init__(self, bench, name):
        self.bench, self.name, self.disturbed, self.runs = bench, name, 0, 0
        # On a machine that is never idle, waiting before every round would take longer than all rounds.
        self.wait_left = WAITING_ROUNDS * bench.idle_wait

    def one(self, measure):
        """Waits until the machine is idle, at most for the time that is left, and runs once."""
        began = time.monotonic()
        bound = min(self.wait_left, self.bench.idle_wait)
        while busy() > IDLE_SHARE:
            if time.monotonic() - began > bound:
                self.disturbed += 1
                self.wait_left -= bound
                break
        self.runs += 1
        return measure()

    def alone(self, count, measure):
        outcomes = []
        for index in range(count):
            outcomes.append(self.one(measure))
            self.report_progress(index, count)
        return tuple(outcomes)

    def paired(self, count, measure_a, measure_b):
        return Pairs(*self.in_turn(count, (measure_a, measure_b)))

    def in_turn(self, count, measures):
        """A B C, B C A, C A B …: none is always the last one. Returns the results of each."""
        results = [[] for _ in measures]
        for index in range(count):
            for position in range(len(measures)):
                which = (index + position) % len(measures)
                results[which].append(self.one(measures[which]))
            self.report_progress(index, count)
        return tuple(map(tuple, results))

    def report_progress(self, index, count):
        if (index + 1) % max(1, count // 10) == 0:
            self.bench.log(f"{self.name}: round {index + 1} of {count}")

    def warnings(self, series, bound=SPREAD):
        """Reasons to distrust this series; empty if there are none."""
        found = []
        if self.disturbed:
            found.append(f"{self.disturbed} of {self.runs} runs started while the machine was not idle")
        if bound is not None and series.spread > bound:
            found.append(f"the rounds differ by {series.spread:.0%}")
        return found
