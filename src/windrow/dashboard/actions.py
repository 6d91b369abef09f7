"""What the page can have done: the same calls that the commands make, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from windrow.errors import UserError
from windrow.publish.dead_letter import DeadLetters
from windrow.queue import control
from windrow.queue import dead_letter as queue_letters
from windrow.queue.settings import QueueSettings
from windrow.settings import Settings

Given: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Actions:
    """Actions on one relay and its queues; each says in a sentence what it did."""

    settings: Settings
    queues: QueueSettings

    def retry(self, given: Given) -> str:
        count = DeadLetters(self.settings).retry(_numbers(given))
        return f"{_letters(count)} released: the relay publishes {'it' if count == 1 else 'them'}"

    def discard(self, given: Given) -> str:
        return f"{_letters(DeadLetters(self.settings).discard(_numbers(given)))} discarded"

    def pause(self, given: Given) -> str:
        control.pause(self.queues, queue := _queue(given))
        return f"queue {queue} is paused"

    def resume(self, given: Given) -> str:
        control.resume(self.queues, queue := _queue(given))
        return f"queue {queue} goes on"

    def replay(self, given: Given) -> str:
        count = queue_letters.replay(self.queues, queue := _queue(given), _ids(given))
        return f"{_letters(count)} back in queue {queue}"

    def discard_of_queue(self, given: Given) -> str:
        count = queue_letters.discard(self.queues, queue := _queue(given), _ids(given))
        return f"{_letters(count)} of queue {queue} discarded"


ACTIONS: Final[Mapping[str, Callable[[Actions, Given], str]]] = {
    "/api/letters/retry": Actions.retry,
    "/api/letters/discard": Actions.discard,
    "/api/queues/pause": Actions.pause,
    "/api/queues/resume": Actions.resume,
    "/api/queues/replay": Actions.replay,
    "/api/queues/discard": Actions.discard_of_queue,
}


def _letters(count: int) -> str:
    return f"{count:,} dead {'letter' if count == 1 else 'letters'}"


def _numbers(given: Given) -> list[int] | None:
    """The chosen letters; None for all, which has to be said."""
    match given:
        case {"all": True}:
            return None
        case {"numbers": [_, *_] as numbers} if all(type(each) is int for each in numbers):
            return list(numbers)
    raise UserError('name dead letters: {"numbers": [1, 2]}, or {"all": true}')


def _ids(given: Given) -> list[str] | None:
    match given:
        case {"all": True}:
            return None
        case {"ids": [_, *_] as ids} if all(isinstance(each, str) for each in ids):
            return list(ids)
    raise UserError('name dead letters: {"ids": ["0-1"]}, or {"all": true}')


def _queue(given: Given) -> str:
    match given.get("queue"):
        case str(queue) if queue:
            return queue
    raise UserError('name the queue: {"queue": "emails"}')
