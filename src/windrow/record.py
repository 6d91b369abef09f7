"""What travels between capturing and publishing: records, the shard they belong to, the progress they make."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Shard:
    """One of the `count` parts that the outbox is split into by the messages' keys."""

    index: int
    count: int


class Record(NamedTuple):
    """One outbox row as Kafka wants it; the timestamp is in milliseconds."""

    id: int
    topic: str
    key: bytes | None
    value: bytes | None
    header_keys: list[str]
    header_values: list[bytes | None]
    partition: int | None
    timestamp: int | None


class Progress(Protocol):
    """How far a capture is, in a form that fits beside a Kafka offset."""

    def encode(self) -> str: ...


class Committed(NamedTuple):
    """A shard's committed progress: how many records it has published since it exists, and its encoded position."""

    published: int
    position: str
