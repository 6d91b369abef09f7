"""Partitioned storage: the outbox as a ring of slots, which rows enter by the clock and which are emptied whole.

Deleted rows keep their room until no transaction is older than their end, so somebody who keeps one open makes a plain
table grow. TRUNCATE gives the room back at once. Each slot takes the rows of one turn (a minute, say), then it is the
next one's; by the time that a slot's turn comes again, it has been emptied.

Invariant: a slot is a place and nothing else. A row may be in any of them, whenever it was written: what is
published is found by `tx` and `id` alone, and a slot that could not be emptied takes the rows of its next turn too. So
writers always find a slot, also after days without a relay.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

from psycopg.sql import SQL, Composed, Literal

from windrow.database.connections import Connection
from windrow.database.queries import query
from windrow.database.tables import Tables

_SLOTS: Final = 8
_SHORTEST: Final = 60
_SPARE: Final = 3
"""Slots that retention cannot count on: the one in use, the next one, and one's time to be emptied in."""
_TURN: Final = SQL("(floor(date_part('epoch', clock_timestamp()))::bigint / {seconds}) % {slots}")
_TURNING: Final = re.compile(r"/ (\d+)\) % \(?(\d+)")
_NOTHING: Final = SQL("")


@dataclass(frozen=True, slots=True)
class Ring:
    """So many slots, each in use for so many seconds at a time."""

    seconds: int
    slots: int = _SLOTS

    @classmethod
    def keeping(cls, retention: timedelta) -> Self:
        """A ring whose slots come round after the retention."""
        needed = -(-retention // timedelta(seconds=_SLOTS - _SPARE))
        return cls(max(needed, _SHORTEST))

    @classmethod
    def parse(cls, expression: str) -> Self:
        """Read PostgreSQL's form of what `columns` gave as the slot's default."""
        found = _TURNING.search(expression)
        if found is None:
            raise AssertionError(f"not a ring of windrow's: {expression}")
        return cls(int(found[1]), int(found[2]))

    @property
    def longest_retention(self) -> timedelta:
        return timedelta(seconds=self.seconds * (self.slots - _SPARE))

    def over(self, now: float, retention: timedelta) -> list[int]:
        """The slots, longest over first, whose last turn ended before the retention and which are not next."""
        turn = int(now // self.seconds)
        past = range(turn - self.slots + 2, turn)
        return [each % self.slots for each in past if now - (each + 1) * self.seconds >= retention.total_seconds()]


def ring_of(connection: Connection, tables: Tables) -> Ring | None:
    """The ring that the outbox is; None where it is a plain table, as all are on MySQL."""
    if tables.dialect == "mysql":
        return None
    row = connection.execute(query("ring", "turning"), {"outbox": tables.outbox.as_string()}).fetchone()
    return Ring.parse(row[0]) if row else None


def columns(tables: Tables, ring: Ring | None) -> dict[str, SQL | Composed]:
    """What makes the outbox of the first migration a ring, or a plain table."""
    if ring is None:
        return dict.fromkeys(("slot", "and_slot", "by_slot", "slots"), _NOTHING)
    turn = _TURN.format(seconds=Literal(ring.seconds), slots=Literal(ring.slots))
    slots = [
        tables.query("ring", "create_slot", slot=tables.slot(number), number=Literal(number))
        for number in range(ring.slots)
    ]
    return {
        "slot": SQL("\n  slot          smallint NOT NULL DEFAULT ({turn}),").format(turn=turn),
        "and_slot": SQL(", slot"),
        "by_slot": SQL(" PARTITION BY LIST (slot)"),
        "slots": Composed([part for slot in slots for part in (SQL("\n"), slot, SQL(";"))]),
    }
