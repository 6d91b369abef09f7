"""A queue's handler, called for each message by threads or by asyncio: it returns, and the message is done.

A handler that raises has the message delivered again, later each time; one that raises `Reject` makes it a dead letter.
How often it is tried is the queue's `max_attempts`. A message whose lease was lost meanwhile is another's, and what was
to be said of it is dropped.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import Any, Final, TypeAlias

from windrow.errors import LeaseLost
from windrow.pace import backoff
from windrow.queue.consumer import AsyncQueueConsumer, QueueConsumer
from windrow.queue.message import QueueMessage
from windrow.queue.producer import AsyncQueueProducer, QueueProducer
from windrow.queue.settings import QueueSettings
from windrow.queued import queue_name

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[QueueMessage], object] | Callable[[QueueMessage], Awaitable[object]]

_FIRST: Final = timedelta(seconds=1)
_LONGEST: Final = timedelta(minutes=10)
_GRACE: Final = timedelta(seconds=30)


class Reject(Exception):
    """Raised by a handler: the message is of no use, and becomes a dead letter with this reason."""


class Worker:
    """Calls a handler for each message of a queue, `concurrency` of them at a time; coroutines are run by asyncio."""

    def __init__(
        self,
        settings: QueueSettings,
        queue: str,
        handler: Handler,
        *,
        concurrency: int = 1,
        first_retry_after: timedelta = _FIRST,
    ) -> None:
        self._settings = settings
        self._queue = queue_name(queue)
        self.handler: Any = handler
        self._concurrency = concurrency
        self._first = first_retry_after
        self._stopping = threading.Event()

    def __call__(self, message: QueueMessage) -> object:
        """The handler itself, for tests of it."""
        return self.handler(message)

    def stop(self) -> None:
        """Have `run` return after what is in hand. May be called from any thread, or by a signal."""
        self._stopping.set()

    def run(self, grace: timedelta = _GRACE) -> None:
        """Work until `stop` is called."""
        if iscoroutinefunction(self.handler):
            asyncio.run(self._run_async(grace))
        else:
            self._run_threads(grace)

    def _run_threads(self, grace: timedelta) -> None:
        consumer = QueueConsumer(self._settings, self._queue)
        threads = [
            threading.Thread(target=self._work, args=[consumer], name=f"windrow-queue-worker-{number}", daemon=True)
            for number in range(self._concurrency)
        ]
        for each in threads:
            each.start()
        self._stopping.wait()
        consumer.close(grace)
        for each in threads:
            each.join(0)

    def _work(self, consumer: QueueConsumer) -> None:
        for message in consumer:
            try:
                self.handler(message)
            except Exception as error:  # noqa: BLE001 - whatever it is, the message is tried again or buried
                self._failed(message, error)
            else:
                self._say(message.ack)

    async def _run_async(self, grace: timedelta) -> None:
        consumer = await asyncio.to_thread(AsyncQueueConsumer, self._settings, self._queue)
        tasks = [asyncio.create_task(self._work_async(consumer)) for _ in range(self._concurrency)]
        await asyncio.to_thread(self._stopping.wait)
        await consumer.close(grace)
        await asyncio.wait(tasks, timeout=0.1)
        for each in tasks:
            each.cancel()

    async def _work_async(self, consumer: AsyncQueueConsumer) -> None:
        async for message in consumer:
            try:
                await self.handler(message)
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(message, error)
            else:
                self._say(message.ack)

    def _failed(self, message: QueueMessage, error: Exception) -> None:
        if isinstance(error, Reject):
            log.warning("queue %s: rejected: %s", self._queue, error)
            self._say(lambda: message.reject(str(error) or "rejected"))
            return
        delay = timedelta(seconds=backoff(message.attempt, self._first, _LONGEST))
        log.warning(
            "queue %s: attempt %d failed, again in %s: %r", self._queue, message.attempt, delay, error, exc_info=error
        )
        self._say(lambda: message.nack(delay=delay))

    def _say(self, word: Callable[[], None]) -> None:
        try:
            word()
        except LeaseLost as lost:
            log.warning("%s", lost)


class Queue:
    """One queue by its name: what sends to it, receives from it and works on it."""

    def __init__(self, settings: QueueSettings, name: str) -> None:
        self.settings = settings
        self.name = queue_name(name)

    def producer(self) -> QueueProducer:
        return QueueProducer(self.settings)

    def async_producer(self) -> AsyncQueueProducer:
        return AsyncQueueProducer(self.settings)

    def consumer(self) -> QueueConsumer:
        return QueueConsumer(self.settings, self.name)

    def async_consumer(self) -> AsyncQueueConsumer:
        return AsyncQueueConsumer(self.settings, self.name)

    def worker(self, *, concurrency: int = 1, first_retry_after: timedelta = _FIRST) -> Callable[[Handler], Worker]:
        """Makes a function the queue's handler: `@queue.worker(concurrency=4)`, then `run()` it."""

        def made(handler: Handler) -> Worker:
            return Worker(
                self.settings, self.name, handler, concurrency=concurrency, first_retry_after=first_retry_after
            )

        return made
