"""Purge of a partitioned outbox: empty a slot at once, when all in it is published and past its retention.

Invariant: a slot is emptied under a lock that no transaction with a row in it lets pass, and after a look that began
under that lock; so no row goes that a relay has yet to publish. The lock is waited for only briefly, since
readers and writers of the slot queue up behind it. If it is not to be had, the slot waits for the next purge.
"""

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from psycopg.errors import LockNotAvailable
from psycopg.sql import SQL, Composable

from windrow.capture.position import Snapshot
from windrow.database.connections import Connection
from windrow.database.queries import query
from windrow.database.ring import Ring
from windrow.database.tables import Tables
from windrow.errors import SettingsInvalid

log = logging.getLogger(__name__)


def truncate(  # noqa: PLR0913, PLR0917 - all that decides whether a slot may be emptied
    connection: Connection,
    tables: Tables,
    ring: Ring,
    published: Snapshot,
    retention: timedelta,
    in_office: Composable,
) -> Iterator[int]:
    """Empty slot by slot, while the term lasts; yields the number of rows of each."""
    if retention > ring.longest_retention:
        remedy = f"give {ring.longest_retention} at most, or make the slots' turns longer"
        raise SettingsInvalid([f"purge.retention: outbox {tables.outbox.as_string()} is partitioned: {remedy}"])
    (now,) = _row(connection, query("ring", "clock"))
    for number in ring.over(now, retention):
        slot = tables.slot(number)
        (used,) = _row(connection, query("ring", "used"), slot=slot.as_string())
        if used and not _unpublished(connection, slot, published):
            (rows,) = _row(connection, query("ring", "count").format(slot=slot))
            if _empty(connection, slot, published, in_office):
                yield rows


def _empty(connection: Connection, slot: SQL, published: Snapshot, in_office: Composable) -> bool:
    try:
        with connection.transaction():
            connection.execute(query("ring", "patience"))
            connection.execute(query("ring", "lock").format(slot=slot))
            (lasts,) = _row(connection, query("ring", "in_office").format(in_office=in_office))
            if not lasts or _unpublished(connection, slot, published):
                return False
            connection.execute(query("ring", "empty").format(slot=slot))
    except LockNotAvailable:
        log.debug("slot %s is in use; it is emptied later", slot.as_string())
        return False
    return True


def _unpublished(connection: Connection, slot: SQL, published: Snapshot) -> bool:
    (found,) = _row(connection, query("ring", "unpublished").format(slot=slot), published=str(published))
    return bool(found)


def _row(connection: Connection, statement: Any, **parameters: object) -> tuple[Any, ...]:
    row = connection.execute(statement, parameters).fetchone()
    if row is None:
        raise AssertionError("a query without FROM gives one row")
    return row
