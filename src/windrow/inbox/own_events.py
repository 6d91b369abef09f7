"""Event state capture: publish first, subscribe to one's own event, and write the entity when it comes back.

The event in Kafka is the truth, and the service's own tables are what an `InboxConsumer` makes of it. So nothing has to
be written to both: what was published is applied, and what was not published has not happened. `OwnEvents` is the
publishing half; it can wait until an event is applied, for those who want to read what they have written.

Trust: publishing fails or succeeds by Kafka's acknowledgement alone. Who gets no answer does not know which, and
publishes again under the same id: the inbox accepts it once.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException, Producer

from windrow.errors import KafkaUnreachable, MessageInvalid
from windrow.inbox.acceptance import Inbox
from windrow.inbox.consumer import connect_as_set
from windrow.inbox.settings import ConsumerSettings
from windrow.inbox.work import Place, Work
from windrow.kafka.clients import client_config, error_of, sent
from windrow.kafka.contact import drop
from windrow.message import Message
from windrow.observe.tracing import traced

_TAKEN_WITHIN: Final = 30.0
_LOOK_EVERY: Final = 0.02
_DEFAULTS: Final = {"linger.ms": 0, "message.timeout.ms": int(_TAKEN_WITHIN * 1000)}


class Published(NamedTuple):
    """Where an event stands in Kafka."""

    place: Place
    offset: int


class OwnEvents:
    """Publishes events that the service itself consumes, under the settings of its `InboxConsumer`; for any thread."""

    def __init__(self, settings: ConsumerSettings, connect: Callable[[], Any] | None = None) -> None:
        self._settings = settings
        self._connect()
        inbox = Inbox(settings.group, settings.inbox_table)
        self._work = Work(connect or partial(connect_as_set, settings), inbox, lambda _connection, _message: None)
        self._lock = threading.Lock()

    def _connect(self) -> None:
        own = {**_DEFAULTS, **self._settings.base_kafka_config, "enable.idempotence": True}
        self._producer = Producer(client_config(self._settings, own))

    def publish(self, message: Message, event_id: str | None = None) -> Published:
        """Return once Kafka has the event for good; raises `KafkaUnreachable` where nobody knows.

        Under an id of its own, an event that is published again is applied once. It travels as the CloudEvents headers
        `ce_id` and `ce_source`.
        """
        if message.topic not in self._settings.topics:
            consumed = ", ".join(self._settings.topics)
            raise MessageInvalid(f"topic {message.topic!r}: group {self._settings.group} consumes {consumed} alone")
        (message,) = traced([message])
        headers: list[tuple[str, str | bytes | None]] = [*message.headers]
        if event_id is not None:
            headers += [("ce_id", event_id), ("ce_source", self._settings.group)]
        producer = self._producer
        try:
            answer = sent(
                producer,
                _TAKEN_WITHIN,
                message.topic,
                value=message.value,
                key=message.key,
                partition=-1 if message.partition is None else message.partition,
                timestamp=message.millis or 0,
                headers=headers,
            )
        except KafkaException as exception:
            with self._lock:
                if self._producer is producer:
                    self._connect()
                    drop(producer)
            why = error_of(exception).str()
            remedy = "publish it again, under the same id"
            raise KafkaUnreachable(f"topic {message.topic}: {why}; {remedy}") from exception
        return Published(Place(message.topic, answer.partition() or 0), answer.offset() or 0)

    def applied(self, published: Published, timeout: float) -> bool:
        """Wait until an event has been handled, by whichever consumer of the group; False where that takes longer."""
        deadline = time.monotonic() + timeout
        while True:
            with self._lock:
                reached = self._work.offsets().get(published.place, 0)
            if reached > published.offset:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_EVERY)

    def close(self) -> None:
        self._producer.flush(_TAKEN_WITHIN)
        with self._lock:
            self._work.close()
