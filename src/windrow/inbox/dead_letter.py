"""Dead letters of a consumer: messages that its handler fails on for good, sent to a topic of their own.

Invariant: a message is passed over only after Kafka has taken its letter. A consumer that dies in between sends it
again.
"""

from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from windrow.errors import Interrupted
from windrow.inbox.failure import letter_headers
from windrow.inbox.settings import ConsumerSettings
from windrow.kafka.clients import client_config, error_of

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
        outcomes: list[KafkaError | None] = []
        try:
            self._producer.produce(
                self._settings.dead_letter_topic,
                message.value(),
                message.key(),
                headers=[*letter_headers(message, self._settings.group, error, attempts)],
                on_delivery=lambda refused, _: outcomes.append(refused),
            )
            self._producer.flush(_TAKEN_WITHIN)
        except KafkaException as exception:
            outcomes.append(error_of(exception))
        if outcomes != [None]:
            why = outcomes[0].str() if outcomes and outcomes[0] else "no answer"
            raise Interrupted(f"deadLetterTopic {self._settings.dead_letter_topic} did not take a letter: {why}")

    def close(self) -> None:
        if self._producer is not None:
            self._producer.flush(0)
