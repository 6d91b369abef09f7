"""Where a shard stands that marks the rows it publishes: the marks that are published and may not be deleted yet.

A page has a mark of its own, and rows between two ids carry it. Once the page is published its rows are deleted, and
the position forgets it. So a position is short, and it needs no order among marks: whoever goes on from it deletes what
these marks are on, and everything else in the outbox is still to be published.
"""

import json
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from windrow.capture.position import FORMAT, form_of
from windrow.errors import PositionForeign


@dataclass(frozen=True, slots=True)
class Marked:
    """Rows that carry a mark, from one id to another; others between them do not."""

    mark: UUID
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MarkPosition:
    """What is published and may still be there."""

    published: tuple[Marked, ...] = ()

    def encode(self) -> str:
        marks = [[each.mark.hex, each.first, each.last] for each in self.published]
        return json.dumps({"v": FORMAT, "marks": marks}, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read what `encode` wrote; anything else is refused, never guessed."""
        try:
            marks = form_of(text)["marks"]
            return cls(tuple(Marked(UUID(mark), int(first), int(last)) for mark, first, last in marks))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise PositionForeign(
                f"the committed position {text[:80]!r} is not one of capture: mark\n"
                "Give the capture that the relay was run with, or another name to begin anew under."
            ) from error
