"""The `tail` capture: read new messages from the database's own log, by logical decoding, as transactions commit.

The log tells rows of the outbox and messages that were emitted to it for the outbox (`Outbox(mode="log")`, which stores
nothing), in the order of commits. Nothing is asked of the table, and nobody is polled: a commit wakes us.

The server sends a transaction once it has committed, from files where it is large, and row after row; so a page ends
wherever it is full, also within a transaction, and memory is bounded by the page. Rows that were there before the slot
was made are not in its log: they are taken from the table first, as the `snapshot` capture does.

Invariants:
- The slot is confirmed only up to where Kafka has everything of ours: when `next` is called, all pages but the last one
  are published; when `wait` is called, all of them.
- Who starts has fenced the tasks before it. So it may end whoever still reads the slot.
"""

import logging
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

import psycopg
from psycopg.sql import Identifier

from windrow.capture.log_position import LogPosition, announced
from windrow.capture.pgoutput import Begin, Commit, Emitted, Relation, RowReader, said
from windrow.capture.position import MAX_SNAPSHOT, REMEDY, Position, Snapshot, objection
from windrow.capture.protocol import Page
from windrow.capture.snapshot import SnapshotCapture
from windrow.closing import closed_on_error
from windrow.database.adoption import layout_of
from windrow.database.connections import connect, interruptible
from windrow.database.replication import LogConnection, Reached, publication_of
from windrow.database.tables import Tables
from windrow.errors import Interrupted, OutboxTableMissing, PositionForeign, SlotLost
from windrow.logged import prefix_of, unpacked
from windrow.record import Record, Shard
from windrow.settings import Settings

log = logging.getLogger(__name__)

_ROW: Final = ord("I")
_LOOK_EVERY: Final = 0.02
_LOOK_EVERY_BUSY: Final = 0.1
"""Seconds between two looks at the control row, and while messages come: those do not wait for it."""
_SETTLE_EVERY: Final = 0.2
"""Seconds between two snapshots whose place in the log we wait to pass."""
_WATCH_EVERY: Final = 10.0
_WITHIN: Final = 0.02
_TIMED: Final = 64
"""One of so many records has its time of writing, where no trace needs that of all."""
"""Seconds that a page waits for the next message of a transaction under way."""
_SLOT_FREE_WITHIN: Final = 10.0
_ASK_AGAIN_AFTER: Final = 0.005


class _Control(NamedTuple):
    """What the control row says, and what was visible then, behind which place in the log."""

    epoch: UUID | None
    release: int
    seen: Snapshot
    lsn: int


class _Run(NamedTuple):
    """A page's records of one transaction: from which place in the page on, and the position before them."""

    first: int
    before: LogPosition


