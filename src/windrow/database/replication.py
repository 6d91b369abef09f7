"""PostgreSQL's streaming replication, spoken over libpq: make a slot, read its log, confirm what is done with.

psycopg itself does not speak it, so this is the protocol's one place. Nothing here knows what the log holds.

Invariants: reading never blocks, waiting is bounded; the server is never told to let go of more than `confirm` said.
"""

import hashlib
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection
from struct import Struct
from typing import Any, Final, NamedTuple
from uuid import UUID

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg.errors import error_from_result
from psycopg.sql import Identifier, Literal

from windrow.database.postgres import connection_string, unreachable
from windrow.settings import Settings
from windrow.table import quoted

_DATA: Final = ord("w")
_BEFORE_DATA: Final = Struct(">cqqq").size
_KEEPALIVE: Final = Struct(">cqqb")
_STATUS: Final = Struct(">cqqqqb")
_EPOCH: Final = 946_684_800
_CONFIRM_EVERY: Final = 1.0
_READABLE: Final = 40
"""Characters of a name that a slot's or publication's has room for."""


class Made(NamedTuple):
    """A new slot: where its log begins, and the name of the snapshot of all that came before."""

    lsn: int
    snapshot: str


class Reached(NamedTuple):
    """All that committed before this place in the log has been sent."""

    lsn: int


class LogConnection:
    """A connection in replication mode, to one database. Not safe for concurrent use."""

    def __init__(self, data_source: str, application: str) -> None:
        self._confirmed = self._received = self._told = 0
        self._tell_at = 0.0
        self._asked = False
        conninfo = make_conninfo(
            connection_string(data_source, application), replication="database", client_encoding="UTF8"
        )
        self._connection = pq.PGconn.connect(conninfo.encode())
        if self._connection.status != pq.ConnStatus.OK:
            raise unreachable(self._connection.get_error_message(), data_source)

    def create_slot(self, name: str) -> Made:
        """Make a slot of pgoutput's. Waits until transactions that are open now have ended."""
        slot = Identifier(name).as_string()
        result = self._execute(f"CREATE_REPLICATION_SLOT {slot} LOGICAL pgoutput EXPORT_SNAPSHOT")
        _, lsn, snapshot, *_ = (result.get_value(0, column) or b"" for column in range(result.nfields))
        return Made(as_number(lsn.decode()), snapshot.decode())

    def start(self, slot: str, lsn: int, options: dict[str, str]) -> None:
        """Have the log sent from a place on; at the earliest from the one that was confirmed last."""
        given = ", ".join(f"{name} {Literal(value).as_string()}" for name, value in options.items())
        self._execute(
            f"START_REPLICATION SLOT {Identifier(slot).as_string()} LOGICAL {as_text(lsn)} ({given})",
            pq.ExecStatus.COPY_BOTH,
        )
        self._confirmed = self._received = self._told = 0

    def receive(self) -> bytes | Reached | None:
        """The next message of the slot's plugin, or how far the server is; None where there is nothing by now."""
        size, message = self._connection.get_copy_data(1)
        if size == 0:
            self._connection.consume_input()
            size, message = self._connection.get_copy_data(1)
            if size == 0:
                return None
        if size < 0:
            self._raise_end()
        if message[0] == _DATA:
            return bytes(message[_BEFORE_DATA:])
        _, lsn, _, asked = _KEEPALIVE.unpack(message)
        self._asked |= bool(asked)
        return Reached(lsn)

    def wait(self, seconds: float) -> bool:
        """Wait until there may be something to receive; False if there is nothing in time."""
        return bool(connection.wait([self._connection.socket], max(seconds, 0.0)))

    def confirm(self, received: int, confirmed: int, *, ask: bool = False) -> None:
        """Tell the server, now and then and where it asks, how far we have read, and how far it may let go of the log.
        With `ask`, have it say how far it is.
        """
        self._received = max(self._received, received)
        self._confirmed = max(self._confirmed, confirmed)
        due = self._confirmed > self._told and time.monotonic() >= self._tell_at
        if not (due or ask or self._asked):
            return
        now = int((time.time() - _EPOCH) * 1e6)
        status = _STATUS.pack(b"r", max(self._received, self._confirmed), self._confirmed, self._confirmed, now, ask)
        self._connection.put_copy_data(status)
        self._connection.flush()
        self._told, self._asked, self._tell_at = self._confirmed, False, time.monotonic() + _CONFIRM_EVERY

    def close(self) -> None:
        self._connection.finish()

    def _execute(self, command: str, expected: pq.ExecStatus = pq.ExecStatus.TUPLES_OK) -> Any:
        result = self._connection.exec_(command.encode())
        if result.status != expected:
            raise error_from_result(result)
        return result

    def _raise_end(self) -> None:
        result = self._connection.get_result()
        said = result.error_message.decode(errors="replace").strip() if result else ""
        raise psycopg.OperationalError(said or "the server ended the replication")


@contextmanager
def log_connection(data_source: str, application: str) -> Iterator[LogConnection]:
    connection = LogConnection(data_source, application)
    try:
        yield connection
    finally:
        connection.close()


def as_number(lsn: str) -> int:
    """A place in the log, from PostgreSQL's form of it: `16/B374D848`."""
    high, low = lsn.split("/")
    return int(high, 16) << 32 | int(low, 16)


def as_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def publication_of(settings: Settings) -> str:
    """The publication of an outbox, which all its relays read."""
    table = quoted(settings.outbox_table)
    return f"windrow_{_plain(settings.outbox_table)}_{hashlib.sha256(table.encode()).hexdigest()[:8]}"


def slot_name(settings: Settings, unique: UUID) -> str:
    """The name of a new slot of a relay, which no slot has had before."""
    return f"windrow_{_plain(settings.name)}_{unique.hex[:12]}"


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9_]", "_", name.lower())[:_READABLE]
