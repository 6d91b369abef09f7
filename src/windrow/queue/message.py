"""A message in a handler's hands: what it says, and what its handler says of it.

Invariant: the first of `ack`, `nack` and `reject` counts, later ones do nothing. Each raises LeaseLost where this
process already knows that the message is another's; what the broker's clock says later, the consumer tells.
"""

from concurrent.futures import Future
from datetime import timedelta
from time import monotonic
from typing import NoReturn

from windrow.errors import LeaseLost
from windrow.queue.lease import Headers, Part, Word
from windrow.queue.marker import number_of
from windrow.queue.marker_pb2 import Marker
from windrow.queued import ATTEMPT, OURS, milliseconds


class QueueMessage:
    """One delivery of a message. A message is one thread's at a time."""

    __slots__ = ("_headers", "_over", "_part", "offset", "payload")

    def __init__(self, part: Part, offset: int, payload: bytes | None, headers: Headers) -> None:
        self._part = part
        self._headers = headers
        self._over = False
        self.offset = offset
        """Its place in its partition of the queue topic."""
        self.payload = payload

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The sender's headers, in their order."""
        return [(name, value) for name, value in self._headers or () if name not in OURS]

    @property
    def attempt(self) -> int:
        """Which delivery this is, from 1."""
        return number_of(self._headers, ATTEMPT) or 1

    @property
    def queue(self) -> str:
        return self._part.holder.queue

    @property
    def partition(self) -> int:
        """The partition of the queue topic."""
        return self._part.partition

    def ack(self, *, wait: bool = False) -> None:
        """The message is done. With `wait`, return when Kafka has it, in time; otherwise raise LeaseLost."""
        if wait:
            self.ack_later().result()
        elif not self._over:
            part = self._part
            if monotonic() > (part.hold_of(self.offset) if part.apart else part.hold).lost_at:
                self._lost()
            self._over = True
            part.acks.append(self.offset)

    def ack_later(self) -> "Future[None]":
        """As `ack`, and the future tells when Kafka has it, or raises LeaseLost. For asyncio: `asyncio.wrap_future`."""
        answer: Future[None] = Future()
        if not self._say(Word(Marker.END, self.offset, answer=answer)):
            answer.set_result(None)
        return answer

    def nack(self, *, delay: timedelta = timedelta()) -> None:
        """The message is to be delivered again, after the delay at the earliest."""
        self._say(Word(Marker.RETURN, self.offset, milliseconds("delay", delay)))

    def reject(self, reason: str = "rejected") -> None:
        """The message is never to be delivered again: it becomes a dead letter, with the reason."""
        self._say(Word(Marker.REJECT, self.offset, reason=reason))

    def extend(self, time: timedelta) -> None:
        """Hold the message for this long from now, whatever becomes of this process, past max_processing_time too."""
        if self._over:
            return
        after, now, held = milliseconds("time", time), monotonic(), self._part.hold_of(self.offset)
        if now > held.lost_at:
            self._lost()
        own = held.apart(until=now + max(after / 1000, self._part.holder.limit))
        own.asking = True
        self._part.apart[self.offset] = own
        self._part.words.append(Word(Marker.KEEP_ALIVE, self.offset, after))
        self._part.holder.wake()

    def _say(self, word: Word) -> bool:
        """Say the last word; False where one was said before."""
        if self._over:
            return False
        if monotonic() > self._part.hold_of(self.offset).lost_at:
            self._lost()
        self._over = True
        self._part.words.append(word)
        self._part.holder.wake()
        return True

    def _lost(self) -> NoReturn:
        raise LeaseLost(
            f"queue {self.queue}: the message at [{self.partition}] {self.offset} was held for too long and goes to"
            " another; give handlers a longer redeliveryTimeout or maxProcessingTime, or extend() the message"
        )

    def __repr__(self) -> str:
        return f"<QueueMessage {self.queue} [{self.partition}] {self.offset} attempt {self.attempt}>"
