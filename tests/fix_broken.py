"""Captures that look right and are not: what scrapers of outboxes commonly do. The checkers must catch them.

Each reads the same real table as windrow's own, and remembers by itself what it has handed out.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from fix_pipeline import Pipeline

Row = tuple[int, float, bytes]
"""A row's id, its create_time in seconds, and its value."""


class Broken:
    """Looks at the whole table, and chooses."""

    GRACE: ClassVar[float] = 0.15
    """Seconds that those wait who wait: in earnest it would be minutes, and transactions longer still."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def next_values(self) -> list[str]:
        with self._pipeline.connect() as connection:
            rows: list[Any] = connection.execute(
                f"SELECT id, extract(epoch FROM create_time)::float, value FROM {self._pipeline.settings.outbox_table}"
                " ORDER BY id"
            ).fetchall()
        return [value.decode() for _, _, value in self.choose(rows)]

    def choose(self, rows: Sequence[Row]) -> Iterable[Row]:
        raise NotImplementedError


class ByOffset(Broken):
    """All above the highest id that was seen."""

    _last = 0

    def choose(self, rows: Sequence[Row]) -> Iterable[Row]:
        new = [row for row in rows if row[0] > self._last]
        self._last = max([self._last, *(row[0] for row in new)])
        return new


class ByLastUpdated(Broken):
    """All that are younger than the youngest that was seen."""

    _youngest = 0.0

    def choose(self, rows: Sequence[Row]) -> Iterable[Row]:
        new = [row for row in rows if row[1] > self._youngest]
        self._youngest = max([self._youngest, *(row[1] for row in new)])
        return new


class ByTimeWindow(Broken):
    """All that are not much older than the youngest that was seen, except those seen before."""

    _youngest = 0.0

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(pipeline)
        self._seen: set[int] = set()

    def choose(self, rows: Sequence[Row]) -> Iterable[Row]:
        new = [row for row in rows if row[1] > self._youngest - self.GRACE and row[0] not in self._seen]
        self._seen |= {row[0] for row in new}
        self._youngest = max([self._youngest, *(row[1] for row in new)])
        return new


class ByGapWait(Broken):
    """All up to the first gap in the ids; beyond it once it has been there for a while."""

    _last = 0
    _gap_since: float | None = None

    def choose(self, rows: Sequence[Row]) -> Iterable[Row]:
        new: list[Row] = []
        for row in rows:
            if row[0] <= self._last:
                continue
            if row[0] > self._last + 1 and not self._waited():
                break
            self._gap_since = None
            self._last = row[0]
            new.append(row)
        return new

    def _waited(self) -> bool:
        self._gap_since = self._gap_since or time.monotonic()
        return time.monotonic() - self._gap_since > self.GRACE
