"""Live load: one row a transaction, at a rate, on several connections. Runs in a process of its own.

The rate is kept whatever the database takes for a commit: a writer that is late goes on at once. It speaks to libpq
directly, so that ten thousand transactions a second leave the machine to the relay.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import psycopg
from psycopg import pq
from psycopg.sql import Literal

from windrow.bench.check import Numbers
from windrow.bench.load import HEADERS, KEYS, key_of, value_of
from windrow.dispatch import Dispatcher
from windrow.message import Message
from windrow.settings import Settings
from windrow.table import quoted

WRITERS: Final = 4
_LEAD: Final = 200_000_000
_NAME: Final = b"insert"
_BINARY: Final = (0, 1, 1)
_OK: Final = frozenset({pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK})
INSERT: Final = """
INSERT INTO {table} (topic, key, value, header_keys, header_values)
VALUES ($1, $2::bytea, $3::bytea, {names}, {contents})
"""


def write_live(  # noqa: PLR0913 - a load, whole
    settings: Settings,
    topic: str,
    count: int,
    rate: float,
    *,
    durably: bool,
    statement: str = INSERT,
    dispatched: bool = False,
) -> Numbers:
    """Write the numbers from 1 on; return when each one's commit returned, by number (0 has none).

    A statement of another outbox's has the parameters of `INSERT`. Where records are to be dispatched, each is sent
    after that moment, by a dispatcher that all writers share.
    """
    committed = np.zeros(count + 1, dtype=np.int64)
    with Dispatcher(settings) if dispatched else nullcontext() as dispatcher, ThreadPoolExecutor(WRITERS) as threads:
        writer = _Writer(settings, topic, time.monotonic_ns() + _LEAD, rate, durably, statement, dispatcher)
        # A key belongs to one writer, since the keys' count is a multiple of theirs.
        shares = [range(first, count + 1, WRITERS) for first in range(1, WRITERS + 1)]
        for share, moments in zip(shares, threads.map(writer.write, shares), strict=True):
            committed[share.start :: WRITERS] = moments
    return committed


@dataclass(frozen=True, slots=True)
class _Writer:
    settings: Settings
    topic: str
    begin: int
    rate: float
    durably: bool
    statement: str
    dispatcher: Dispatcher | None

    def write(self, share: range) -> list[int]:
        moments = []
        with psycopg.connect(self.settings.data_source, autocommit=True) as connection:
            if not self.durably:
                connection.execute("SET synchronous_commit = off")
            insert = self._insert(connection)
            for number in share:
                due = self.begin + int(number / self.rate * 1e9)
                if (early := due - time.monotonic_ns()) > 0:
                    time.sleep(early / 1e9)
                moments.append(insert(key_of(number, KEYS), value_of(number)))
        return moments

    def _insert(self, connection: psycopg.Connection[Any]) -> "PreparedInsert":
        table = quoted(self.settings.outbox_table)
        if self.dispatcher:
            return _DispatchedInsert(connection, self.statement, table, self.topic, self.dispatcher)
        return PreparedInsert(connection, self.statement, table, self.topic)


class PreparedInsert:
    """Inserts records with the same headers, in a statement that the server has prepared."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        statement: str,
        table: str,
        topic: str,
        headers: Sequence[tuple[str, bytes | str]] = HEADERS,
    ) -> None:
        self._libpq, self._topic = connection.pgconn, topic.encode()
        names, contents = ([*column] for column in zip(*headers, strict=True))
        arrays = {"names": Literal(names), "contents": Literal(contents)}
        written = statement.format(table=table, **{name: each.as_string(connection) for name, each in arrays.items()})
        _expect_ok(self._libpq.prepare(_NAME, written.encode()))

    def __call__(self, key: bytes, value: bytes) -> int:
        """Insert one; returns when that was done."""
        return self._execute(key, value)[0]

    def _execute(self, key: bytes, value: bytes) -> "tuple[int, pq.abc.PGresult]":
        result = self._libpq.exec_prepared(_NAME, [self._topic, key, value], _BINARY)
        now = time.monotonic_ns()
        _expect_ok(result)
        return now, result


class _DispatchedInsert(PreparedInsert):
    """Has each record sent, once it is committed."""

    def __init__(
        self, connection: psycopg.Connection[Any], statement: str, table: str, topic: str, dispatcher: Dispatcher
    ) -> None:
        super().__init__(connection, f"{statement} RETURNING id", table, topic)
        self._dispatcher, self._to = dispatcher, topic

    def __call__(self, key: bytes, value: bytes) -> int:
        now, result = self._execute(key, value)
        number = int(result.get_value(0, 0) or b"")
        self._dispatcher.dispatch([(number, Message(self._to, value, key, HEADERS))])
        return now


def _expect_ok(result: "pq.abc.PGresult") -> None:
    if result.status not in _OK:
        raise psycopg.OperationalError(result.error_message.decode(errors="replace"))
