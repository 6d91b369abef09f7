"""Send messages to queues, and wait for Kafka's answer.

Invariant: what `send` returned from is in Kafka, once, whatever was sent again on the way.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, Self

from confluent_kafka import KafkaError

from windrow.errors import Interrupted
from windrow.kafka.contact import unheard
from windrow.message import Bytes, Headers
from windrow.queue.sending import ANSWER_WITHIN, ANSWERED_SOON, Sender, Sending, checked
from windrow.queue.settings import QueueSettings
from windrow.queue.transaction import Transaction, Transactions


class _Answers:
    """What Kafka said to the messages that were sent together."""

    __slots__ = ("arrived", "error")

    def __init__(self) -> None:
        self.arrived = 0
        self.error: KafkaError | None = None

    def take(self, error: KafkaError | None, _message: Any) -> None:
        self.arrived += 1
        self.error = self.error or error


def _settle(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)


class QueueProducer:
    """Sends to queues and waits for Kafka's answer. May be shared by threads; close it, or use it in a `with`."""

    def __init__(self, settings: QueueSettings) -> None:
        self._settings = settings
        self._sender = Sender(settings)
        self._transactions: Transactions | None = None
        self._lock = threading.Lock()

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
        """Send one message. `delay`: not to be received before. `ttl`: after this it becomes a dead letter."""
        self.send_many(queue, [Sending(payload, headers, delay=delay, ttl=ttl, max_attempts=max_attempts)])

    def send_many(self, queue: str, messages: Iterable[Bytes | Sending]) -> int:
        """Send messages together; returns how many, when all of them are acknowledged."""
        sendings, answers = checked(messages), _Answers()
        if not sendings:
            return 0
        self._sender.put(queue, sendings, answers.take)
        deadline = time.monotonic() + ANSWER_WITHIN
        while (arrived := answers.arrived) < len(sendings):
            self._sender.poll(ANSWERED_SOON)
            if answers.arrived > arrived:
                deadline = time.monotonic() + ANSWER_WITHIN
            elif time.monotonic() > deadline:
                self._sender.begin_anew()
                raise Interrupted(
                    f"Kafka did not answer to {len(sendings) - arrived} messages in time; they may be sent"
                )
        if answers.error:
            raise self._sender.refused(answers.error, self._settings.message_topic)
        return len(sendings)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Sends, and records of your own, that are there together or not at all. One at a time; others wait."""
        with self._lock:
            self._transactions = self._transactions or Transactions(self._settings)
            with self._transactions.one() as transaction:
                yield transaction

    def close(self) -> None:
        self._sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncQueueProducer:
    """As `QueueProducer`, for asyncio. A thread of its own hears Kafka's answers."""

    def __init__(self, settings: QueueSettings) -> None:
        self._settings = settings
        self._sender = Sender(settings)
        self._transactions: Transactions | None = None
        self._lock = asyncio.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._hear, name="windrow-queue-producer", daemon=True)
        self._thread.start()

    def _hear(self) -> None:
        while not self._closed.is_set():
            self._sender.poll(0.1)

    async def send(  # noqa: PLR0913 - as many as a message has parts
        self,
        queue: str,
        payload: Bytes,
        headers: Headers = (),
        *,
        delay: timedelta | None = None,
        ttl: timedelta | None = None,
        max_attempts: int | None = None,
    ) -> None:
        """Send one message. `delay`: not to be received before. `ttl`: after this it becomes a dead letter."""
        await self.send_many(queue, [Sending(payload, headers, delay=delay, ttl=ttl, max_attempts=max_attempts)])

    async def send_many(self, queue: str, messages: Iterable[Bytes | Sending]) -> int:
        """Send messages together; returns how many, when all of them are acknowledged."""
        sendings, answers = checked(messages), _Answers()
        if not sendings:
            return 0
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def take(error: KafkaError | None, message: Any) -> None:
            answers.take(error, message)
            if answers.arrived == len(sendings):
                loop.call_soon_threadsafe(_settle, done)

        await asyncio.to_thread(self._sender.put, queue, sendings, take)
        await done
        if answers.error:
            if unheard(answers.error):
                self._sender.begin_anew()
            raise self._sender.refused(answers.error, self._settings.message_topic)
        return len(sendings)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Sends, and records of your own, that are there together or not at all. One at a time; others wait."""
        async with self._lock:
            if self._transactions is None:
                self._transactions = await asyncio.to_thread(Transactions, self._settings)
            transaction = self._transactions.begin()
            try:
                yield transaction
            except BaseException:
                await asyncio.to_thread(self._transactions.abort)
                raise
            await asyncio.to_thread(self._transactions.commit)

    async def close(self) -> None:
        await asyncio.to_thread(self._sender.close)
        self._closed.set()
        await asyncio.to_thread(self._thread.join)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
