"""Writers at work while something breaks, and the history by which the outcome is judged."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pymysql

from fix_pipeline import Pipeline
from windrow.lab.checkers import judge, late_repeats
from windrow.lab.history import Operation, Outcome, Sent

PARTS = 5


class Load:
    """One writer at work, and the history of what it did."""

    def __init__(
        self, pipeline: Pipeline, padding: Callable[[str, int], str] | None = None, pause: float = 0.01
    ) -> None:
        """The padding is added to the first part of a key's transaction, by its number."""
        self._pipeline, self._pause = pipeline, pause
        self._padding = padding or (lambda _key, _number: "")
        self._stop = threading.Event()
        self.history: dict[str, Operation] = {}

    @property
    def committed(self) -> int:
        return sum(1 for each in list(self.history.values()) if each.outcome == "ok")

    @contextmanager
    def running(self, writers: int = 2) -> Iterator[None]:
        threads = [threading.Thread(target=self._write, args=(f"key {number}",)) for number in range(writers)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _write(self, key: str) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                with self._pipeline.connect() as connection:
                    while not self._stop.wait(self._pause):
                        number += 1
                        self._write_one(connection, key, number)
            except (psycopg.OperationalError, pymysql.OperationalError, pymysql.InterfaceError):
                self._stop.wait(0.1)

    def _write_one(self, connection: Any, key: str, number: int) -> None:
        commit = self.begin(connection, key, number)
        if number % 10 == 0:
            connection.rollback()
            self.note(key, number, "failed")
        else:
            commit()

    def begin(self, connection: Any, key: str, number: int = 1) -> Callable[[], None]:
        """Write a key's transaction of this number; returns what commits it."""
        name = self.note(key, number, "unknown")
        for part in range(PARTS):
            padding = "" if part else self._padding(key, number)
            self._pipeline.outbox.write(connection, self._pipeline.message(json.dumps([name, part, padding]), key))

        def commit() -> None:
            connection.commit()
            self.note(key, number, "ok")

        return commit

    def note(self, key: str, number: int, outcome: Outcome, name: str = "") -> str:
        """Note what became of a key's transaction of this number; returns its name."""
        name = name or f"{key}/{number}"
        parts = tuple(Sent(f"{name}/{part}", key, number * PARTS + part) for part in range(PARTS))
        self.history[name] = Operation(key, number, parts, outcome)
        return name

    def judge(self) -> None:
        """Every part of every committed transaction came once and in order; no part of any other. At least once, a part
        may come again at once, before the next of its key.
        """
        operations = list(self.history.values())
        receipts = [
            f"{name}/{part}" for name, part, _ in (json.loads(value or b"[]") for value in self._pipeline.values())
        ]
        verdict = judge(operations, receipts)
        if self._pipeline.settings.delivery == "at-least-once":
            verdict = replace(verdict, duplicated=len(late_repeats(operations, receipts)))
        assert verdict.sound, verdict
        assert verdict.received >= verdict.written > 0
