"""What travels between capturing and publishing: records, the shard they belong to, the progress they make."""

from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Shard:
    """One of the `count` parts that the outbox is split into by the messages' keys."""

    index: int
    count: int


class Record(NamedTuple):
    """One outbox row as Kafka wants it; the timestamp is in milliseconds since 1970."""

    id: int
    topic: str
    key: bytes | None
    value: bytes | None
    header_keys: list[str]
    header_values: list[bytes | None]
    partition: int | None
    timestamp: int | None
    written_at: int | None = None
    """When it was written, in microseconds since 1970; None where nobody traces."""


PARTS: Final = Record._fields[:-1]
"""The fields that make the message."""


class Progress(Protocol):
    """How far a capture is, in a form that fits beside a Kafka offset."""

    def encode(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Released:
    """Progress among the released dead letters: those up to this number are published, or dead letters again."""

    number: int


class Committed(NamedTuple):
    """A shard's committed progress: how many records it has published since it exists, its encoded position, and the
    number up to which it has dealt with released dead letters.
    """

    published: int
    position: str
    released: int = 0

    @property
    def metadata(self) -> str:
        """What is kept beside the offset, which is the count."""
        return f"{self.released} {self.position}"

    @classmethod
    def read(cls, offset: int, metadata: str) -> "Committed":
        """Read what `metadata` wrote; anything else is handed on as a position, which the capture then refuses."""
        released, _, position = metadata.partition(" ")
        return cls(offset, position, int(released)) if released.isdecimal() else cls(offset, metadata)


def latest(*known: Committed | None) -> Committed | None:
    """What is furthest of all that is known of a shard: a count never falls."""
    return max(filter(None, known), key=attrgetter("published"), default=None)
