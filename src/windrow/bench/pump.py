"""The pump: messages into an outbox, of any size and number, some of them rolled back; and what became of them."""

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from windrow.database.connections import Connection
from windrow.message import Message
from windrow.outbox import Outbox
from windrow.outbox.statement import batches
from windrow.table import Dialect

_HEADER: Final = "0123456789abcdef"
_FILLER: Final = "."


@dataclass(frozen=True, slots=True)
class Load:
    """What is written. With a `count`, so many messages in all."""

    topic: str
    keys: int = 1_000
    value_size: int = 200
    headers: int = 0
    transaction: int = 1
    """Messages in one transaction."""
    rollback: float = 0.0
    """Share of the transactions that are rolled back."""
    count: int | None = None

    @property
    def transactions(self) -> int | None:
        return None if self.count is None else -(-self.count // self.transaction)

    def messages(self, number: int) -> list[Message]:
        """Those of one transaction; each value begins with the numbers of the transaction and of the message."""
        size = self.transaction
        if self.count is not None:
            size = min(size, self.count - number * self.transaction)
        headers = [(f"header-{each}", _HEADER) for each in range(self.headers)]
        return [
            Message(
                self.topic,
                key=f"{random.randrange(self.keys)}",  # noqa: S311 - a key, no secret
                value=f"{number} {index} ".ljust(self.value_size, _FILLER)[: self.value_size],
                headers=headers,
            )
            for index in range(size)
        ]


@dataclass(frozen=True, slots=True)
class Pumped:
    """What became of the messages until now."""

    committed: int
    rolled_back: int
    unknown: int
    """The connection broke while they were being committed."""
    transactions: int
    seconds: float
    rate: float
    """Messages committed a second."""
    commit_p50_ms: float
    commit_p99_ms: float


class Pump:
    """Writes a load, a transaction at a time, from any number of threads; keeps count."""

    def __init__(self, outbox_table: str, load: Load, dialect: Dialect = "postgresql") -> None:
        self.load, self._dialect = load, dialect
        self._outbox = Outbox(outbox_table, max_value_bytes=max(load.value_size, 1))
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._messages: Counter[str] = Counter()
        self._commits: Counter[float] = Counter()

    def write(self, connection: Connection, number: int) -> None:
        """One transaction, on a connection in autocommit."""
        messages = self.load.messages(number)
        outcome: Literal["committed", "rolled back", "unknown"] = "rolled back"
        took = 0.0
        try:
            connection.execute("BEGIN")
            for batch in batches(messages):
                connection.execute(*self._insert(batch))
            if random.random() < self.load.rollback:  # noqa: S311 - as above
                connection.execute("ROLLBACK")
            else:
                outcome, began = "unknown", time.monotonic()
                connection.execute("COMMIT")
                outcome, took = "committed", time.monotonic() - began
        finally:
            with self._lock:
                self._messages[outcome] += len(messages)
                if outcome == "committed":
                    self._commits[float(f"{took:.2g}")] += 1

    def _insert(self, batch: Sequence[Message]) -> tuple[bytes, tuple[Any, ...]]:
        statement, parameters = self._outbox.statement(batch, self._dialect)
        return statement.encode(), parameters

    def pumped(self) -> Pumped:
        with self._lock:
            messages, commits = self._messages.copy(), self._commits.copy()
        seconds = time.monotonic() - self._began
        return Pumped(
            messages["committed"],
            messages["rolled back"],
            messages["unknown"],
            commits.total(),
            round(seconds, 3),
            round(messages["committed"] / seconds, 1),
            round(percentile(commits, 0.5) * 1e3, 3),
            round(percentile(commits, 0.99) * 1e3, 3),
        )


def percentile(counts: Mapping[float, int], share: float) -> float:
    """The value that this share of all values is not above; 0 where there is none."""
    left = share * sum(counts.values())
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    return 0.0
