"""Sends to queues, and records of one's own, that are there together or not at all."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

from confluent_kafka import KafkaException, TopicPartition

from windrow.errors import KafkaUnreachable
from windrow.kafka.clients import error_of, own_exception
from windrow.kafka.offsets import send_offsets
from windrow.message import Bytes, Headers, Message
from windrow.queue.sending import ANSWER_WITHIN, Sender, Sending, checked
from windrow.queue.settings import QueueSettings


class Transactions:
    """A transactional producer, and one transaction after the other on it."""

    def __init__(self, settings: QueueSettings) -> None:
        self._settings = settings
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._sender = Sender(self._settings, **{"transactional.id": f"windrow-queue-{uuid4()}"})
        try:
            self._sender.producer.init_transactions(ANSWER_WITHIN)
        except KafkaException as exception:
            raise KafkaUnreachable(f"Kafka begins no transactions: {error_of(exception).str()}") from exception

    def begin(self) -> "Transaction":
        self._sender.producer.begin_transaction()
        return Transaction(self._sender)

    @contextmanager
    def one(self) -> Iterator["Transaction"]:
        transaction = self.begin()
        try:
            yield transaction
        except BaseException:
            self.abort()
            raise
        self.commit()

    def commit(self) -> None:
        try:
            while True:
                try:
                    self._sender.producer.commit_transaction(ANSWER_WITHIN)
                except KafkaException as exception:
                    if not error_of(exception).retriable():
                        raise
                else:
                    return
        except (KafkaException, SystemError) as raised:
            cause = own_exception(raised)
            self.abort()
            raise self._sender.refused(error_of(cause), "the transaction") from cause

    def abort(self) -> None:
        """End the transaction without effect; where that fails, Kafka ends it in its time."""
        try:
            self._sender.producer.abort_transaction(ANSWER_WITHIN)
        except (KafkaException, SystemError) as raised:
            own_exception(raised)
            self._begin_anew()


class Transaction:
    """What is sent within one transaction; nobody receives it before it is committed."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def send(  # noqa: PLR0913 - as many as a message has parts
        self,
        queue: str,
        payload: Bytes,
        headers: Headers = (),
        *,
        delay: timedelta | None = None,
        ttl: timedelta | None = None,
        max_attempts: int | None = None,
    ) -> None:
        """Send a message to a queue."""
        self.send_many(queue, [Sending(payload, headers, delay=delay, ttl=ttl, max_attempts=max_attempts)])

    def send_many(self, queue: str, messages: Iterable[Bytes | Sending]) -> None:
        if sendings := checked(messages):
            self._sender.put(queue, sendings, None)

    def produce(self, topic: str, value: Bytes = None, key: Bytes = None, headers: Headers = ()) -> None:
        """Send a record of your own to any topic."""
        record = Message(topic, value, key, headers)
        self._sender.produce(topic, record.value, record.key, list(record.headers), -1, None)

    def send_offsets(self, offsets: list[TopicPartition], group_metadata: Any) -> None:
        """Commit a consumer's offsets with the transaction: `consumer.consumer_group_metadata()`."""
        self._sender.producer.flush(ANSWER_WITHIN)
        send_offsets(self._sender.producer, offsets, group_metadata, ANSWER_WITHIN)
