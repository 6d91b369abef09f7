"""What a shard's task counts while it runs, and how the database adds it up.

A task counts from nothing; what it has counted since it last told is added to the shard's row. So the figures of a
shard go on through epochs, restarts and successors. Invariant: counting costs the loop a few additions a page, and
whatever is lost with a task that dies is a second's figures, never a record.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from windrow.observe.histogram import Histogram

COUNTS: Final = ("captured", "published", "dead_lettered", "transactions", "fencings", "interruptions")
TIMES: Final = ("latency", "page", "transaction")
_LOOKED_AT: Final = 64
"""Of so many records of a page, at most, the latency is looked at."""


@dataclass(slots=True)
class ShardFigures:
    """A shard's figures since it exists, as they stand in its row."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    times: dict[str, Histogram] = field(default_factory=lambda: {name: Histogram() for name in TIMES})
    kafka: Mapping[str, float] = field(default_factory=dict)
    """The latest statistics of its producers, by their names in `windrow.kafka.statistics`."""

    def __bool__(self) -> bool:
        return any(self.counts.values())

    def add(self, other: "ShardFigures") -> None:
        for name, count in other.counts.items():
            self.counts[name] += count
        for name, times in other.times.items():
            self.times[name].merge(times)
        self.kafka = other.kafka or self.kafka

    def encode(self) -> str:
        times = {name: each.encode() for name, each in self.times.items()}
        return json.dumps({**self.counts, **times, "kafka": self.kafka}, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str | None) -> Self:
        """What `encode` made; of what another version made, that which is known here."""
        given: dict[str, Any] = json.loads(text) if text else {}
        return cls(
            {name: int(given.get(name, 0)) for name in COUNTS},
            {name: Histogram.decode(given.get(name)) for name in TIMES},
            given.get("kafka", {}),
        )


class Tally:
    """Counts for one task, from several of its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = ShardFigures()
        self._kafka: Mapping[str, float] = {}

    def hear(self, statistics: Mapping[str, float]) -> None:
        """What Kafka's clients say of themselves, in place of what they said before."""
        self._kafka = statistics

    def count(self, name: str, times: int = 1) -> None:
        with self._lock:
            self._since.counts[name] += times

    def captured(self, records: int, seconds: float) -> None:
        """A page was read."""
        with self._lock:
            self._since.counts["captured"] += records
            self._since.times["page"].add(seconds)

    def committed(self, records: int, seconds: float) -> None:
        """A transaction has ended well."""
        with self._lock:
            self._since.counts["published"] += records
            self._since.counts["transactions"] += 1
            self._since.times["transaction"].add(seconds)

    def arrived(self, written_at: Sequence[int | None], now: float) -> None:
        """All of a page is acknowledged, whose records were written at these times as far as they are known, by the
        database's clock, which may be ahead of ours; of large pages some records stand for all.
        """
        known = [at for at in written_at if at is not None]
        seconds = [max(0.0, now - at / 1e6) for at in known[:: len(known) // _LOOKED_AT + 1]]
        with self._lock:
            self._since.times["latency"].spread(seconds, len(written_at))

    def take(self) -> ShardFigures:
        """What was counted since this was last asked."""
        with self._lock:
            taken, self._since = self._since, ShardFigures()
        taken.kafka = self._kafka
        return taken

    def give_back(self, taken: ShardFigures) -> None:
        """It could not be told: let it be told the next time."""
        with self._lock:
            self._since.add(taken)
