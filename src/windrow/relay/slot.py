"""What a relay needs that tails the log: a publication of the outbox, and a slot, which is its place in the log.

The slot is made once, when the relay is initialised. Its first position says what is not in its log: the rows that were
committed before. They are known exactly, by the snapshot that the server takes with the slot.

Invariant: a relay that has a position has a slot already, or has lost it; it never gets another one by itself, since
what was committed between the two would be skipped.
"""

import time
from typing import Final
from uuid import uuid4

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from windrow.capture.log_position import LogPosition, announced, of_log, slot_of
from windrow.capture.position import FORMAT, MAX_SNAPSHOT, Position, Snapshot
from windrow.database.connections import Connection, connect, interruptible
from windrow.database.replication import LogConnection, log_connection, publication_of, slot_name
from windrow.database.tables import Tables
from windrow.errors import DatabaseForbids, Interrupted, PositionForeign, SettingsInvalid
from windrow.record import PARTS, Committed
from windrow.relay.registry import Registry
from windrow.settings import Settings

OLDEST: Final = 140_000
"""The first version whose pgoutput sends emitted messages, and rows in binary format."""

_CHOOSES_COLUMNS: Final = 150_000
"""The first version whose publications may leave out columns, which saves a fifth of the reading."""
_COLUMNS: Final = SQL(f" ({', '.join(PARTS)})")
_FREE_WITHIN: Final = 10.0
_ASK_AGAIN_AFTER: Final = 0.02


def refuse_unready(connection: Connection, settings: Settings) -> None:
    """Raise where the server's log cannot be read; before anything is changed."""
    row = connection.execute(Tables.of(settings).query("tail", "readiness")).fetchone()
    level, version, permitted, _ = row or ("", 0, False, 0)
    if version < OLDEST:
        raise SettingsInvalid([f"capture: tail: PostgreSQL {version // 10_000} is too old: upgrade it to 14 or newer"])
    if level != "logical":
        mistake = f"capture: tail: the server's wal_level is {level}: set it to logical, and restart the server"
        raise SettingsInvalid([mistake])
    if not permitted:
        raise DatabaseForbids(
            "capture: tail reads the log by a replication slot: ALTER ROLE … REPLICATION for the user that dataSource"
            " names"
        )


def publication(connection: Connection, settings: Settings) -> None:
    """Make the outbox's publication, unless it is there."""
    tables, name = Tables.of(settings), publication_of(settings)
    if connection.execute(tables.query("tail", "published"), {"publication": name}).fetchone() == (True,):
        return
    row = connection.execute(tables.query("tail", "readiness")).fetchone()
    columns = _COLUMNS if row and row[1] >= _CHOOSES_COLUMNS else SQL("")
    try:
        with interruptible():
            connection.execute(tables.query("tail", "publish", publication=Identifier(name), columns=columns))
    except psycopg.errors.DuplicateObject:  # somebody else has just done so
        return


def by_hand(settings: Settings) -> tuple[Composed, Composed]:
    """Statements for those who run their changes by hand: the publication's, which belongs to the tables', and the
    slot's, for a transaction of its own.
    """
    tables, publication = Tables.of(settings), Identifier(publication_of(settings))
    name, slot = tables.literal(settings.name), tables.literal(slot_name(settings, uuid4()))
    return (
        tables.query("tail", "publish", publication=publication, columns=_COLUMNS),
        tables.query("tail", "make_slot", name=name, slot=slot, format=tables.literal(FORMAT)),
    )


def slot(settings: Settings) -> str | None:
    """Make the relay's slot and note where it begins; returns its name, or None where there is one."""
    registry, tables = Registry(settings), Tables.of(settings)
    with connect(settings.data_source) as connection, connection.transaction():
        connection.execute(tables.query("migration", "lock"))
        saved = registry.saved().get(0)
        if saved is not None and not of_log(saved.position):
            raise PositionForeign(
                f"relay {settings.name} has positions of another capture than tail\n"
                "Give the capture that the relay was run with, or another name to begin anew under."
            )
        if saved is not None and not announced(saved.position):
            return None
        if saved is not None:
            drop_slot(settings, str(slot_of(saved.position)))
        return _make_slot(settings, registry)


def _make_slot(settings: Settings, registry: Registry) -> str:
    """Announce it first: whoever comes after one that died on the way knows which slot nobody is going to read."""
    name = slot_name(settings, uuid4())
    registry.save({0: Committed(0, Position(registry.now().database).encode(slot=name))})
    with log_connection(settings.data_source, f"windrow {settings.name} init") as log:
        try:
            with interruptible():
                first = _first_position(settings, log, name)
        except psycopg.errors.ConfigurationLimitExceeded as error:
            mistake = "capture: tail: all replication slots are taken: raise max_replication_slots, or drop unused ones"
            raise SettingsInvalid([mistake]) from error
    registry.save({0: Committed(0, first.encode())})
    return name


def remove(settings: Settings) -> None:
    """Give up the relay's slot and the outbox's publication, where there are any. What the log still holds is lost."""
    for at in Registry(settings).saved().values():
        if made := slot_of(at.position):
            drop_slot(settings, made)
    with interruptible(), connect(settings.data_source) as connection:
        name = Identifier(publication_of(settings))
        connection.execute(Tables.of(settings).query("tail", "unpublish", publication=name))


def drop_slot(settings: Settings, name: str) -> None:
    """Give up a slot, where it is there, and end whoever reads it or is still making it."""
    tables, deadline = Tables.of(settings), time.monotonic() + _FREE_WITHIN
    with interruptible(), connect(settings.data_source) as connection:
        while True:
            try:
                connection.execute(tables.query("tail", "drop_slot"), {"slot": name})
            except psycopg.errors.ObjectInUse:
                if time.monotonic() > deadline:
                    raise
                connection.execute(tables.query("tail", "take_slot"), {"slot": name})
                time.sleep(_ASK_AGAIN_AFTER)
            else:
                return


def _first_position(settings: Settings, log: LogConnection, name: str) -> LogPosition:
    tables = Tables.of(settings)
    lsn, snapshot = log.create_slot(name)
    with connect(settings.data_source) as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute(tables.query("tail", "adopt", snapshot=tables.literal(snapshot)))
        row = connection.execute(tables.query("tail", "before")).fetchone()
    database, seen = row or ("", "1:1:")
    before = Snapshot.parse(seen)
    if len(before.pack()) > MAX_SNAPSHOT:
        drop_slot(settings, name)
        raise Interrupted("too many transactions are open to tell what came before the slot; try again")
    return LogPosition(Position(database, hi=before), name, lsn)
