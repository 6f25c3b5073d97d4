"""What is compared is measured in turn, round by round, because a machine changes from one minute to the next."""

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

QUIET = 0.1
LOOK_SECONDS = 0.3
SPREAD = 0.25
PATIENT_ROUNDS = 4


def busy():
    """The share of the machine that is in use over the next moment."""

    def ticks():
        whole = Path("/proc/stat").read_text().splitlines()[0]
        user, nice, system, idle, waiting, *others = map(int, whole.split()[1:9])
        return user + nice + system + sum(others), idle + waiting

    used, unused = ticks()
    time.sleep(LOOK_SECONDS)
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
    """As many digits as a measurement deserves."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


@dataclass(frozen=True)
class Pairs:
    """Two things, measured in turn."""

    a: tuple
    b: tuple

    def series(self, of_one):
        return Series(tuple(map(of_one, self.a))), Series(tuple(map(of_one, self.b)))

    def ratios(self, of_one):
        return Series(tuple(of_one(a) / of_one(b) for a, b in zip(self.a, self.b)))


class Rounds:
    """Runs rounds and keeps what should make a reader doubt them."""

    def __init__(self, bench, name):
        self.bench, self.name, self.noisy, self.runs = bench, name, 0, 0
        # On a machine that never is quiet, waiting before every round would take longer than all rounds.
        self.patience = PATIENT_ROUNDS * bench.patience

    def one(self, measure):
        """One run, on a machine that does nothing else, as far as waiting for that helps."""
        began = time.monotonic()
        bound = min(self.patience, self.bench.patience)
        while busy() > QUIET:
            if time.monotonic() - began > bound:
                self.noisy += 1
                self.patience -= bound
                break
        self.runs += 1
        return measure()

    def alone(self, count, measure):
        outcomes = []
        for index in range(count):
            outcomes.append(self.one(measure))
            self.tell(index, count)
        return tuple(outcomes)

    def paired(self, count, measure_a, measure_b):
        """A B, B A, A B …: neither is always the one that comes after the other."""
        pairs = []
        for index in range(count):
            if index % 2 == 0:
                a = self.one(measure_a)
                b = self.one(measure_b)
            else:
                b = self.one(measure_b)
                a = self.one(measure_a)
            pairs.append((a, b))
            self.tell(index, count)
        return Pairs(*zip(*pairs))

    def tell(self, index, count):
        if (index + 1) % max(1, count // 10) == 0:
            self.bench.say(f"{self.name}: round {index + 1} of {count}")

    def doubts(self, series, bound=SPREAD):
        """Reasons to distrust this series; empty if there are none."""
        found = []
        if self.noisy:
            found.append(f"{self.noisy} of {self.runs} runs began while something else was running")
        if bound is not None and series.spread > bound:
            found.append(f"the rounds differ by {series.spread:.0%}")
        return found
