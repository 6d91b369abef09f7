"""Send messages right after their transaction has committed, and note in the outbox what has arrived.

    with dispatcher.writing() as outbox, connection.transaction():
        outbox.write(connection, message)

The transaction ends first, the other context after it: if both end well, what was written is handed to a producer. A
thread takes Kafka's answers and notes what has arrived, in bulk.

Trust: nothing here has to work. A message is in the outbox before it is sent; whatever is not noted as dispatched, for
whatever reason, is sent by a relay with `capture: sweep`. So nothing here blocks the application or fails it: what a
full queue, Kafka or the database refuses is left to the relay. Sent again by it, a message has the same `x-source` and
`x-sequence`.
"""

import inspect
import logging
import time
from collections import deque
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Answer

from windrow.beside import Beside
from windrow.database.adoption import layout_of
from windrow.database.connections import Connection, Statement, connect, interruptible
from windrow.database.tables import Tables
from windrow.errors import DatabaseUnreachable, Interrupted, PublishFailed, SettingsInvalid
from windrow.kafka.contact import drop, unheard
from windrow.message import Message
from windrow.observe.sends import Sending, SendSpans
from windrow.observe.tracing import traced
from windrow.outbox import AsyncOutbox, Outbox
from windrow.publish.sending import DEFAULTS, producer_config, send
from windrow.record import Record
from windrow.settings import Settings

log = logging.getLogger(__name__)

_NOTE_EVERY: Final = 0.05
_NOTED_AT_ONCE: Final = 1_000
_UNNOTED: Final = 100_000
"""Arrivals that are remembered while the database is away; the relay sends older ones again."""
_COMPLAIN_EVERY: Final = 30.0
_END_WITHIN: Final = 10.0


class Writing:
    """What is written in one transaction."""

    def __init__(self, outbox: Outbox | AsyncOutbox) -> None:
        self._outbox = outbox
        self.written: list[tuple[int, Message]] = []

    def write(self, connection: Any, message: Message) -> Any:
        """As the outbox's own `write`, which is to be awaited if it is an `AsyncOutbox`."""
        (message,) = traced([message])
        number = self._outbox.write(connection, message)
        if inspect.isawaitable(number):
            return self._awaited(number, message)
        self.written.append((number, message))
        return number

    async def _awaited(self, number: Awaitable[int], message: Message) -> int:
        self.written.append((await number, message))
        return self.written[-1][0]


class Dispatcher(Beside):
    """Sends while its context lasts, on a connection to the database and a producer of its own; for any thread.

    The settings are the relay's. What it sends to has to be an outbox made for `capture: sweep`.
    """

    def __init__(self, settings: Settings, outbox: Outbox | AsyncOutbox | None = None) -> None:
        if settings.capture != "sweep":
            raise SettingsInvalid(
                [f"capture: {settings.capture}: a relay beside a dispatcher has to sweep; give sweep"]
            )
        self._settings, self._outbox = settings, outbox or Outbox(settings.outbox_table)
        self._source = settings.source.encode()
        self._arrived: deque[int] = deque(maxlen=_UNNOTED)
        self._complained_at = -_COMPLAIN_EVERY
        super().__init__(f"dispatch of {settings.name}", self._run, end_within=2 * _END_WITHIN)

    def __enter__(self) -> Self:
        self._connect()
        with interruptible(), connect(self._settings.data_source) as connection:
            self._statement = _noting(connection, self._settings)
        return super().__enter__()

    def _connect(self) -> None:
        defaults = {**DEFAULTS, "linger.ms": 0, "message.timeout.ms": self._sweeps_after_ms}
        own = {"enable.idempotence": True}
        self._producer, self._unheard = Producer(producer_config(self._settings, defaults, own)), False

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """Send what is written meanwhile, once the context ends well: around the transaction, not within it."""
        writing = Writing(self._outbox)
        yield writing
        self.dispatch(writing.written)

    def dispatch(self, written: Sequence[tuple[int, Message]]) -> None:
        """Send messages that are committed, by the ids that `Outbox.write` returned. Blocks for nothing."""
        spans = SendSpans.here(self._settings.source)
        for number, message in written:
            record, sending = _record(number, message), None
            if spans:
                record, sending = spans.begin(record)
            try:
                send(self._producer, self._source, [record], partial(self._report, sending), patient=False)
            except (PublishFailed, KafkaException, BufferError) as error:
                self._complain(f"a message was not sent: {error}")
                if sending:
                    sending.end(error)

    @property
    def _sweeps_after_ms(self) -> int:
        """Kafka may take so long: later, the relay sends the message anyhow."""
        return max(int(self._settings.limits.sweep_after.total_seconds() * 1000), 1)

    def _report(self, sending: Sending | None, number: int) -> Any:
        return partial(self._answered, number, sending)

    def _answered(self, number: int, sending: Sending | None, error: KafkaError | None, _answer: Answer) -> None:
        if sending:
            sending.end(error.str() if error else None)
        if error:
            self._unheard = self._unheard or unheard(error)
            self._complain(f"a message did not arrive: {error.str()}")
        else:
            self._arrived.append(number)

    def _run(self) -> None:
        connection: Connection | None = None
        note_at = 0.0
        while not self.over.is_set():
            self._producer.poll(_NOTE_EVERY)  # returns with the first answers
            if self._unheard:
                lost = self._producer
                self._connect()
                drop(lost)
            if time.monotonic() >= note_at:
                connection = self._note(connection)
                note_at = time.monotonic() + _NOTE_EVERY
        self._producer.flush(_END_WITHIN)
        if connection := self._note(connection):
            connection.close()

    def _note(self, connection: Connection | None) -> Connection | None:
        """Note what has arrived, a chunk at a time; returns the connection, None where it broke."""
        while self._arrived:
            chunk = [self._arrived.popleft() for _ in range(min(len(self._arrived), _NOTED_AT_ONCE))]
            try:
                with interruptible():
                    connection = connection or connect(self._settings.data_source, "windrow dispatch")
                    connection.execute(self._statement, {"ids": chunk})
            except (Interrupted, DatabaseUnreachable) as error:
                self._complain(f"arrivals are not noted: {str(error).partition(chr(10))[0]}")
                self._arrived.extendleft(reversed(chunk))
                self.over.wait(1.0)
                return None
        return connection

    def _complain(self, what: str) -> None:
        """Say once in a while what is left to the relay."""
        if time.monotonic() - self._complained_at >= _COMPLAIN_EVERY:
            self._complained_at = time.monotonic()
            log.warning("outbox %s: %s; left to the relay", self._settings.outbox_table, what)


def _noting(connection: Connection, settings: Settings) -> Statement:
    """The statement that notes messages as dispatched, by the outbox's layout."""
    layout = layout_of(connection, settings, "sweep")
    return Tables.of(settings).query("dispatch", "note", **layout.fragments())


def _record(number: int, message: Message) -> Record:
    names = [name for name, _ in message.headers]
    contents = [content for _, content in message.headers]
    return Record(number, message.topic, message.key, message.value, names, contents, message.partition, message.millis)
