"""Queues seen from outside: what waits in each, what is in somebody's hands, for how long, and who is there.

Nobody is asked. What waits is counted in the queue topic, behind each queue's consumers; what is in flight follows from
the markers, by the tracker's own rules. So it can be seen also while no tracker and no consumer runs.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from windrow.errors import KafkaUnreachable
from windrow.kafka.clients import client_config, error_of, topic_partitions
from windrow.queue.control import paused
from windrow.queue.dead_letter import dead_letters
from windrow.queue.depth import Depths, places_in, queue_in
from windrow.queue.log import Entry, Progress, places_of, read_all
from windrow.queue.marker import MalformedMarker, decode
from windrow.queue.redelivery import NEVER, State
from windrow.queue.settings import QueueSettings

_ANSWER_WITHIN: Final = 10.0
_MILLISECOND: Final = 1e-3


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """How one queue is."""

    queue: str
    depth: int
    """Messages that no consumer has taken yet."""
    in_flight: int
    """Messages that consumers hold."""
    delayed: int
    """Messages that wait for their time: sent with a delay, or given back."""
    oldest_age: float
    """Seconds since the oldest message of `depth` was sent, by this machine's clock; 0 where there is none."""
    redelivered: int
    dead_lettered: int
    """How many were, since there are any."""
    dead_letters: int
    """Those that are neither replayed nor discarded."""
    consumers: int
    paused: bool


class _Tally:
    """What the markers tell of each queue."""

    def __init__(self) -> None:
        self.in_flight: Counter[str] = Counter()
        self.delayed: Counter[str] = Counter()
        self.redelivered: Counter[str] = Counter()
        self.dead_lettered: Counter[str] = Counter()

    def queues(self) -> set[str]:
        return {*self.in_flight, *self.delayed, *self.redelivered, *self.dead_lettered}


class Overview:
    """Of the queues of these names, or of all that there are, looked at again and again. Belongs to one thread."""

    def __init__(self, settings: QueueSettings, queues: Collection[str] | None = None) -> None:
        self._settings, self._queues = settings, queues
        self._depths = Depths(settings, queues)

    def look(self, progress: Progress | None = None) -> list[QueueFigures]:
        """How they are now, by name. One that nobody knows has zeros."""
        settings = self._settings
        members = _members(settings)
        held = _held(settings)
        waiting = self._depths.look(members, progress)
        letters = Counter(letter.queue for letter in dead_letters(settings))
        stopped = paused(settings)
        known = {*waiting, *held.queues(), *members, *stopped, *letters} if self._queues is None else self._queues
        now = time.time()
        return [
            QueueFigures(
                queue=queue,
                depth=waiting[queue].messages if queue in waiting else 0,
                in_flight=held.in_flight[queue],
                delayed=held.delayed[queue],
                oldest_age=max(0.0, now - waiting[queue].oldest * _MILLISECOND) if queue in waiting else 0.0,
                redelivered=held.redelivered[queue],
                dead_lettered=held.dead_lettered[queue],
                dead_letters=letters[queue],
                consumers=members.get(queue, 0),
                paused=queue in stopped,
            )
            for queue in sorted(set(known))
        ]


def overview(
    settings: QueueSettings, queues: Collection[str] | None = None, progress: Progress | None = None
) -> list[QueueFigures]:
    """How queues are, looked at once."""
    return Overview(settings, queues).look(progress)


def waiting(settings: QueueSettings, queue: str) -> Iterator[Entry]:
    """The messages that no consumer of the queue has taken yet, oldest first within a partition."""
    starts = places_in(settings, [queue])[queue]
    for record in read_all(settings, settings.message_topic, starts):
        if queue_in(record) == queue:
            yield record


def tracker_places(settings: QueueSettings) -> dict[int, int]:
    """How far the tracker has committed each partition of the markers."""
    return places_of(settings, [settings.tracker_group], settings.marker_topic).get(settings.tracker_group, {})


def _held(settings: QueueSettings) -> _Tally:
    """Read the markers from where the tracker would."""
    tally = _Tally()
    partitions = range(topic_partitions(settings).get(settings.marker_topic, 0))
    places = tracker_places(settings)
    states = {each: State(NEVER, NEVER) for each in partitions}
    for record in read_all(settings, settings.marker_topic, places):
        try:
            states[record.partition].apply(decode(record.value), record.offset, record.timestamp)
        except MalformedMarker:
            continue  # the tracker counts them
    for state in states.values():
        for part in state.held():
            (tally.delayed if part.over else tally.in_flight)[part.queue] += sum(map(len, part.ranges))
        for queue, (redelivered, dead_lettered) in state.counts.items():
            tally.redelivered[queue] += redelivered
            tally.dead_lettered[queue] += dead_lettered
    return tally


def _members(settings: QueueSettings) -> dict[str, int]:
    """How many consumers each queue has, of all queues that ever had one."""
    admin, prefix = AdminClient(client_config(settings)), settings.group("")
    try:
        listed = admin.list_consumer_groups(request_timeout=_ANSWER_WITHIN).result().valid
        names = [each.group_id for each in listed if each.group_id.startswith(prefix)]
        if not names:
            return {}
        described = admin.describe_consumer_groups(names, request_timeout=_ANSWER_WITHIN)
        found = {name: future.result() for name, future in described.items()}
    except KafkaException as exception:
        raise KafkaUnreachable(f"the groups could not be looked at: {error_of(exception).str()}") from exception
    return {
        name.removeprefix(prefix): len(each.members)
        for name, each in found.items()
        if each.state != ConsumerGroupState.DEAD
    }
