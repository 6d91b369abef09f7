"""What travels between capturing and publishing: records, the shard they belong to, the progress they make."""

import re
from collections.abc import Sequence
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


def flaw(topic: str, names: Sequence[object], contents: Sequence[object], partition: int | None) -> str:
    """Why a row that somebody wrote by hand is no message; empty if it is one."""
    if not topic:
        return "there is no topic"
    if len(names) != len(contents):
        return f"topic {topic}: {len(names)} header keys and {len(contents)} header values"
    if partition is not None and partition < 0:
        return f"topic {topic}: partition {partition} is less than 0"
    if not all(isinstance(name, str) for name in names):
        return f"topic {topic}: a header's key is no text"
    if not all(content is None or isinstance(content, bytes) for content in contents):
        return f"topic {topic}: a header's value is neither bytes nor NULL"
    return ""


class Progress(Protocol):
    """How far a capture is, in a form that fits beside a Kafka offset."""

    def encode(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Released:
    """Progress among the released dead letters: those up to this number are published, or dead letters again."""

    number: int


_METADATA: Final = re.compile(r"(?P<released>[0-9]+)(/(?P<resharded>[0-9]+))? (?P<position>.*)", re.DOTALL)


class Committed(NamedTuple):
    """A shard's committed progress: how many records it has published since it exists, its encoded position, the number
    up to which it has dealt with released dead letters, and how often the number of shards had changed.
    """

    published: int
    position: str
    released: int = 0
    resharded: int = 0

    @property
    def metadata(self) -> str:
        """What is kept beside the offset, which is the count."""
        return f"{self.released}/{self.resharded} {self.position}"

    @classmethod
    def read(cls, offset: int, metadata: str) -> "Committed":
        """Read what `metadata` wrote; anything else is handed on as a position, which the capture then refuses.

        Before the first version that counts changes of the number of shards there was no such count.
        """
        if written := _METADATA.fullmatch(metadata):
            return cls(offset, written["position"], int(written["released"]), int(written["resharded"] or 0))
        return cls(offset, metadata)

    @property
    def age(self) -> tuple[int, int]:
        """What never falls: a count does only when the number of shards changes."""
        return self.resharded, self.published


def latest(*known: Committed | None) -> Committed | None:
    """What is furthest of all that is known of a shard."""
    return max(filter(None, known), key=attrgetter("age"), default=None)
