"""What every capture strategy does: hand out the outbox's new rows, page by page.

A capture starts from a committed position and remembers by itself what it handed out, so `next` may be called for
the following page while the last one is still being published. If publishing fails, the capture is thrown away and a
new one starts from the position that was committed last.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from windrow.database.layouts import Layout
from windrow.record import PARTS, Progress, Record

_ONE_IN: Final = 64


@dataclass(frozen=True, slots=True)
class Page:
    """Messages in the order in which they are published, and the position that holds once they are published."""

    records: Sequence[Record]
    position: Progress
    epoch: UUID | None
    """The epoch whose tasks may run, as the database said it with these rows."""
    upto: Callable[[int], Progress]
    """The position that holds once the page is published only up to the record of this id."""
    more: bool
    """Whether more rows are known to wait: read on at once, ahead of publishing."""
    release: int = 0
    """The number of the latest dead letter that was released, as the database said it with these rows."""


class Capture(Protocol):
    """A source of pages. Not safe for concurrent use."""

    def start(self, committed: str | None) -> None:
        """Start from a committed position; without one from the very first row."""
        ...

    def next(self) -> Page:
        """The next page; without records where there is nothing new."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait so long, or until there may be something new. Called when all that was handed out is published."""
        ...

    def close(self) -> None: ...


def selected(layout: Layout, fields: Sequence[str] = PARTS, *, some: bool = False) -> Iterator[str]:
    """Fields of a record, as a SELECT has them; with `some`, the time of writing of some records only."""
    for name in fields:
        if name == "timestamp":
            yield f'{_since_1970(layout.columns.timestamp, 1_000, layout.dialect)} AS "timestamp"'
        elif name == "written_at":
            written = _since_1970(layout.columns.create_time, 1_000_000, layout.dialect)
            rare = f"CASE WHEN mod({layout.columns.id}, {_ONE_IN}) = 0 THEN {written} END"
            yield f"{rare if some else written} AS written_at"
        else:
            expression = getattr(layout.columns, name)
            yield name if expression == name else f'{expression} AS "{name}"'


def _since_1970(time: str, parts: int, dialect: str) -> str:
    """A time as a number of so many parts of a second."""
    if dialect == "mysql":
        return f"timestampdiff(MICROSECOND, '1970-01-01', {time}) DIV {1_000_000 // parts}"
    # Kafka has no time that never comes: then the message gets the time of its sending.
    return f"CASE WHEN isfinite({time}) THEN (extract(epoch FROM {time}) * {parts})::bigint END"
