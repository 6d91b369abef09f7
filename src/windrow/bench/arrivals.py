"""Transactions that arrive at a rate, or as fast as they go, on several connections: the writing side of a load.

What one transaction does is the caller's. They arrive at random, as those of many users do, and whichever connection
is free takes the next: a slow commit delays itself, not the load. A connection that breaks is opened anew.
"""

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, Self

from windrow.database.connections import Connection, connect, interruptible
from windrow.errors import DatabaseUnreachable, Interrupted

_AFTER_BREAK: Final = 0.5

Transaction = Callable[[Any, int], None]
"""What is done on a connection, in autocommit, under the transaction's number."""


class Arrivals:
    """Runs transactions, numbered from 0, while its context lasts or until there were enough."""

    def __init__(
        self, source: str, transaction: Transaction, writers: int, rate: float | None = None, count: int | None = None
    ) -> None:
        self._source, self._transaction = source, transaction
        self._rate, self._count = rate, count
        self._taken, self._due = 0, 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(writers)
        self._writers = writers
        self._ends: list[Future[None]] = []

    @property
    def running(self) -> bool:
        """Whether there is more to come, and nothing that cannot be mended has happened."""
        failed = any(each.done() and each.exception() for each in self._ends)
        return not failed and not all(each.done() for each in self._ends)

    def __enter__(self) -> Self:
        self._due = time.monotonic()
        self._ends = [self._threads.submit(self._run) for _ in range(self._writers)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the transactions under way end; raise what ended them before their time."""
        self._stop.set()
        self._threads.shutdown()
        for end in self._ends:
            end.result()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with interruptible(), connect(self._source, "windrow load") as connection:
                    self._write(connection)
                    break
            except (Interrupted, DatabaseUnreachable):
                self._stop.wait(_AFTER_BREAK)

    def _write(self, connection: Connection) -> None:
        while (ticket := self._next()) is not None:
            number, due = ticket
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            self._transaction(connection, number)

    def _next(self) -> tuple[int, float] | None:
        """The next transaction's number and when it is due."""
        with self._lock:
            if self._stop.is_set() or self._taken == self._count:
                return None
            number = self._taken
            self._taken += 1
            if self._rate:
                self._due += random.expovariate(self._rate)
            return number, self._due