class TailCapture:
    """Reads the log of one slot, once started."""

    def __init__(self, settings: Settings, shard: Shard) -> None:
        self._settings, self._shard, self._limits = settings, shard, settings.limits
        self._tables = Tables.of(settings)
        self._me = {"relay": settings.name, "shard": shard.index}
        self._prefix = prefix_of(settings.outbox_table)
        self._position = LogPosition(Position(""), "", 0)
        self._rows: SnapshotCapture | None = None
        self._log: LogConnection | None = None
        self._readers: dict[bytes, RowReader] = {}
        self._commit = self._committed_at = self._nth = self._skip = 0
        self._published = self._handed = 0
        self._seen: _Control | None = None
        self._awaited: _Control | None = None
        self._looked_at = self._settle_at = self._watch_at = 0.0
        self._warned = False
        self._connection = connect(settings.data_source, f"windrow {settings.name} {shard.index}")
        with interruptible(), closed_on_error(self):
            layout_of(self._connection, settings, "tail")
            self._log = LogConnection(settings.data_source, f"windrow {settings.name} {shard.index} log")
            self._control_query = self._tables.query("tail", "control").as_bytes()

    def start(self, committed: str | None) -> None:
        """Go on where `committed` ends."""
        if committed is None or announced(committed):
            raise OutboxTableMissing(f'relay {self._settings.name} has no slot yet: run "windrow init"')
        with interruptible():
            self._position = self._checked(LogPosition.decode(committed))
            rows = self._position.rows
            if rows.hi is None:
                self._follow()
            else:
                target = Position(rows.database, lo=rows.hi).encode()
                self._rows = SnapshotCapture(self._settings, self._shard, target)
                self._rows.start(rows.encode())

    def next(self) -> Page:
        with interruptible():
            if self._rows is not None:
                return self._next_rows(self._rows)
            self._stream.confirm(self._position.lsn, self._published)
            page = self._read()
            self._published, self._handed = self._handed, self._position.lsn
            return page

    def wait(self, seconds: float) -> None:
        """All that was handed out is published: let go of the log until here, and wait for more."""
        if self._rows is not None:
            self._rows.wait(seconds)
            return
        with interruptible():
            self._published = self._handed = self._position.lsn
            ask = self._awaited is not None and time.monotonic() >= self._settle_at
            if ask:
                self._settle_at = time.monotonic() + _SETTLE_EVERY
            self._stream.confirm(self._position.lsn, self._position.lsn, ask=ask)
            self._stream.wait(seconds)

    def close(self) -> None:
        for each in (self._rows, self._log, self._connection):
            if each is not None:
                each.close()

    @property
    def _stream(self) -> LogConnection:
        if self._log is None:
            raise AssertionError("not connected")
        return self._log

    def _checked(self, position: LogPosition) -> LogPosition:
        database, horizon, lsn = self._row("identity") or ("", "0", 0)
        why = objection(position.rows, database, int(horizon))
        if not why and position.lsn > lsn:
            why = "the committed position is ahead of the database's log: it was set back to an earlier state"
        if why:
            raise PositionForeign(f"{why}\n{REMEDY}")
        if self._row("published", publication=publication_of(self._settings)) != (True,):
            raise OutboxTableMissing(f'outbox {self._settings.outbox_table} is not published: run "windrow init"')
        self._watch(position.slot)
        return position

    def _follow(self) -> None:
        """Have the log sent, once nobody else reads it."""
        slot, deadline = self._position.slot, time.monotonic() + _SLOT_FREE_WITHIN
        options = {
            "proto_version": "1",
            "publication_names": Identifier(publication_of(self._settings)).as_string(),
            "binary": "true",
            "messages": "true",
        }
        while True:
            try:
                self._stream.start(slot, self._position.lsn, options)
            except psycopg.errors.ObjectInUse as error:
                if time.monotonic() > deadline:
                    raise Interrupted(f"slot {slot} is still read by somebody else") from error
                self._row("take_slot", slot=slot)
                time.sleep(_ASK_AGAIN_AFTER)
            else:
                self._published = self._handed = self._position.lsn
                return

    def _next_rows(self, capture: SnapshotCapture) -> Page:
        """What was committed before the slot was made."""
        page = capture.next()
        self._position = replace(self._position, rows=cast("Position", page.position))
        at = self._position
        if at.rows.hi is None:
            capture.close()
            self._rows = None
            self._follow()

        def upto(number: int) -> LogPosition:
            return replace(at, rows=cast("Position", page.upto(number)))

        return replace(page, position=at, upto=upto)

    def _read(self) -> Page:
        """What has come of the log by now, a page at most."""
        records: list[Record] = []
        runs: list[_Run] = []
        tracing = self._settings.tracing
        receive, limit, size, most = self._stream.receive, self._limits.records_at_once, 0, self._limits.page_bytes
        while len(records) < limit and size < most:
            message = receive()
            if message is None:
                if not (self._commit and self._stream.wait(_WITHIN)):
                    break
            elif isinstance(message, Reached):
                if not self._commit:
                    self._position = self._position.reached(message.lsn)
            elif record := self._record(message):
                self._nth += 1
                if self._nth > self._skip:
                    if not runs or runs[-1].before.commit != self._commit:
                        before = replace(self._position, commit=self._commit, nth=self._nth - 1)
                        runs.append(_Run(len(records), before))
                    timed = tracing or not len(records) % _TIMED
                    records.append(record._replace(written_at=self._committed_at) if timed else record)
                    size += len(message)
        more = len(records) >= limit or size >= most
        if self._commit:
            self._position = replace(self._position, commit=self._commit, nth=max(self._nth, self._skip))
        control = self._control(busy=bool(records))
        self._settle_rows()
        return Page(records, self._position, control.epoch, _Places(records, runs).upto, more, control.release)

    def _record(self, message: bytes) -> Record | None:
        """The message's record; None where it is none of the outbox's, and only says where we are."""
        try:
            if message[0] == _ROW:
                return self._readers[message[1:5]].record(message)
            what = said(message)
        except (ValueError, KeyError) as error:
            raise OutboxTableMissing(
                f"the log of outbox {self._settings.outbox_table} cannot be read: {error}; is it still the table that"
                ' "windrow init" made?'
            ) from error
        match what:
            case Begin(commit, time):
                self._commit, self._committed_at, self._nth = commit, time, 0
                self._skip = self._position.nth if self._position.commit == commit else 0
            case Commit(end):
                self._commit = 0
                self._position = self._position.ended(end)
            case Relation(number, _) as relation:
                self._readers[number.to_bytes(4, "big")] = RowReader(relation)
            case Emitted(True, lsn, prefix, content) if prefix == self._prefix:
                return _emitted(lsn, content)
            case _:
                pass
        return None

    def _control(self, *, busy: bool) -> _Control:
        """As it was a moment ago: who is relieved a little later works on for so long, and nobody waits for it."""
        now = time.monotonic()
        if self._seen is None or now - self._looked_at >= (_LOOK_EVERY_BUSY if busy else _LOOK_EVERY):
            self._looked_at = now
            row = self._connection.execute(self._control_query, self._me, prepare=True).fetchone()
            epoch, release, seen, lsn = row or (None, 0, "1:1:", 0)
            self._seen = _Control(epoch, release, Snapshot.parse(seen), lsn)
            if self._awaited is None and now >= self._settle_at and self._seen.seen != self._position.rows.lo:
                self._awaited = self._seen
            if now >= self._watch_at:
                self._watch(self._position.slot)
        return self._seen

    def _settle_rows(self) -> None:
        """Once the log has been read past a snapshot's place, all that is visible there has come."""
        if self._awaited and self._position.lsn >= self._awaited.lsn:
            rows = self._position.rows
            lo = self._awaited.seen.narrowed(MAX_SNAPSHOT, since=rows.lo)
            self._position = replace(self._position, rows=replace(rows, lo=lo))
            self._awaited = None

    def _watch(self, slot: str) -> None:
        """Raise where the slot is of no use, and warn where it holds back too much."""
        self._watch_at = time.monotonic() + _WATCH_EVERY
        row = self._row("slot", slot=slot)
        mine, lost, held = row or (False, True, 0)
        if not mine or lost:
            what = "its log was thrown away (max_slot_wal_keep_size)" if mine else "it is gone, or of another database"
            raise SlotLost(
                f"replication slot {slot}, by which relay {self._settings.name} reads the log, is lost: {what};"
                " messages that were committed since may be missing\n"
                'Give the relay another name, run "windrow init" and go on under that: what is still in the outbox is'
                " published, some of it again. What was emitted to the log alone is lost."
            )
        much = held > self._limits.max_slot_wal
        if much and not self._warned:
            log.warning(
                "relay %s: slot %s holds back %d MB of the database's log, more than limits.maxSlotWal: Kafka is away,"
                " or a transaction has been open for long; the disk fills",
                self._settings.name,
                slot,
                held // 1_000_000,
            )
        self._warned = much

    def _row(self, name: str, **parameters: Any) -> tuple[Any, ...] | None:
        return self._connection.execute(self._tables.query("tail", name), parameters).fetchone()


class _Places:
    """The positions between a page's records."""

    def __init__(self, records: Sequence[Record], runs: Sequence[_Run]) -> None:
        self._records, self._runs = records, runs

    @cached_property
    def _place(self) -> dict[int, int]:
        return {record.id: place for place, record in enumerate(self._records)}

    def upto(self, last: int) -> LogPosition:
        """The position that holds once the records up to the one of this id are published."""
        place = self._place[last]
        run = self._runs[bisect_right(self._runs, place, key=attrgetter("first")) - 1]
        return replace(run.before, nth=run.before.nth + place - run.first + 1)


def _emitted(lsn: int, content: bytes) -> Record:
    """What was emitted for the outbox; what nobody can read has no topic, and becomes a dead letter."""
    try:
        return unpacked(content)
    except ValueError:
        return Record(lsn, "", None, content, [], [], None, None)
