"""Where a relay stands that tails the database's log.

A place in the log, in the order of commits: every transaction that committed before `lsn` is published, and of the one
whose commit stands at `commit` the first `nth` messages. Several rows can share a place in the log, so there is no
progress inside a transaction but by counting.

A position also says which rows of the table that makes: those visible in `rows.lo` are published (the purge goes by
it). With `rows.hi` the log has not been read yet: what is visible there was committed before the slot was made, is not
in the log, and is taken from the table first.

Before there is a place, a position may announce the slot: then whoever finds it knows what was begun and not ended.

Invariant: the slot's name is given once. A slot that was lost and made anew has another one, so that nobody goes on in
a log that has a gap.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

from windrow.capture.position import Position, form_of
from windrow.errors import PositionForeign

_REMEDY: Final = (
    'Give the capture that the relay was run with; or another name to begin anew under, and run "windrow init".'
)


@dataclass(frozen=True, slots=True)
class LogPosition:
    """What is published of the log and of the rows."""

    rows: Position
    slot: str
    lsn: int
    commit: int = 0
    nth: int = 0

    def encode(self) -> str:
        within = {"commit": self.commit, "nth": self.nth} if self.commit else {}
        return self.rows.encode(slot=self.slot, lsn=self.lsn, **within)

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read what `encode` wrote; anything else is refused, never guessed."""
        try:
            form = form_of(text)
            places = (int(form["lsn"]), int(form.get("commit", 0)), int(form.get("nth", 0)))
            return cls(Position.decode(text), str(form["slot"]), *places)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise PositionForeign(
                f"the committed position {text[:80]!r} is not one of capture: tail\n{_REMEDY}"
            ) from error

    def reached(self, lsn: int) -> Self:
        """All that committed before there is published, or was none of ours."""
        return replace(self, lsn=lsn) if lsn > self.lsn else self

    def ended(self, lsn: int) -> Self:
        """The transaction that we were in is over, and the log goes on there."""
        return replace(self, lsn=lsn, commit=0, nth=0)

    def covers(self, other: Self) -> bool:
        """Whether what is published there is published here."""
        if self.rows.hi is not None or other.rows.hi is not None:
            return self.rows.hi is None or (other.rows.hi is not None and other.rows.after <= self.rows.after)
        return (other.commit or other.lsn, other.nth) <= (self.commit or self.lsn, self.nth)


def of_log(text: str) -> bool:
    """Whether an encoded position is one of the log's."""
    return slot_of(text) is not None


def slot_of(text: str) -> str | None:
    """The slot that an encoded position names; None where it is not one of the log's."""
    try:
        slot = form_of(text).get("slot")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return None if slot is None else str(slot)


def announced(text: str) -> bool:
    """Whether a position only says which slot is about to be made: nobody can go on from it."""
    return of_log(text) and "lsn" not in form_of(text)
