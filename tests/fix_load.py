"""Writers at work while something breaks, and the history by which the outcome is judged."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pymysql

from fix_pipeline import Pipeline
from windrow.observe.verdict import Written, judge


class Load:
    """One writer at work, and the history of what it did."""

    def __init__(
        self, pipeline: Pipeline, padding: Callable[[str, int], str] | None = None, pause: float = 0.002
    ) -> None:
        """The padding is added to the first part of a key's transaction, by its number."""
        self._pipeline, self._pause = pipeline, pause
        self._padding = padding or (lambda _key, _number: "")
        self._stop = threading.Event()
        self.history: dict[str, Written] = {}

    @property
    def committed(self) -> int:
        return sum(1 for each in list(self.history.values()) if each.outcome == "committed")

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
            self.history[f"{key}/{number}"] = Written(key, number, "rolled back")
        else:
            commit()

    def begin(self, connection: Any, key: str, number: int = 1) -> Callable[[], None]:
        """Write a key's transaction of this number; returns what commits it."""
        name = f"{key}/{number}"
        self.history[name] = Written(key, number, "unknown")
        for part in range(5):
            padding = "" if part else self._padding(key, number)
            self._pipeline.outbox.write(connection, self._pipeline.message(json.dumps([name, part, padding]), key))

        def commit() -> None:
            connection.commit()
            self.history[name] = Written(key, number, "committed")

        return commit

    def judge(self) -> None:
        """Every part of every committed transaction came once and in order; no part of any other. At least once, a part
        may come again at once, before the next of its key.
        """
        history = {
            f"{name}/{part}": Written(each.key, each.number * 5 + part, each.outcome)
            for name, each in self.history.items()
            for part in range(5)
        }
        receipts = [
            f"{name}/{part}" for name, part, _ in (json.loads(value or b"[]") for value in self._pipeline.values())
        ]
        if self._pipeline.settings.delivery == "at-least-once":
            receipts = list(self._without_repeats(receipts))
        verdict = judge(history, receipts)
        assert verdict.sound, verdict
        assert verdict.received >= verdict.written > 0

    @staticmethod
    def _without_repeats(receipts: Iterable[str]) -> Iterator[str]:
        last: dict[str, str] = {}
        for each in receipts:
            key = each.partition("/")[0]
            if last.get(key) != each:
                yield each
            last[key] = each
