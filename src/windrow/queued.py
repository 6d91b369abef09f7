"""A message for a queue, as what a queue topic holds: whose it is, how often and how long it may be tried.

A record of a queue topic belongs to the queue that its key names; where it has no key, to the one that `x-queue` names.
Records that a relay publishes have none, so that Kafka spreads them. Needs the standard library alone.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from windrow.errors import MessageInvalid
from windrow.message import Bytes, Headers, Message

QUEUE_TOPIC: Final = "windrow.queue"
"""The queue topic where nothing else is said."""
QUEUE: Final = "x-queue"
ATTEMPT: Final = "x-attempt"
"""Which delivery this is, from 1; without it the first."""
MAX_ATTEMPTS: Final = "x-max-attempts"
TTL: Final = "x-ttl-ms"
"""How long the message is of use, counted from when it was first sent."""
SENT: Final = "x-sent-ms"
"""When it was first sent, by the broker's clock; only copies have it."""
DEAD_LETTER_REASON: Final = "x-dead-letter-reason"
DEAD_LETTER_TIME: Final = "x-dead-letter-time"
OURS: Final = frozenset({QUEUE, ATTEMPT, MAX_ATTEMPTS, TTL, SENT, DEAD_LETTER_REASON, DEAD_LETTER_TIME})
"""Headers that say something to windrow, and nothing to a handler."""

_LONGEST_NAME: Final = 200


def queue_message(  # noqa: PLR0913 - as many as such a message has parts
    queue: str,
    payload: Bytes,
    headers: Headers = (),
    *,
    ttl: timedelta | None = None,
    max_attempts: int | None = None,
    topic: str = QUEUE_TOPIC,
) -> Message:
    """A message for a queue, to be written to an outbox."""
    name = queue_name(queue).encode()
    return Message(topic, payload, None, [(QUEUE, name), *limits(ttl, max_attempts), *pairs(headers)])


def queue_name(queue: object) -> str:
    """The name, if a queue can have it."""
    if not isinstance(queue, str) or not 1 <= len(queue) <= _LONGEST_NAME or "\0" in queue:
        raise MessageInvalid(f"queue {str(queue)[:50]!r}: give a name of 1 to {_LONGEST_NAME} characters")
    try:
        queue.encode()
    except UnicodeEncodeError:
        raise MessageInvalid(f"queue {queue!r}: the name has no UTF-8 form") from None
    return queue


def limits(ttl: timedelta | None, max_attempts: int | None) -> list[tuple[str, Bytes]]:
    """The headers that bound a message's life."""
    found: list[tuple[str, Bytes]] = []
    if ttl is not None:
        found.append((TTL, str(milliseconds("ttl", ttl))))
    if max_attempts is not None:
        if type(max_attempts) is not int or max_attempts < 1:
            raise MessageInvalid(f"max_attempts {max_attempts!r}: give a whole number from 1, or None")
        found.append((MAX_ATTEMPTS, str(max_attempts)))
    return found


def milliseconds(name: str, time: timedelta) -> int:
    """A time that is to pass, in whole milliseconds."""
    if time < timedelta():
        raise MessageInvalid(f"{name} {time}: give a time that is not negative")
    return -(-time // timedelta(milliseconds=1))


def pairs(headers: Headers) -> list[tuple[str, Bytes]]:
    """The headers in their order, none of which is windrow's own."""
    found = list(headers.items() if isinstance(headers, Mapping) else headers)
    for name, _ in found:
        if name in OURS:
            raise MessageInvalid(f"header {name}: windrow sets it by itself; give it another name")
    return found
