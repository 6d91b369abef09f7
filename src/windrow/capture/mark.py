"""The `mark` capture: take rows by writing a mark to them, on any database that can do that in one statement.

The earliest rows that carry none of our marks get one of the page's own; once the page is published, we are done with
them: they are deleted, or kept with the time of it where the layout has a column for that.
A row that becomes visible late, behind those that are marked, is taken with the next page. What a predecessor marked
and did not publish is marked anew: there is no difference between a new row and one that was left behind.

Invariants:
- When `next` is called, all pages but the last one handed out are published. We are done with those before
  more is marked.
- A page's position names it and the page before it: of these two the rows may still be marked when it is committed, and
  of no others. So who goes on from it finds just the published rows by their marks, whenever we died.
- Rows are marked only while the control row names our epoch, under its lock. Two tasks never mark at the same time, so
  none sees a row that another has just passed over.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final
from uuid import UUID, uuid4

from psycopg.sql import SQL, Composable

from windrow.capture.marks import Marked, MarkPosition
from windrow.capture.protocol import Page, selected
from windrow.capture.shards import predicate
from windrow.closing import closed_on_error
from windrow.database.adoption import layout_of
from windrow.database.connections import Cursor, connect, interruptible, settle_plans
from windrow.database.tables import Tables
from windrow.errors import RelayFenced
from windrow.record import Record, Shard
from windrow.settings import Settings

_ONE_BY_ONE: Final = 4_000
"""Records of a page whose publisher sends those of a key one by one: a page of one key is to end in seconds."""
_PURGED_AT_ONCE: Final = 10_000
"""Rows; for more, MySQL would look through the whole table."""
_NO_MARK: Final = UUID(int=0)
_ID: Final = attrgetter("id")


class _Handed:
    """A page that was handed out: its rows' ids, and the mark on them."""

    def __init__(self, mark: UUID, records: Sequence[Record]) -> None:
        self.ids = [record.id for record in records]
        self.marked = Marked(mark, self.ids[0], self.ids[-1])


class MarkCapture:
    """Takes one shard's rows, once started. With a target it takes none, and only tidies up what it has published."""

    def __init__(self, settings: Settings, shard: Shard, epoch: UUID, target: str | None = None) -> None:
        self._tables = Tables.of(settings)
        self._limits = settings.limits
        self._records = settings.limits.records_at_once
        if settings.delivery == "at-least-once":
            self._records = min(self._records, _ONE_BY_ONE)
        self._epoch = epoch
        self._me = {"relay": settings.name, "shard": shard.index, "epoch": epoch}
        self._draining = target is not None
        self._connection = connect(settings.data_source, f"windrow {settings.name} {shard.index}")
        with interruptible(), closed_on_error(self):
            layout = layout_of(self._connection, settings, settings.capture)
            self._fragments: dict[str, Composable] = {
                **layout.fragments(),
                "columns": SQL(", ".join(selected(layout, Record._fields))),
                "names": SQL(", ".join(Record._fields)),
                "mine": predicate(shard, layout),
            }
            self._fragments["among"] = self._tables.query("mark", "among", **self._fragments)
            end = "kept" if layout.processed else "deleted"
            self._fragments["done"] = self._tables.query("mark", end, **self._fragments)
            self._fragments["ripe"] = self._ripe(settings)
            self._fragments["free"] = self._tables.query("mark", "free", **self._fragments)
            settle_plans(self._connection)
        self._statements = {
            name: self._tables.query("mark", name, **self._fragments).as_bytes()
            for name in ("look", "mark", "purge", "left_over")
        }
        self._before: _Handed | None = None
        self._last: _Handed | None = None
        self._full = False

    def start(self, committed: str | None) -> None:
        """Go on from a committed position: what is published is over, and everything else is to be taken."""
        position = MarkPosition.decode(committed) if committed else MarkPosition()
        with interruptible():
            for each in position.published:
                rows = self._execute("left_over", mark=each.mark, first=each.first, last=each.last)
                self._purge([number for (number,) in rows], [each.mark])

    def next(self) -> Page:
        with interruptible():
            if self._before:
                self._purge(self._before.ids, self._held)
            self._before, self._last = self._last, None
            if self._draining or not self._full:
                epoch, release, waiting = (self._execute("look", held=self._held) or [(None, 0, False)])[0]
                if self._draining or not waiting:
                    return self._page([], epoch, release)
            return self._mark()

    def purge(self, ids: Sequence[int]) -> None:
        """Be done with rows of the page in hand that have been published, while they are ours."""
        with interruptible():
            gone = self._purge(ids, self._held)
        if gone < len(ids):
            raise RelayFenced(f"{len(ids) - gone} rows carry another task's mark by now")

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        self._connection.close()

    def _ripe(self, settings: Settings) -> Composable:
        """Rows are taken at once, unless the application is to have a chance to dispatch them by itself."""
        if settings.capture != "sweep":
            return SQL("true")
        after = self._tables.literal(settings.limits.sweep_after)
        return self._tables.query("mark", "ripe", after=after, **self._fragments)

    def _mark(self) -> Page:
        mark, limits = uuid4(), self._limits
        rows = self._execute("mark", held=self._held, mark=mark, records=self._records, bytes=int(limits.page_bytes))
        if not rows:  # the control row names another epoch
            return self._page([], None, 0)
        records = sorted((Record(*row[1:]) for row in rows if row[1] is not None), key=_ID)
        self._full = len(records) == self._records
        self._last = _Handed(mark, records) if records else None
        return self._page(records, self._epoch, rows[0][0])

    def _page(self, records: list[Record], epoch: UUID | None, release: int) -> Page:
        before, last = ([each.marked] if each else [] for each in (self._before, self._last))

        def upto(number: int) -> MarkPosition:
            return MarkPosition((*before, *(replace(each, last=number) for each in last)))

        return Page(records, MarkPosition((*before, *last)), epoch, upto, more=self._full, release=release or 0)

    def _purge(self, ids: Sequence[int], marks: Sequence[UUID]) -> int:
        """Be done with these rows where they carry one of these marks; returns how many did."""
        chunks = (ids[first : first + _PURGED_AT_ONCE] for first in range(0, len(ids), _PURGED_AT_ONCE))
        return sum(self._run("purge", ids=chunk, marks=marks).rowcount for chunk in chunks)

    @property
    def _held(self) -> list[UUID]:
        """Our marks that rows may carry, and one that none does: an empty list is not SQL everywhere."""
        return [_NO_MARK, *(each.marked.mark for each in (self._before, self._last) if each)]

    def _execute(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        cursor = self._run(name, **parameters)
        return cursor.fetchall() if cursor.description else []

    def _run(self, name: str, **parameters: Any) -> Cursor:
        return self._connection.execute(self._statements[name], {**self._me, **parameters}, prepare=True, binary=True)
