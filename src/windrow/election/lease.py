"""Lease: the leader is whoever holds the relay's row in the database, for as long as it keeps renewing that.

Each holder gets the next number of a term, which the database issues and compares: who was deposed can neither open an
epoch nor purge. Taking the lease ends the epoch of the holder before, in the same statement. Only the database's clock
says when a lease expires; the holder steps down by its own, earlier.

Trust: no correctness rests on clocks. Tasks of a leader that was deposed and does not know it yet are fenced in
Kafka: the successor initialises the transactional ids of all shards, and reads how far they came only then.

Nobody joins the group: it only keeps the positions. The membership that transactions carry is nobody's.
"""

import logging
import math
import threading
import time
from contextlib import closing, suppress
from typing import Final, Self
from uuid import UUID, uuid4

from psycopg.sql import SQL, Composable

from windrow.beside import Beside
from windrow.database.connections import Connection, connect, interruptible
from windrow.database.tables import Tables
from windrow.election.mandate import Term
from windrow.election.tenure import Tenure
from windrow.errors import DatabaseForbids, DatabaseUnreachable, Interrupted
from windrow.kafka.clients import position_reader
from windrow.settings import Settings

log = logging.getLogger(__name__)

_RENEWALS_PER_TIMEOUT: Final = 5
_LOOKS_PER_TIMEOUT: Final = 20
_END_WITHIN: Final = 5.0
_KEEPS_FROM_LEADING: Final = (Interrupted, DatabaseUnreachable, DatabaseForbids)


def in_office(settings: Settings, term: int | None) -> Composable:
    """A condition in SQL: that the term of this number lasts. Without a number, the group elects: it holds."""
    if term is None:
        return SQL("true")
    tables = Tables.of(settings)
    return tables.query("lease", "lasts", name=tables.literal(settings.name), term=tables.literal(term))


def is_held(settings: Settings) -> bool:
    """Whether somebody holds the relay's lease."""
    statement = Tables.of(settings).query("lease", "held")
    with interruptible(), connect(settings.data_source) as connection:
        row = connection.execute(statement, {"name": settings.name}).fetchone()
    return bool(row and row[0])


class LeaseRow:
    """The lease in the database, for one candidate; connects with the first question, and anew after a failure."""

    def __init__(self, settings: Settings, holder: UUID) -> None:
        self._settings, self._tables = settings, Tables.of(settings)
        self._parameters = {"name": settings.name, "holder": holder, "timeout": settings.limits.lease_timeout}
        self._connection: Connection | None = None

    def take(self) -> int | None:
        """The number of the new term; None where another holds the lease."""
        return self._execute("take")

    def renew(self, number: int | None) -> bool:
        """Whether the term goes on."""
        return self._execute("renew", term=number) is not None

    def give_back(self) -> None:
        self._execute("give_back")

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def _execute(self, name: str, **more: int | None) -> int | None:
        try:
            with interruptible():
                self._connection = self._connection or self._connected()
                cursor = self._connection.execute(self._tables.query("lease", name), {**self._parameters, **more})
                row = cursor.fetchone() if cursor.description else None
        except _KEEPS_FROM_LEADING:
            self.close()
            raise
        return int(row[0]) if row else None

    def _connected(self) -> Connection:
        connection = connect(self._settings.data_source, f"windrow {self._settings.name} lease")
        within = self._tables.literal(math.ceil(self._settings.limits.lease_timeout.total_seconds()))
        connection.execute(self._tables.query("lease", "patience", seconds=within))
        return connection


class Lease(Beside):
    """A candidate, while its context lasts. `term` is its present one, None while another leads; for any thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._timeout = settings.limits.lease_timeout.total_seconds()
        self._row = LeaseRow(settings, uuid4())
        self._tenure = Tenure()
        self._lock = threading.Lock()
        self._complained = ""
        super().__init__(f"election of {settings.name}", self._run, end_within=_END_WITHIN)

    @property
    def term(self) -> Term | None:
        """By the clock, also while the thread waits for an answer of the database."""
        with self._lock:
            return self._tenure.at(time.monotonic(), self._timeout)

    def __enter__(self) -> Self:
        with closing(position_reader(self._settings)) as nobody:
            self._membership: bytes = nobody.consumer_group_metadata()
        return super().__enter__()

    def resign(self, term: UUID) -> None:
        """End a term that turned out to be over."""
        with self._lock:
            if self._tenure.term and self._tenure.term.id == term:
                self._tenure = Tenure()

    def _run(self) -> None:
        """At the end give the lease back, so that another can lead at once; where the database is away, it expires."""
        try:
            while not self.over.is_set():
                self.over.wait(self._timeout / (_RENEWALS_PER_TIMEOUT if self._look() else _LOOKS_PER_TIMEOUT))
        finally:
            self._tenure = Tenure()
            with closing(self._row), suppress(*_KEEPS_FROM_LEADING):
                self._row.give_back()

    def _look(self) -> bool:
        """Take the lease or renew it; whether it was granted."""
        asked_at = time.monotonic()
        try:
            granted = self._renew(term, asked_at) if (term := self.term) else self._take(asked_at)
        except _KEEPS_FROM_LEADING as error:
            self._complain(str(error).partition("\n")[0])
            return False
        self._complained = ""
        return granted

    def _renew(self, term: Term, asked_at: float) -> bool:
        granted = self._row.renew(term.number)
        with self._lock:
            now = time.monotonic()
            renewed = self._tenure.renewed(term, asked_at, now, self._timeout)
            self._tenure = renewed if granted else self._tenure.ended(term)
        return granted

    def _take(self, asked_at: float) -> bool:
        number = self._row.take()
        if number is None:
            return False
        with self._lock:
            self._tenure = self._tenure.taken(Term(uuid4(), self._membership, number), asked_at)
        return True

    def _complain(self, what: str) -> None:
        """Say once what keeps this relay from leading."""
        if not self._complained:
            log.warning("relay %s: election by lease: %s; trying again", self._settings.name, what)
        self._complained = what
