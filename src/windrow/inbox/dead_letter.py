"""Dead letters of a consumer: messages that its handler fails on for good, sent to a topic of their own.

Invariant: a message is passed over only after Kafka has taken its letter. A consumer that dies in between sends it
again.
"""

from typing import Final

from confluent_kafka import KafkaException, Message, Producer

from windrow.errors import Interrupted
from windrow.inbox.failure import letter_headers
from windrow.inbox.settings import ConsumerSettings
from windrow.kafka.clients import client_config, error_of, sent
from windrow.kafka.contact import part_from

_TAKEN_WITHIN: Final = 30.0
_OWN: Final = {"enable.idempotence": True, "message.max.bytes": 1_000_000_000, "message.timeout.ms": 30_000}


class Letters:
    """Sends letters with a producer that is opened for the first of them."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings
        self._producer: Producer | None = None

    def send(self, message: Message, error: Exception, attempts: int) -> None:
        """Return once Kafka has taken the letter."""
        if self._producer is None:
            self._producer = Producer(client_config(self._settings, _OWN))
        topic = self._settings.dead_letter_topic
        headers = [*letter_headers(message, self._settings.group, error, attempts)]
        try:
            sent(self._producer, _TAKEN_WITHIN, topic, value=message.value(), key=message.key(), headers=headers)
        except KafkaException as exception:
            part_from(self._producer, within=0.0)
            self._producer = None
            why = error_of(exception).str()
            raise Interrupted(f"deadLetterTopic {topic} did not take a letter: {why}") from exception

    def close(self) -> None:
        if self._producer is not None:
            self._producer.flush(0)
