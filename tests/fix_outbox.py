"""An outbox in memory, for publishers without a database: what is purged is gone, what is not is published anew."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import uuid4

from fix_pipeline import received
from windrow import embedded
from windrow.kafka.clients import create_own_topics, create_topic
from windrow.publish.at_least_once import AtLeastOncePublisher
from windrow.record import Record, Shard
from windrow.settings import Settings

SHARD = Shard(0, 1)


class Nowhere:
    """The progress of captures that keep their marks in the rows."""

    def encode(self) -> str:
        return ""


@dataclass
class MemoryOutbox:
    """Its rows, a topic for them, and publishers that purge from it."""

    settings: Settings
    topic: str
    rows: dict[int, Record] = field(default_factory=dict)
    purged: list[int] = field(default_factory=list)
    before_purge: Callable[[Sequence[int]], None] | None = None

    def write(self, count: int, keys: int, value: bytes = b"value") -> list[Record]:
        """Add records, their keys in turns."""
        numbers = range(len(self.rows), len(self.rows) + count)
        new = [Record(each, self.topic, b"%d" % (each % keys), value, [], [], None, None) for each in numbers]
        self.rows |= {each.id: each for each in new}
        return new

    def purge(self, numbers: Sequence[int]) -> None:
        if self.before_purge:
            self.before_purge(numbers)
        for number in numbers:
            del self.rows[number]
        self.purged += numbers

    @contextmanager
    def publisher(self) -> Iterator[AtLeastOncePublisher]:
        """A publisher, open."""
        publisher = AtLeastOncePublisher(self.settings, SHARD, self.purge)
        try:
            publisher.open(b"", None)
            yield publisher
        finally:
            publisher.close()

    def log(self) -> dict[bytes, list[int]]:
        """The ids that have arrived, for each key in their order."""
        arrived: dict[bytes, list[int]] = defaultdict(list)
        for message in received(self.settings, self.topic):
            headers = dict(message.headers() or [])
            arrived[message.key() or b""].append(int(headers["x-sequence"]))
        return arrived


def memory_outbox(kafka: embedded.Kafka, partitions: int = 2, **settings: Any) -> MemoryOutbox:
    name = f"test_{uuid4().hex[:12]}"
    loaded = Settings.load(
        environment={},
        name=name,
        data_source="postgresql://nobody@nowhere/nothing",
        base_kafka_config=kafka.client_config,
        capture="mark",
        delivery="at-least-once",
        **settings,
    )
    create_own_topics(loaded, 1)
    create_topic(loaded, f"{name}.messages", partitions)
    return MemoryOutbox(loaded, f"{name}.messages")


def overtaken(log: Sequence[int], written: Sequence[int]) -> list[tuple[int, int]]:
    """Where a key's log does anything but go on by one or repeat its last."""
    place = {number: at for at, number in enumerate(written)}
    return [(a, b) for a, b in pairwise([written[0], *log]) if place[b] - place[a] not in {0, 1}]
