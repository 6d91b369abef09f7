"""What a consumer says of the messages that it holds: acknowledgements, returns, keep-alives. A thread of its own.

Words are gathered for some milliseconds and leave as few markers, by a plain idempotent producer, in the order in which
they were said. The broker's answer to each tells its time, and so whether it came before the message's deadline: what
came too late is told as lost.

Keep-alives go out long before the deadline, for messages in hand and in the buffer. For a message in hand they end
after max_processing_time, which does not count while it is in the buffer.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Producer

from windrow.errors import Interrupted, LeaseLost
from windrow.kafka.clients import client_config, error_of, own_exception
from windrow.kafka.contact import part_from, unheard
from windrow.queue.lease import NEVER, Hold, Part, Word, grouped, marker
from windrow.queue.marker import encode
from windrow.queue.marker_pb2 import Marker
from windrow.queue.settings import QueueSettings

log = logging.getLogger(__name__)

_GATHER: Final = 0.005
"""Seconds between two rounds while there is something to say."""
_IDLE: Final = 0.05
_LOOKS: Final = 50
"""How often holds are looked at within redelivery_timeout."""
_SLACK: Final = 0.1
_FLUSH_WITHIN: Final = 10.0
_TAKEN_WITHIN_MS: Final = 10_000


class Lost(NamedTuple):
    """A message whose lease ran out before its last word was said."""

    queue: str
    partition: int
    offset: int


LostHandler: TypeAlias = Callable[[Lost], object]
_Said: TypeAlias = list[tuple[Part, list[int]]]


class Keeper:
    """Holds the parts of leases until all their messages are over."""

    def __init__(self, settings: QueueSettings, queue: str, on_lease_lost: LostHandler | None = None) -> None:
        self.queue = queue
        self.limit = settings.max_processing_time.total_seconds()
        self.identity: Final = uuid4().bytes
        """The consumer, as its markers name it."""
        self.lost = 0
        """Messages whose lease ran out before their last word."""
        self._topic = settings.marker_topic
        self._timeout = settings.redelivery_timeout.total_seconds()
        self._timeout_ms = int(self._timeout * 1000)
        self._on_lease_lost = on_lease_lost
        self._parts: list[Part] = []
        self._lock = threading.Lock()
        self._look_at = 0.0
        self._waited_for = 0
        self._failing = self._unheard = False
        self._awake = threading.Event()
        self._ending = threading.Event()
        own = {
            "enable.idempotence": True,
            "linger.ms": 0,
            "queue.buffering.max.messages": 1_000_000,
            "message.timeout.ms": max(self._timeout_ms, _TAKEN_WITHIN_MS),  # no lease lasts longer
        }
        self._config = client_config(settings, own)
        self._producer = Producer(self._config)
        self._thread = threading.Thread(target=self._run, name=f"windrow-queue-keeper-{queue}", daemon=True)
        self._thread.start()

    @property
    def parts(self) -> list[Part]:
        """All that is held; the list is never changed, but replaced."""
        return self._parts

    def add(self, parts: Sequence[Part]) -> None:
        """Hold these from now on; their start markers are committed."""
        with self._lock:
            self._parts = [*self._parts, *parts]

    def wake(self) -> None:
        self._awake.set()

    def give_back(self, part: Part, offsets: Iterable[int]) -> None:
        """Have messages redelivered at once that nobody has begun with."""
        part.words += [Word(Marker.RETURN, offset, unstarted=True) for offset in offsets]
        self.wake()

    def close(self) -> None:
        """Say what is left to say, and end."""
        self._ending.set()
        self.wake()
        self._thread.join()

    def _run(self) -> None:
        pause = _IDLE
        while not self._ending.is_set():
            if self._waited_for:
                self._producer.poll(_GATHER)
            elif self._awake.wait(pause):
                self._awake.clear()
            pause = _GATHER if self._round() else min(_IDLE, pause * 2)
        self._round()
        if self._producer.flush(_FLUSH_WITHIN):
            self._producer.purge()
            self._producer.poll(0)
        part_from(self._producer, within=0.0)

    def _round(self) -> bool:
        """Say what there is to say; whether there was anything."""
        said = False
        try:
            said = self._say_words()
            now = monotonic()
            if now >= self._look_at:
                self._look_at = now + self._timeout / _LOOKS
                for part in self._parts:
                    self._keep_alive(part, now)
                self._forget(now)
            self._producer.poll(0)
            if self._unheard:
                self._begin_anew()
        except (KafkaException, SystemError) as raised:
            error = error_of(own_exception(raised))
            log.warning("queue %s: markers could not be sent: %s", self.queue, error.str())
            self._begin_anew()
        return said

    def _begin_anew(self) -> None:
        """With another producer: this one may have lost Kafka for good. What it has not sent is not sent."""
        lost, self._producer = self._producer, Producer(self._config)
        lost.purge()
        lost.poll(0)
        self._unheard = False
        part_from(lost, within=0.0)

    def _say_words(self) -> bool:
        ends: dict[int, _Said] = {}
        others: list[tuple[Part, list[Word]]] = []
        for part in self._parts:
            if part.acks:
                ends.setdefault(part.marker_partition, []).append((part, part.take_acks()))
            if part.words:
                others.append((part, part.take_words()))
        for partition, said in ends.items():
            self._send(partition, said, [Word(Marker.END)])
        for part, words in others:
            for group in grouped(words):
                self._send(part.marker_partition, [(part, [each.offset for each in group])], group)
        return bool(ends or others)

    def _send(self, partition: int, said: _Said, words: Sequence[Word]) -> None:
        """One marker that says one thing of many messages."""
        spans = [part.span(offsets) for part, offsets in said]
        content = encode(marker(self.queue, self.identity, spans, words[0]))
        if words[0].type == Marker.KEEP_ALIVE:
            answered: Any = partial(self._kept, said, words[0].after_ms, monotonic())
        else:
            self._waited_for += any(each.answer for each in words)
            answered = partial(self._heard, said, words)
            for part, offsets in said:
                part.end(offsets)
        while True:
            try:
                self._producer.produce(self._topic, content, partition=partition, on_delivery=answered)
            except BufferError:
                self._producer.poll(_GATHER)
            except (KafkaException, SystemError) as raised:
                answered(error_of(own_exception(raised)), None)
                raise
            else:
                return

    def _keep_alive(self, part: Part, now: float) -> None:
        part.look(now)
        due = [offset for offset, hold in [*part.apart.items()] if hold.due(now, self._timeout)]
        if not due and not part.hold.due(now, self._timeout):
            return
        open_ = part.open()
        for offset in set(due).intersection(open_):
            self._renew(part, part.apart[offset], [offset])
        if part.hold.due(now, self._timeout):
            for offset in set(part.begun_before(now - self.limit)).intersection(open_) - part.apart.keys():
                part.apart[offset] = part.hold.apart(until=0.0)
            self._renew(part, part.hold, [offset for offset in open_ if offset not in part.apart])

    def _renew(self, part: Part, hold: Hold, offsets: list[int]) -> None:
        if offsets:
            hold.asking = True
            self._send(part.marker_partition, [(part, offsets)], [Word(Marker.KEEP_ALIVE, after_ms=self._timeout_ms)])

    def _kept(self, said: _Said, after_ms: int, sent: float, error: KafkaError | None, answer: Any) -> None:
        """A keep-alive was answered."""
        self._log_once(error)
        for part, offsets in said:
            for hold in {part.hold_of(each) for each in offsets}:
                hold.asking = False
                if error is None:
                    hold.confirm(answer.timestamp()[1], sent, monotonic(), after_ms)

    def _heard(self, said: _Said, words: Sequence[Word], error: KafkaError | None, answer: Any) -> None:
        """Last words on messages were answered: were they in time?"""
        self._log_once(error)
        stamp = NEVER if error else answer.timestamp()[1]
        late = 0
        for part, offsets in said:
            if stamp > part.hold.deadline or part.apart:
                lost = [each for each in offsets if stamp > part.hold_of(each).deadline]
                late += len(lost)
                self._tell_lost(part, lost)
        answers = [each.answer for each in words if each.answer]
        self._waited_for -= bool(answers)
        for each in answers:
            if error:
                each.set_exception(Interrupted(f"Kafka did not take the acknowledgement: {error.str()}"))
            elif late:
                each.set_exception(
                    LeaseLost(f"queue {self.queue}: the acknowledgement came too late, the message goes to another")
                )
            else:
                each.set_result(None)

    def _log_once(self, error: KafkaError | None) -> None:
        if error and not self._failing:
            log.warning("queue %s: Kafka does not take markers: %s; leases may run out", self.queue, error.str())
        self._failing = error is not None
        self._unheard = self._unheard or unheard(error)

    def _forget(self, now: float) -> None:
        """Let go of parts all of whose messages are over, or lost."""
        gone = set[int]()
        for part in self._parts:
            if alone := [offset for offset, hold in part.apart.items() if now > hold.lost_at + _SLACK]:
                lost = [*set(alone).intersection(part.open())]
                part.end(lost)
                self._tell_lost(part, lost)
            if part.left <= 0:
                gone.add(id(part))
            elif now > max(hold.lost_at for hold in (part.hold, *part.apart.values())) + _SLACK:
                gone.add(id(part))
                self._tell_lost(part, part.open())
        if gone:
            with self._lock:
                self._parts = [part for part in self._parts if id(part) not in gone]

    def _tell_lost(self, part: Part, offsets: Sequence[int]) -> None:
        if not offsets:
            return
        self.lost += len(offsets)
        log.warning(
            "queue %s: the leases of %d messages ran out, from [%d] %d on; they go to others",
            *(self.queue, len(offsets), part.partition, offsets[0]),
        )
        if self._on_lease_lost:
            for offset in offsets:
                self._tell_handler(self._on_lease_lost, Lost(self.queue, part.partition, offset))

    def _tell_handler(self, handler: LostHandler, lost: Lost) -> None:
        try:
            handler(lost)
        except Exception:  # of the others it is told all the same
            log.exception("queue %s: on_lease_lost failed", self.queue)
