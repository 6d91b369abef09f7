"""The demo's two applications: a service that takes orders, and a customer of its messages.

The service updates the customer's row, inserts the order and writes the message in one transaction. The row's lock
orders the transactions of one customer, and the number that it counts goes into the message: so whoever receives the
messages can tell whether they are all there, once, and in order.
"""

import json
import random
import time
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer

from windrow.bench.arrivals import Arrivals
from windrow.beside import Beside
from windrow.database.postgres import Connection, connect
from windrow.kafka.clients import client_config, create_topic
from windrow.lab.history import Operation, Outcome, Sent
from windrow.message import Message
from windrow.outbox import Outbox
from windrow.settings import Settings

_TOPIC: Final = "orders"
_CUSTOMERS: Final = 100
_ROLLED_BACK: Final = 0.1
_TABLES: Final = """
CREATE TABLE customer (id integer PRIMARY KEY, orders integer NOT NULL DEFAULT 0);
CREATE TABLE orders (id uuid PRIMARY KEY, customer integer NOT NULL, number integer NOT NULL, amount integer NOT NULL);
INSERT INTO customer SELECT generate_series(0, 99)
"""


def create_shop(settings: Settings) -> None:
    """The service's tables and its topic."""
    with connect(settings.data_source) as connection:
        connection.execute(_TABLES)
    create_topic(settings, _TOPIC, 4)


class OrderService:
    """Takes orders at a rate, on several connections, and keeps a history of what it did."""

    def __init__(self, settings: Settings, rate: int, writers: int) -> None:
        self._source = settings.data_source
        self._outbox = Outbox(settings.outbox_table)
        self._orders = Arrivals(settings.data_source, self._take_order, writers, rate)
        self.history: list[Operation] = []
        self.committed_at: dict[str, float] = {}
        self.rolled_back = 0

    @property
    def committed(self) -> int:
        return len(self.committed_at)

    def __enter__(self) -> Self:
        self._orders.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._orders.__exit__(kind, error, trace)

    def place_one(self) -> None:
        with connect(self._source) as connection:
            self._place(connection, customer=0, changes_mind=False)

    def _take_order(self, connection: Connection, _number: int) -> None:
        customer, cancels = random.randrange(_CUSTOMERS), random.random() < _ROLLED_BACK  # noqa: S311 - no secrets
        self._place(connection, customer, changes_mind=cancels)

    def _place(self, connection: Connection, customer: int, *, changes_mind: bool) -> None:
        order, number = str(uuid4()), 0
        try:
            with connection.transaction(force_rollback=changes_mind):
                number = _next_number(connection, customer)
                connection.execute(
                    "INSERT INTO orders VALUES (%s, %s, %s, %s)",
                    (order, customer, number, random.randrange(100)),  # noqa: S311 - as above
                )
                value = json.dumps({"order": order, "customer": customer, "number": number})
                self._outbox.write(connection, Message(_TOPIC, key=str(customer), value=value))
        except psycopg.OperationalError:
            self._note(order, customer, number, "unknown")
            raise
        if changes_mind:
            self._note(order, customer, number, "failed")
            self.rolled_back += 1
        else:
            self.committed_at[order] = time.monotonic()
            self._note(order, customer, number, "ok")

    def _note(self, order: str, customer: int, number: int, outcome: Outcome) -> None:
        message = Sent(order, str(customer), number)
        self.history.append(Operation("order service", len(self.history), (message,), outcome))


def _next_number(connection: Connection, customer: int) -> int:
    row = connection.execute(
        "UPDATE customer SET orders = orders + 1 WHERE id = %s RETURNING orders", (customer,)
    ).fetchone()
    if row is None:
        raise AssertionError("the demo's customers are there from the start")
    return int(row[0])


class Customer(Beside):
    """Receives the messages, reading committed, and keeps what it received and when."""

    def __init__(self, settings: Settings) -> None:
        self._consumer = Consumer(
            client_config(
                settings,
                {
                    "group.id": "demo",
                    "auto.offset.reset": "earliest",
                    "isolation.level": "read_committed",
                    "fetch.wait.max.ms": 100,
                },
            )
        )
        self._consumer.subscribe([_TOPIC])
        super().__init__("customer", self._receive)
        self._recent: deque[tuple[str, float]] = deque(maxlen=5_000)
        self.received: list[str] = []

    @property
    def count(self) -> int:
        return len(self.received)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._consumer.close()

    def linger(self, seconds: float = 1.0) -> None:
        """Wait a while longer for what must not come."""
        self.over.wait(seconds)

    def _receive(self) -> None:
        while not self.over.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                order = json.loads(message.value() or b"{}")["order"]
                self.received.append(order)
                self._recent.append((order, time.monotonic()))

    def rate(self) -> float:
        """Messages per second, over the last second."""
        since = time.monotonic() - 1.0
        return float(sum(1 for _, moment in list(self._recent) if moment > since))

    def latencies(self, committed_at: Mapping[str, float]) -> tuple[float, float]:
        """Median and 99th percentile of the last messages: commit returned to received, in milliseconds."""
        times = sorted(max(0.0, moment - committed_at.get(order, moment)) for order, moment in list(self._recent))
        if not times:
            return 0.0, 0.0
        return times[len(times) // 2] * 1e3, times[len(times) * 99 // 100] * 1e3
