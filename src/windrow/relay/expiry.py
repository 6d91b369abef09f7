"""Purge of an outbox that keeps its rows and notes when they were published: delete those past their retention.

Invariant: only rows in which that time is noted go. One in which somebody has just cleared it, to have it published
again, stays.
"""

from collections.abc import Iterator

from psycopg.sql import Composable

from windrow.database.adoption import layout_of
from windrow.database.connections import Connection
from windrow.database.tables import Tables
from windrow.settings import Settings


def expire(connection: Connection, settings: Settings, in_office: Composable) -> Iterator[int]:
    """Delete chunk by chunk; yields the number of rows of each."""
    fragments = layout_of(connection, settings, settings.capture).fragments()
    statement = Tables.of(settings).query("purge", "expire", in_office=in_office, **fragments)
    retention, chunk = settings.purge.retention, settings.purge.chunk
    while deleted := connection.execute(statement, {"retention": retention, "chunk": chunk}).rowcount:
        yield deleted
        if deleted < chunk:
            return
