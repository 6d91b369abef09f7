"""Receive the messages of a queue, one by one, from batches that are leased in the background.

Two threads work for a consumer: one leases messages into a bounded buffer (`intake`), one says what became of them
(`keeper`). Those who receive take from the buffer without a lock. A message is in the buffer, in a handler's hand, or
over; a consumer that is closed, or whose queue is paused, gives back what is in the buffer.

Errors of Kafka's do not reach those who receive: the consumer goes on by itself when the broker is back, and what ran
out meanwhile was not its own any more.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from time import monotonic, sleep
from typing import Final, Self

from confluent_kafka import KafkaException

from windrow.errors import Interrupted
from windrow.queue.appetite import Appetite
from windrow.queue.control import Control
from windrow.queue.intake import Intake
from windrow.queue.keeper import Keeper, LostHandler
from windrow.queue.lease import Part
from windrow.queue.message import QueueMessage
from windrow.queue.settings import QueueSettings
from windrow.queue.topics import check_topics
from windrow.queued import queue_name

log = logging.getLogger(__name__)

_LOOK: Final = 0.002
"""Seconds between two looks at a buffer that is full enough."""
_LOOK_SELDOM: Final = 0.05
_SHOW_LIFE: Final = 1.0
_LOOK_AT_CONTROL: Final = 0.2
_AGAIN_AFTER: Final = 0.5
_GRACE: Final = timedelta(seconds=30)


class QueueConsumer:
    """Receives one queue's messages. May be shared by threads; close it, or use it in a `with`.

    `on_lease_lost(message)` is told of messages that were not acknowledged in time, from a thread of the consumer's.
    """

    def __init__(self, settings: QueueSettings, queue: str, on_lease_lost: LostHandler | None = None) -> None:
        self._settings = settings
        self.queue = queue_name(queue)
        marker_partitions = check_topics(settings)
        self._buffer: deque[Part] = deque()
        self._part: Part | None = None
        """What is drawn from; the buffer is behind it."""
        self._given = 0
        self._waiting = 0
        self._there = threading.Condition()
        self._listeners: set[Callable[[], object]] = set()
        self._hungry = threading.Event()
        self._closing = threading.Event()
        self._error: BaseException | None = None
        self._paused = False
        self._keeper = Keeper(settings, queue, on_lease_lost)
        self._intake = Intake(settings, queue, self._keeper, marker_partitions)
        self._control = Control(settings)
        self._thread = threading.Thread(target=self._run, name=f"windrow-queue-consumer-{queue}", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """How many messages were not acknowledged in time."""
        return self._keeper.lost

    @property
    def paused(self) -> bool:
        return self._paused

    def ended(self) -> bool:
        """Whether no more messages come, since the consumer is closed; what ended it otherwise is raised."""
        if self._error is not None:
            raise self._error
        return self._closing.is_set()

    def receive(self, timeout: float | None = None) -> QueueMessage | None:
        """The next message; None where none came within so many seconds, or the consumer is closed."""
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            if (message := self.take()) is not None:
                return message
            left = None if deadline is None else deadline - monotonic()
            if self.ended() or (left is not None and left <= 0):
                return None
            self._wait(left)

    def take(self) -> QueueMessage | None:
        """A message that is there already, or None; does not wait."""
        while (part := self._part) is not None:
            for offset, payload, headers in part.rows:
                if monotonic() < part.hold.safe_until:
                    return QueueMessage(part, offset, payload, headers)
                self._keeper.give_back(part, [offset])
            self._go_on(part)
        return None

    def __iter__(self) -> Iterator[QueueMessage]:
        """All messages, as they come, until the consumer is closed."""
        while True:
            while (part := self._part) is not None:
                hold = part.hold
                for offset, payload, headers in part.rows:
                    if monotonic() < hold.safe_until:
                        yield QueueMessage(part, offset, payload, headers)
                    else:
                        self._keeper.give_back(part, [offset])
                self._go_on(part)
            if self.ended():
                return
            self._wait(None)

    def _go_on(self, drawn: Part) -> None:
        """To the next part, from one that is drawn."""
        with self._there:
            if self._part is drawn:
                self._part = self._buffer.popleft() if self._buffer else None

    def _buffered(self) -> int:
        return sum(part.buffered for part in (self._part, *self._buffer) if part)

    def _over(self) -> int:
        return self._given - sum(part.left for part in self._keeper.parts)

    def close(self, grace: timedelta = _GRACE) -> None:
        """Give back what nobody has begun with, wait for those at work for so long, and leave.

        What is not over by then is redelivered when its lease runs out.
        """
        self._closing.set()
        self._hungry.set()
        self._awaken()
        self._thread.join()
        deadline = monotonic() + grace.total_seconds()
        while self._keeper.parts and monotonic() < deadline:
            sleep(_LOOK)
        self._keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def listen(self, listener: Callable[[], object]) -> None:
        """Call this whenever messages have come, or the consumer is closed, from another thread."""
        self._listeners.add(listener)

    def want(self, more: int) -> None:
        """So many more wait for a message, or fewer."""
        with self._there:
            self._waiting += more
        if more > 0:
            self._hungry.set()

    def _wait(self, seconds: float | None) -> None:
        self.want(1)
        with self._there:
            try:
                self._there.wait_for(lambda: self._part or self._closing.is_set(), seconds)
            finally:
                self._waiting -= 1

    def _awaken(self) -> None:
        with self._there:
            self._there.notify_all()
        for each in [*self._listeners]:
            each()

    def _run(self) -> None:
        """Fill the buffer until the consumer is closed; what ends that before is raised to those who receive."""
        try:
            self._fill()
        except BaseException as error:  # noqa: BLE001 - raised there
            self._error = error
            self._closing.set()
        self._obey(paused=True)
        self._intake.close()
        self._control.close()
        self._awaken()

    def _fill(self) -> None:
        appetite = Appetite(
            self._settings.consumer_receive_buffer_capacity, self._settings.consumer_max_messages_per_commit
        )
        gather = self._settings.consumer_next_message_timeout.total_seconds()
        failing, look, polled, looked = False, _LOOK, 0.0, 0.0
        while not self._closing.is_set():
            now = monotonic()
            try:
                if now - looked > _LOOK_AT_CONTROL:
                    looked = now
                    self._obey(self._control.is_paused(self.queue))
                wanted = 0 if self._paused else appetite.wanted(now, self._over(), self._buffered(), self._waiting)
                if not wanted:
                    if now - polled > _SHOW_LIFE:
                        self._intake.stay()
                        polled = now
                    look = min(_LOOK_SELDOM, look * 1.2)
                    if self._hungry.wait(look):
                        self._hungry.clear()
                    if self._paused:
                        self._closing.wait(_LOOK_SELDOM)
                    continue
                look, polled = _LOOK, now
                if parts := self._intake.lease(self._intake.poll(wanted, gather)):
                    count = sum(part.buffered for part in parts)
                    self._given += count
                    appetite.gave(monotonic(), count)
                    with self._there:
                        self._buffer.extend(parts)
                        self._part = self._part or self._buffer.popleft()
                    self._awaken()
                failing = False
            except (KafkaException, Interrupted) as error:
                if not failing:
                    log.warning("queue %s: %s; going on when Kafka answers", self.queue, error)
                failing = True
                self._closing.wait(_AGAIN_AFTER)

    def _obey(self, paused: bool) -> None:  # noqa: FBT001 - as the control topic says it
        """Give back what is in the buffer while the queue is paused."""
        self._paused = paused
        if not paused:
            return
        while (part := self._part) is not None:
            self._keeper.give_back(part, [row[0] for row in part.rows])
            self._go_on(part)


class AsyncQueueConsumer:
    """As `QueueConsumer`, for asyncio. Messages are of the same kind; `ack()` and the others do not wait."""

    def __init__(self, settings: QueueSettings, queue: str, on_lease_lost: LostHandler | None = None) -> None:
        self._consumer = QueueConsumer(settings, queue, on_lease_lost)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._came: set[asyncio.Future[None]] = set()
        self._consumer.listen(self._call)

    @property
    def lost(self) -> int:
        """How many messages were not acknowledged in time."""
        return self._consumer.lost

    async def receive(self, timeout: float | None = None) -> QueueMessage | None:  # noqa: ASYNC109 - as the other's
        """The next message; None where none came within so many seconds, or the consumer is closed.

        Cancelled, it has taken nothing.
        """
        self._loop = asyncio.get_running_loop()
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            came = self._loop.create_future()
            self._came.add(came)
            try:
                if (message := self._consumer.take()) is not None:
                    return message
                left = None if deadline is None else deadline - monotonic()
                if self._consumer.ended() or (left is not None and left <= 0):
                    return None
                self._consumer.want(1)
                try:
                    await asyncio.wait([came], timeout=left)
                finally:
                    self._consumer.want(-1)
            finally:
                self._came.discard(came)

    async def __aiter__(self) -> AsyncIterator[QueueMessage]:
        """All messages, as they come, until the consumer is closed."""
        while (message := await self.receive()) is not None:
            yield message

    def _call(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._awaken)

    def _awaken(self) -> None:
        for each in self._came:
            if not each.done():
                each.set_result(None)

    async def close(self, grace: timedelta = _GRACE) -> None:
        """As `QueueConsumer.close`."""
        await asyncio.to_thread(self._consumer.close, grace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
