"""What becomes of a due message: a copy for another delivery, or a dead letter. Pure.

Invariant: a copy has its message's key, value and headers; only the count of attempts, when it was first sent and, of a
dead letter, the reason and the time are added.
"""

from typing import Final, NamedTuple

from windrow.queue.marker import Headers, number_of
from windrow.queue.redelivery import Due
from windrow.queued import ATTEMPT, DEAD_LETTER_REASON, DEAD_LETTER_TIME, MAX_ATTEMPTS, SENT, TTL

_OURS: Final = frozenset({ATTEMPT, SENT, DEAD_LETTER_REASON, DEAD_LETTER_TIME})


class Payload(NamedTuple):
    """A message as it was found."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    """When the broker took it, in milliseconds."""

    @property
    def size(self) -> int:
        return len(self.key or b"") + len(self.value or b"") + sum(len(value or b"") for _, value in self.headers)


class Copy(NamedTuple):
    """What is to be written."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]
    dead: bool
    """Whether for the dead letters."""


def copy_of(due: Due, payload: Payload, now: int, max_attempts: int, refusal: str | None = None) -> Copy:
    """The copy of a due message; with a refusal, which says why Kafka does not take it for the queue."""
    attempt = number_of(payload.headers, ATTEMPT) or 1
    sent = number_of(payload.headers, SENT)
    sent = payload.timestamp if sent is None else sent
    reason = refusal or _end(due, payload, attempt, now - sent, max_attempts)
    attempt += not (due.unstarted or reason)
    headers: list[tuple[str, str | bytes | None]] = [each for each in payload.headers if each[0] not in _OURS]
    headers += [(ATTEMPT, str(attempt)), (SENT, str(sent))]
    if reason:
        headers += [(DEAD_LETTER_REASON, reason), (DEAD_LETTER_TIME, str(now))]
    return Copy(payload.key, payload.value, headers, bool(reason))


def _end(due: Due, payload: Payload, attempt: int, age: int, max_attempts: int) -> str | None:
    """Why the message is delivered no more; None where it is."""
    if due.rejected is not None:
        return due.rejected or "rejected"
    ttl = number_of(payload.headers, TTL)
    if ttl is not None and age > ttl:
        return f"not handled in its time to live, {ttl} ms"
    most = number_of(payload.headers, MAX_ATTEMPTS) or max_attempts
    return None if due.unstarted or attempt < most else f"not acknowledged in {attempt} attempts"
