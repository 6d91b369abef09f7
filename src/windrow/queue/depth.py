"""What waits in queues: messages that no consumer has taken yet, kept from one look to the next.

Invariant: each message is read once, however often one looks, and forgotten once it is taken. To look again costs what
has come since, not what is there. Where a group's place or the topic's end has moved back, all is read anew.
"""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from windrow.queue.log import Entry, Progress, extents, places_of, read_all
from windrow.queue.marker import queue_of
from windrow.queue.settings import QueueSettings

Places = Mapping[int, int]
"""Offsets behind what was taken, by partition."""


class Waiting(NamedTuple):
    """Of one queue."""

    messages: int
    oldest: int
    """When the first of them was sent, in milliseconds by the broker's clock."""


class _Line:
    """The messages of a queue in a partition: a number of bytes each, not an object."""

    __slots__ = ("_offsets", "_sent")

    def __init__(self) -> None:
        self._offsets, self._sent = array("q"), array("q")

    def join(self, offset: int, sent: int) -> None:
        self._offsets.append(offset)
        self._sent.append(sent)

    def go_on(self, place: int) -> Waiting | None:
        """What still waits behind a place; None where that is nothing."""
        gone = bisect_left(self._offsets, place)
        del self._offsets[:gone], self._sent[:gone]
        return Waiting(len(self._offsets), self._sent[0]) if self._offsets else None


class Depths:
    """Of the queues of these names, or of all that there are. Belongs to one thread."""

    def __init__(self, settings: QueueSettings, queues: Collection[str] | None = None) -> None:
        self._settings, self._queues = settings, queues
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._next: dict[int, int] = {}
        self._places: dict[str, Places] = {}
        self._lines: defaultdict[str, defaultdict[int, _Line]] = defaultdict(lambda: defaultdict(_Line))

    def look(self, consumed: Collection[str], progress: Progress | None = None) -> dict[str, Waiting]:
        """What waits now in each queue that has something; `consumed` are those that have ever had a consumer."""
        topic = self._settings.message_topic
        there = extents(self._settings, topic)
        places = places_in(self._settings, consumed if self._queues is None else self._queues)
        shrunk = any(there.get(each, range(0)).stop < end for each, end in self._next.items())
        if shrunk or _moved_back(self._places, places):
            self._begin_anew()
        self._places = places
        if not self._next and self._queues is not None:  # named ones are looked for behind their consumers alone
            self._next = {each: min(place.get(each, 0) for place in places.values()) for each in there if places}
        for record in read_all(self._settings, topic, self._next, progress):
            self._next[record.partition] = record.offset + 1
            self._note(record)
        return dict(self._count(there))

    def _note(self, record: Entry) -> None:
        queue = queue_in(record)
        if queue and (self._queues is None or queue in self._queues):
            place = self._places.get(queue, {}).get(record.partition, 0)
            if record.offset >= place:
                self._lines[queue][record.partition].join(record.offset, record.timestamp)

    def _count(self, there: Mapping[int, range]) -> Iterator[tuple[str, Waiting]]:
        for queue, lines in self._lines.items():
            taken = self._places.get(queue, {})
            found = [line.go_on(max(taken.get(each, 0), there[each].start)) for each, line in lines.items()]
            if waiting := [each for each in found if each]:
                yield queue, Waiting(sum(each.messages for each in waiting), min(each.oldest for each in waiting))


def queue_in(record: Entry) -> str | None:
    """Whose message it is."""
    key = record.key
    return queue_of(key, record.headers if key is None else None)


def places_in(settings: QueueSettings, queues: Collection[str]) -> dict[str, Places]:
    """Where the consumers of each queue stand."""
    places = places_of(settings, [*map(settings.group, queues)], settings.message_topic)
    return {queue: places.get(settings.group(queue), {}) for queue in queues}


def _moved_back(before: Mapping[str, Places], now: Mapping[str, Places]) -> bool:
    """Whether somebody is to get again what was taken."""
    return any(
        now.get(queue, {}).get(partition, 0) < place
        for queue, places in before.items()
        for partition, place in places.items()
    )
