"""Whether a series of samples grows: a straight line by least squares, with its standard error.

    python3 tests/chaos/trend.py    checks the verdicts with series that grow, stay, or are too noisy
"""

import math
import random
from dataclasses import dataclass

# Twice the standard error is about the 95 % interval.
ERRORS = 2
# Of the mean, in an hour: a longer series has to exclude the same growth, with a smaller error.
GROWTH_MAX, HOUR = 0.02, 60


@dataclass(frozen=True)
class Trend:
    slope: float  # a minute
    error: float
    mean: float

    def growth(self):
        """The largest growth in an hour that the samples do not exclude, as a share of the mean."""
        return (self.slope + ERRORS * self.error) * HOUR / self.mean

    def is_flat(self):
        """A growth above the limit is excluded. A series that is too short or too noisy is therefore not flat, which it would
        be if the criterion were a slope below its error."""
        return self.growth() <= GROWTH_MAX


def fit(minutes, values):
    """None for fewer than three samples, which have no error."""
    count = len(values)
    if count < 3:
        return None
    middle, mean = sum(minutes) / count, sum(values) / count
    spread = sum((minute - middle) ** 2 for minute in minutes)
    slope = sum((minute - middle) * (value - mean) for minute, value in zip(minutes, values)) / spread
    residues = sum((value - mean - slope * (minute - middle)) ** 2 for minute, value in zip(minutes, values))
    return Trend(slope, math.sqrt(residues / (count - 2) / spread), mean)


def check_verdicts():
    """Raises AssertionError if a growth of 5 % in an hour passes, or a constant memory does not."""
    rng = random.Random(1)

    def flat(growth, noise, count=50):
        minutes = range(count)
        values = [40_000 * (1 + growth * minute / HOUR) + rng.gauss(0, noise) for minute in minutes]
        return fit(minutes, values).is_flat()

    assert flat(0, 100), "a constant series is flat"
    assert flat(-0.1, 100), "a series that shrinks is flat"
    assert not flat(0.05, 100), "a series that grows is not flat"
    assert not flat(0.03, 1), "a series that grows slowly and steadily is not flat"
    assert not flat(0, 10_000), "a series that is too noisy is not flat"
    assert not flat(0.03, 100, 120), "two hours have the limit of one hour"
    assert not flat(0, 1_000), "a series is not flat with this noise,"
    assert flat(0, 1_000, 500), "unless it is longer"
    line = fit([0, 1, 2, 3], [1, 3, 5, 7])
    assert (line.slope, line.error, line.mean) == (2, 0, 4), line
    assert fit([0, 1], [1, 2]) is None


if __name__ == "__main__":
    check_verdicts()
