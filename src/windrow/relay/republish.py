"""Publish again what is still kept: rows that were published are written to the outbox anew.

They get new ids, in the order of their old ones, and so come after all that was published before. Find first, to see
what would be done; then write, a chunk a transaction.

Invariant: only rows that every relay has published are taken, as of the time of finding: one that waits would come
twice, and what is written here is not found again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from psycopg.sql import Composed

from windrow.capture.choice import require_snapshot
from windrow.database.adoption import layout_of
from windrow.database.connections import Connection, connect, interruptible
from windrow.database.migrations import check
from windrow.database.tables import Tables
from windrow.relay.purge import saved_as_published
from windrow.settings import Settings

_CHUNK: Final = 1_000


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages: those for which all that is given here holds."""

    ids: tuple[tuple[int, int], ...] = ()
    """Ranges of ids, both ends included."""
    since: datetime | None = None
    until: datetime | None = None
    topics: tuple[str, ...] = ()
    keys: tuple[bytes, ...] = ()


class OfTopic(NamedTuple):
    """What was found for one topic."""

    topic: str
    messages: int
    first_id: int
    last_id: int
    first_time: datetime
    last_time: datetime


class Written(NamedTuple):
    """A chunk that was written anew, up to the row of this old id."""

    messages: int
    upto: int


@dataclass(frozen=True, slots=True)
class Found:
    """Published messages that are still kept and were selected."""

    selection: Selection
    published: str
    topics: list[OfTopic]

    @property
    def messages(self) -> int:
        return sum(each.messages for each in self.topics)


def find(settings: Settings, selection: Selection) -> Found:
    """Look what there is; changes nothing."""
    require_snapshot(
        settings,
        "where rows are deleted once they are published, there is nothing to republish; where the layout keeps them,"
        " set processed to NULL in those that are to be published again",
    )
    tables = Tables.of(settings)
    with interruptible(), _connected(settings) as connection:
        check(connection, tables)
        published = str(saved_as_published(connection, tables))
        rows = connection.execute(
            _statement("found", connection, settings), _parameters(selection, published)
        ).fetchall()
    return Found(selection, published, [OfTopic(*row) for row in rows])


def republish(settings: Settings, found: Found) -> Iterator[Written]:
    """Write what was found to the outbox anew, chunk by chunk."""
    first = min((each.first_id for each in found.topics), default=1)
    last = max((each.last_id for each in found.topics), default=0)
    with interruptible(), _connected(settings) as connection:
        statement = _statement("write", connection, settings)
        while first <= last:
            parameters = {"first": first, "last": last, "chunk": _CHUNK}
            row = connection.execute(
                statement, {**parameters, **_parameters(found.selection, found.published)}
            ).fetchone()
            if row is None or not row[0]:
                return
            yield Written(*row)
            first = row[1] + 1


def _statement(name: str, connection: Connection, settings: Settings) -> Composed:
    tables = Tables.of(settings)
    layout = layout_of(connection, settings, "snapshot").fragments()
    chosen = tables.query("republish", "chosen", **layout)
    return tables.query("republish", name, chosen=chosen, **layout)


def _connected(settings: Settings) -> Connection:
    return connect(settings.data_source, "windrow republish")


def _parameters(selection: Selection, published: str) -> dict[str, object]:
    return {
        "published": published,
        "lows": [low for low, _ in selection.ids] or None,
        "highs": [high for _, high in selection.ids],
        "since": selection.since,
        "until": selection.until,
        "topics": list(selection.topics) or None,
        "keys": list(selection.keys) or None,
    }
