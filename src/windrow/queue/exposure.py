"""What a tracker's process shows: how each queue is, and how far the tracker has read. Looked at now and then.

The first look reads the topics, as `windrow queue list` does, later ones what has come since. That is done for no more
than a part of the time, by a thread of its own, and what is shown is what was last seen.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from confluent_kafka import KafkaException

from windrow.beside import Beside
from windrow.election.led import State
from windrow.errors import WindrowError
from windrow.observe.metrics import Sample
from windrow.observe.routes import watch_routes
from windrow.observe.server import Server
from windrow.parse import Address
from windrow.queue.log import extents
from windrow.queue.overview import Overview, QueueFigures, tracker_places
from windrow.queue.settings import QueueSettings
from windrow.queue.tracker import Tracker

log = logging.getLogger(__name__)

_LOOK_EVERY: Final = 5.0
_LEISURE: Final = 10
"""Rest so many times as long as looking took."""
_END_WITHIN: Final = 2.0


def samples_of_queues(
    settings: QueueSettings, queues: Sequence[QueueFigures], lag: Mapping[int, int]
) -> Iterator[Sample]:
    """Of all queues, and of the tracker's progress by partition."""
    topic = settings.message_topic
    for each in queues:
        me = (topic, each.queue)
        yield Sample("windrow_queue_depth_messages", me, each.depth)
        yield Sample("windrow_queue_in_flight_messages", me, each.in_flight)
        yield Sample("windrow_queue_delayed_messages", me, each.delayed)
        yield Sample("windrow_queue_oldest_age_seconds", me, each.oldest_age)
        yield Sample("windrow_queue_redelivered_total", me, each.redelivered)
        yield Sample("windrow_queue_dead_lettered_total", me, each.dead_lettered)
        yield Sample("windrow_queue_dead_letters", me, each.dead_letters)
        yield Sample("windrow_queue_consumers", me, each.consumers)
        yield Sample("windrow_queue_paused", me, each.paused)
    for partition, markers in lag.items():
        yield Sample("windrow_tracker_lag_markers", (topic, str(partition)), markers)


def tracker_lag(settings: QueueSettings) -> dict[int, int]:
    """Markers behind the tracker's committed offset, by partition."""
    places = tracker_places(settings)
    there = extents(settings, settings.marker_topic)
    return {each: run.stop - max(run.start, places.get(each, 0)) for each, run in there.items()}


class _Look:
    """What was last seen of the queues."""

    def __init__(self, settings: QueueSettings) -> None:
        self._settings, self._overview = settings, Overview(settings)
        self.queues: Sequence[QueueFigures] = ()
        self.lag: Mapping[int, int] = {}

    def run(self, wait: Callable[[float], bool]) -> None:
        rest = 0.0
        while not wait(rest):
            began = time.monotonic()
            try:
                self.queues, self.lag = self._overview.look(), tracker_lag(self._settings)
            except (WindrowError, KafkaException) as error:
                log.warning("tracker of %s: figures are missing: %s", self._settings.message_topic, error)
            rest = max(_LOOK_EVERY, _LEISURE * (time.monotonic() - began))


@contextmanager
def exposed(tracker: Tracker, address: Address) -> Iterator[Server]:
    """Meanwhile, show the tracker and its queues at an address."""
    look, over = _Look(tracker.settings), threading.Event()

    def samples() -> Iterator[Sample]:
        yield Sample("windrow_tracker_leader", (tracker.settings.message_topic,), tracker.is_leader)
        yield from samples_of_queues(tracker.settings, look.queues, look.lag)

    with (
        Server(address, watch_routes(samples, lambda: tracker.state is not State.STOPPED)) as server,
        Beside("watch of queues", partial(look.run, over.wait), over=over, end_within=_END_WITHIN),
    ):
        yield server
