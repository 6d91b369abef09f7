"""Dead letters of queues: look at them, send them back to their queues, or let go of them.

The dead-letter topic keeps what was put there; the control topic's second partition says which letters are done with.
Sending one back and saying so is one transaction, and whoever opens one fences those before it: a letter comes back
once, also where two people replay at a time, or a replay breaks off.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException, Producer

from windrow.errors import Interrupted, UserError
from windrow.kafka.clients import client_config, error_of, own_exception
from windrow.queue.log import read_all
from windrow.queue.marker import number_of, queue_of
from windrow.queue.settings import QueueSettings
from windrow.queued import ATTEMPT, DEAD_LETTER_REASON, DEAD_LETTER_TIME, SENT

DONE_PARTITION: Final = 1
"""Of the control topic; the first says which queues are paused."""
_AT_ONCE: Final = 500
_ANSWER_WITHIN: Final = 30.0
_FRESH: Final = frozenset({ATTEMPT, SENT, DEAD_LETTER_REASON, DEAD_LETTER_TIME})
"""Headers that a message sent back begins without."""


@dataclass(frozen=True, slots=True)
class QueueLetter:
    """A message that will not be delivered any more, and why."""

    id: str
    """Its place in the dead-letter topic, as `partition-offset`."""
    queue: str
    reason: str
    attempts: int
    died_at: int
    """In milliseconds, by the broker's clock."""
    key: bytes | None
    payload: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def dead_letters(settings: QueueSettings, queue: str | None = None) -> Iterator[QueueLetter]:
    """The letters of one queue, or of all, that are neither replayed nor discarded; oldest first in each partition."""
    done = _done(settings)
    for record in read_all(settings, settings.dead_letter_topic):
        headers = record.headers
        whose = queue_of(record.key, headers) or ""
        number = f"{record.partition}-{record.offset}"
        if number not in done and queue in {None, whose}:
            reason = next((value for name, value in headers if name == DEAD_LETTER_REASON), b"") or b""
            yield QueueLetter(
                id=number,
                queue=whose,
                reason=reason.decode(errors="replace"),
                attempts=number_of(headers, ATTEMPT) or 1,
                died_at=record.timestamp,
                key=record.key,
                payload=record.value,
                headers=tuple(headers),
            )


def replay(
    settings: QueueSettings,
    queue: str,
    ids: Collection[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Send letters of a queue back to it, with their attempts counted from one; returns how many."""
    return _settle(settings, queue, ids, progress, send_back=True)


def discard(
    settings: QueueSettings,
    queue: str,
    ids: Collection[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Let go of letters of a queue; returns how many."""
    return _settle(settings, queue, ids, progress, send_back=False)


def _settle(
    settings: QueueSettings,
    queue: str,
    ids: Collection[str] | None,
    progress: Callable[[int], None] | None,
    *,
    send_back: bool,
) -> int:
    own = {"transactional.id": f"windrow-replay-{settings.message_topic}", "partitioner": "random"}
    producer = Producer(client_config(settings, own))
    try:
        producer.init_transactions(_ANSWER_WITHIN)
        chosen = [each for each in dead_letters(settings, queue) if ids is None or each.id in ids]
        if ids is not None and (missing := set(ids) - {each.id for each in chosen}):
            raise UserError(
                f"queue {queue} has no dead letter {', '.join(sorted(missing))}:"
                ' "windrow queue dead-letters" shows which there are'
            )
        for start in range(0, len(chosen), _AT_ONCE):
            part = chosen[start : start + _AT_ONCE]
            producer.begin_transaction()
            for letter in part:
                if send_back:
                    headers: list[tuple[str, str | bytes | None]] = [
                        (name, value) for name, value in letter.headers if name not in _FRESH
                    ]
                    producer.produce(settings.message_topic, letter.payload, letter.key, headers=headers)
                word = b"replayed" if send_back else b"discarded"
                producer.produce(settings.control_topic, word, letter.id.encode(), partition=DONE_PARTITION)
            producer.commit_transaction(_ANSWER_WITHIN)
            if progress:
                progress(start + len(part))
    except (KafkaException, SystemError) as raised:
        exception = own_exception(raised)
        what = "replayed" if send_back else "discarded"
        raise Interrupted(
            f"queue {queue}: not all letters were {what}: {error_of(exception).str()}; those that were are done with:"
            " run it again"
        ) from exception
    return len(chosen)


def _done(settings: QueueSettings) -> set[str]:
    return {
        key.decode(errors="replace")
        for record in read_all(settings, settings.control_topic)
        if record.partition == DONE_PARTITION and (key := record.key)
    }
