"""What writing through the outbox costs a service, against the bare statements, in turns; messages are there already.

One connection of psycopg, each transaction committed durably. The bare COPY is the fastest that psycopg has: binary, of
rows that are ready.
"""

import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from statistics import median
from typing import Any, Final
from uuid import uuid4

from psycopg.sql import SQL

from windrow import embedded
from windrow.bench.load import HEADERS, KEYS, key_of, value_of
from windrow.database.migrations import migrate
from windrow.database.postgres import Connection, connect
from windrow.database.tables import Tables
from windrow.message import Message
from windrow.outbox import Outbox
from windrow.outbox.statement import TYPES, row
from windrow.settings import Settings

FULL_ROUNDS: Final = 300
QUICK_ROUNDS: Final = 5
_SINGLE: Final = 25
"""Transactions of one message, in one turn: short, so that what else the machine does falls on both sides alike."""
_MANY: Final = 1_000

Side = Callable[[], None]


def measure_writes(database: str | None, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """`write_ratio` and `write_many_ratio`, on this PostgreSQL or on an embedded one."""
    with ExitStack() as stack:
        if database is None:
            say("starting PostgreSQL …")
            database = stack.enter_context(embedded.Postgres()).url
        table = stack.enter_context(_outbox_table(database))
        connection = stack.enter_context(connect(database, "windrow bench"))
        figures: dict[str, Any] = {}
        for title, sides, count in (
            ("write", _singly(connection, Outbox(table)), _SINGLE),
            ("write_many", _together(connection, Outbox(table)), _MANY),
        ):
            ours, bare = (count / seconds for seconds in _median_seconds(*sides, rounds))
            say(f"  {title} {ours:,.0f} rows/s, bare {bare:,.0f}")
            figures[f"{title}_ratio"] = round(ours / bare, 3)
        return figures | {"versions": _versions(connection)}


def _singly(connection: Connection, outbox: Outbox) -> tuple[Side, Side]:
    messages = _messages(_SINGLE)
    statement = outbox.statement(messages[0])[0].encode()
    rows = [row(message) for message in messages]

    def write() -> None:
        for message in messages:
            with connection.transaction():
                outbox.write(connection, message)

    def bare() -> None:
        for each in rows:
            with connection.transaction():
                connection.execute(statement, each).fetchone()

    return write, bare


def _together(connection: Connection, outbox: Outbox) -> tuple[Side, Side]:
    messages = _messages(_MANY)
    rows = [row(message) for message in messages]

    def write_many() -> None:
        with connection.transaction():
            outbox.write_many(connection, messages)

    def bare() -> None:
        with connection.transaction(), connection.cursor() as cursor, cursor.copy(outbox.copy.encode()) as copy:
            copy.set_types(TYPES)
            for each in rows:
                copy.write_row(each)

    return write_many, bare


def _median_seconds(ours: Side, bare: Side, rounds: int) -> tuple[float, float]:
    """Both run once before they count, and take turns at going first."""
    seconds: Mapping[Side, list[float]] = {ours: [], bare: []}
    for turn in range(-1, rounds):
        for side in (ours, bare) if turn % 2 else (bare, ours):
            began = time.perf_counter()
            side()
            if turn >= 0:
                seconds[side].append(time.perf_counter() - began)
    return median(seconds[ours]), median(seconds[bare])


def _messages(count: int) -> list[Message]:
    return [Message("windrow.bench", value_of(each), key_of(each, KEYS), HEADERS) for each in range(count)]


@contextmanager
def _outbox_table(database: str) -> Iterator[str]:
    """An outbox of its own, removed at the end, on connections of its own: another may be interrupted in a COPY."""
    name = f"windrow_bench_{uuid4().hex[:8]}"
    given: dict[str, Any] = {"data_source": database, "base_kafka_config": {"bootstrap.servers": "none"}}
    with connect(database, "windrow bench") as connection:
        migrate(connection, Settings.load(environment={}, name=name, outbox_table=name, **given))
    try:
        yield name
    finally:
        with connect(database, "windrow bench") as connection:
            for table in Tables.beside(name).named.values():
                connection.execute(SQL("DROP TABLE IF EXISTS {} CASCADE").format(table))


def _versions(connection: Connection) -> dict[str, str]:
    found = connection.execute("SHOW server_version").fetchone()
    return {
        "windrow": version("windrow"),
        "python": platform.python_version(),
        "postgresql": found[0].split()[0] if found else "?",
        "psycopg": version("psycopg"),
    }
