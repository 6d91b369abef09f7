"""Queues seen from outside: what waits in each, what is in somebody's hands, for how long, and who is there.

Nobody is asked. What waits is counted in the queue topic, behind each queue's consumers; what is in flight follows from
the markers, by the tracker's own rules. So it can be seen also while no tracker and no consumer runs.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from windrow.errors import KafkaUnreachable
from windrow.kafka.clients import client_config, error_of, topic_partitions
from windrow.queue.control import paused
from windrow.queue.dead_letter import dead_letters
from windrow.queue.log import Entry, Progress, places_of, read_all
from windrow.queue.marker import MalformedMarker, decode, queue_of
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
    """What is known of each queue, as it is found."""

    def __init__(self) -> None:
        self.depth: Counter[str] = Counter()
        self.oldest: dict[str, int] = {}
        self.in_flight: Counter[str] = Counter()
        self.delayed: Counter[str] = Counter()
        self.redelivered: Counter[str] = Counter()
        self.dead_lettered: Counter[str] = Counter()

    def wait(self, queue: str, sent_at: int) -> None:
        self.depth[queue] += 1
        self.oldest[queue] = min(sent_at, self.oldest.get(queue, sent_at))

    def queues(self) -> set[str]:
        return {*self.depth, *self.in_flight, *self.delayed, *self.redelivered, *self.dead_lettered}


def overview(
    settings: QueueSettings, queues: Collection[str] | None = None, progress: Progress | None = None
) -> list[QueueFigures]:
    """How the queues of these names are, or all that there are, by name. A queue that nobody knows has zeros."""
    members = _members(settings)
    tally = _Tally()
    _count_held(settings, tally)
    _count_waiting(settings, tally, queues, members, progress)
    letters = Counter(letter.queue for letter in dead_letters(settings))
    stopped = paused(settings)
    known = set(queues) if queues is not None else tally.queues() | set(members) | stopped | set(letters)
    now = time.time()
    return [
        QueueFigures(
            queue=queue,
            depth=tally.depth[queue],
            in_flight=tally.in_flight[queue],
            delayed=tally.delayed[queue],
            oldest_age=max(0.0, now - tally.oldest[queue] * _MILLISECOND) if queue in tally.oldest else 0.0,
            redelivered=tally.redelivered[queue],
            dead_lettered=tally.dead_lettered[queue],
            dead_letters=letters[queue],
            consumers=members.get(queue, 0),
            paused=queue in stopped,
        )
        for queue in sorted(known)
    ]


def waiting(settings: QueueSettings, queue: str) -> Iterator[Entry]:
    """The messages that no consumer of the queue has taken yet, oldest first within a partition."""
    starts = _starts(settings, [queue])[queue]
    for record in read_all(settings, settings.message_topic, starts):
        if _queue(record) == queue:
            yield record


def _count_waiting(
    settings: QueueSettings,
    tally: _Tally,
    queues: Collection[str] | None,
    members: Collection[str],
    progress: Progress | None,
) -> None:
    """Named queues are looked for behind their consumers alone; unnamed ones in all of the topic."""
    starts = _starts(settings, members if queues is None else queues)
    partitions = range(topic_partitions(settings).get(settings.message_topic, 0))
    first = {
        each: 0 if queues is None else min((place.get(each, 0) for place in starts.values()), default=0)
        for each in partitions
    }
    places: defaultdict[str, dict[int, int]] = defaultdict(dict, starts)
    for record in read_all(settings, settings.message_topic, first, progress):
        queue = _queue(record)
        if queue and (queues is None or queue in starts) and _untaken(record, places[queue]):
            tally.wait(queue, record.timestamp)


def _untaken(record: Entry, places: dict[int, int]) -> bool:
    return record.offset >= places.get(record.partition, 0)


def _queue(record: Entry) -> str | None:
    key = record.key
    return queue_of(key, record.headers if key is None else None)


def _starts(settings: QueueSettings, queues: Collection[str]) -> dict[str, dict[int, int]]:
    """Where the consumers of each queue stand."""
    places = places_of(settings, map(settings.group, queues), settings.message_topic)
    return {queue: places.get(settings.group(queue), {}) for queue in queues}


def tracker_places(settings: QueueSettings) -> dict[int, int]:
    """How far the tracker has committed each partition of the markers."""
    return places_of(settings, [settings.tracker_group], settings.marker_topic).get(settings.tracker_group, {})


def _count_held(settings: QueueSettings, tally: _Tally) -> None:
    """Read the markers from where the tracker would."""
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
