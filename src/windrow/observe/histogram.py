"""A histogram of seconds: how many values fell under each of a row of bounds. Plain numbers, which travel as JSON."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final, Self

BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds, in seconds; what is above the last has a place of its own."""


class Histogram:
    """Counts, and the sum of all values."""

    __slots__ = ("counts", "sum")

    def __init__(self, counts: Sequence[int] = (), total: float = 0.0) -> None:
        self.counts = list(counts) or [0] * (len(BOUNDS) + 1)
        self.sum = total

    def add(self, seconds: float, times: int = 1) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += times
        self.sum += seconds * times

    def spread(self, values: Sequence[float], times: int) -> None:
        """Add so many values, of which these are some, evenly. Without any, nothing."""
        if values:
            each, more = divmod(times, len(values))
            for place, value in enumerate(values):
                self.add(value, each + (place < more))

    def merge(self, other: "Histogram") -> None:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile(self, part: float) -> float | None:
        """The value that this part of all lies under, as far as the bounds tell it; None where there are none."""
        wanted, below = part * self.count, 0
        for place, count in enumerate(self.counts):
            if count and below + count >= wanted:
                low = BOUNDS[place - 1] if place else 0.0
                high = BOUNDS[place] if place < len(BOUNDS) else low
                return low + (high - low) * (wanted - below) / count
            below += count
        return None

    def encode(self) -> list[float]:
        return [*self.counts, self.sum]

    @classmethod
    def decode(cls, numbers: Any) -> Self:
        """What `encode` made; one that another version made with other bounds counts as empty."""
        if not isinstance(numbers, list) or len(numbers) != len(BOUNDS) + 2:
            return cls()
        return cls([int(each) for each in numbers[:-1]], float(numbers[-1]))
