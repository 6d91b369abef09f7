"""What the tracker does: how late it redelivers, how much it can follow, how soon it is back after a restart.

It runs as a command of its own, on a Spark of its own, as it does in earnest. Times are the broker's: deadlines follow
from the markers' timestamps, and a copy's timestamp says when it was redelivered.
"""

import multiprocessing
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Final

from windrow.bench.queue_rates import payload, topics
from windrow.errors import EnvironmentUnfit
from windrow.queue.consumer import QueueConsumer
from windrow.queue.log import Entry, read_all
from windrow.queue.marker import decode, number_of, queue_of
from windrow.queue.marker_pb2 import Marker
from windrow.queue.producer import QueueProducer
from windrow.queue.redelivery import NEVER, State
from windrow.queue.runs import unpack
from windrow.queue.settings import QueueSettings
from windrow.queued import ATTEMPT

_SHORT: Final = timedelta(seconds=3)
_LONG: Final = timedelta(minutes=10)
_WITHIN: Final = 120.0
_QUEUES: Final = ("first", "due", "due later", "busy")
_FIRST, _DUE, _DUE_LATER, _BUSY = _QUEUES
_FEW: Final = 10
_LOOK_EVERY: Final = 0.1
_WATCH: Final = 5.0
"""Seconds that one waits for redeliveries that ought not to come."""


@dataclass(frozen=True, slots=True)
class Tracked:
    """What the tracker did."""

    late_p99_ms: float
    restart_s: float
    spurious: int
    wrong_queue: int


def measure_tracker(kafka: QueueSettings, expiring: int, in_flight: int, say: Callable[[str], None]) -> Tracked:
    settings = topics(
        kafka, partitions=1, redelivery_timeout=_SHORT, consumer_receive_buffer_capacity=max(expiring, in_flight)
    )
    with _tracker(settings):
        say(f"{expiring:,} messages of a consumer that is killed …")
        _warm_up(settings)
        _taken_and_dropped(settings, _DUE, expiring)
        late = _lateness(settings, expiring)
    late_p99 = sorted(late)[int(len(late) * 0.99)]
    say(f"  redelivered {late_p99:,.0f} ms after the deadline (p99)")
    say(f"the tracker starts again, {in_flight:,} messages in flight …")
    held = replace(settings, redelivery_timeout=_LONG)
    with _taking(held, _BUSY, in_flight):
        _taken_and_dropped(settings, _DUE_LATER, _FEW)
        # Whoever looks for the copy reads what is new alone: the tracker is not to share the machine with more.
        ends = {each.partition: each.offset + 1 for each in read_all(settings, settings.message_topic)}
        time.sleep(_SHORT.total_seconds())
        began_at = time.monotonic()
        with _tracker(settings):
            _wait_for(lambda: bool(_copies(settings, ends)), "a message that was due was not redelivered")
            restart = time.monotonic() - began_at
            say(f"  first due redelivery after {restart:.1f} s")
            time.sleep(_WATCH)
    redelivered = Counter((queue_of(each.key, None) or "", each.value) for each in _copies(settings))
    return Tracked(
        late_p99_ms=late_p99,
        restart_s=restart,
        spurious=sum(count if queue == _BUSY else count - 1 for (queue, _), count in redelivered.items()),
        wrong_queue=sum(queue not in _QUEUES for queue, _ in redelivered),
    )


def followed(settings: QueueSettings, messages: int) -> float:
    """Messages/s whose beginning and end one task can follow, reading included, from markers that consumers wrote."""
    began_at = time.perf_counter()
    states: dict[int, State] = {}
    for entry in read_all(settings, settings.marker_topic):
        state = states.setdefault(entry.partition, State(NEVER, NEVER))
        state.apply(decode(entry.value), entry.offset, entry.timestamp)
    if left := sum(len(run) for state in states.values() for part in state.held() for run in part.ranges):
        raise EnvironmentUnfit(f"{left:,} messages were not acknowledged; the figure would mean nothing")
    return messages / (time.perf_counter() - began_at)


@contextmanager
def _tracker(settings: QueueSettings) -> Iterator[None]:
    command = [sys.executable, "-m", "windrow", "queue", "tracker", "--message-topic", settings.message_topic]
    servers = settings.base_kafka_config["bootstrap.servers"]
    with subprocess.Popen([*command, "--bootstrap-servers", servers], stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _warm_up(settings: QueueSettings) -> None:
    """One message of a consumer that was killed: once that is back, the tracker is at work."""
    _taken_and_dropped(settings, _FIRST, 1)
    _wait_for(lambda: bool(_copies(settings)), "the tracker did not begin")


def _taken_and_dropped(settings: QueueSettings, queue: str, messages: int) -> None:
    with _taking(settings, queue, messages):
        pass


@contextmanager
def _taking(settings: QueueSettings, queue: str, messages: int) -> Iterator[None]:
    """Messages in the hands of a consumer, which is killed at the end."""
    with QueueProducer(settings) as producer:
        producer.send_many(queue, map(payload, range(messages)))
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_take, args=(settings, queue, messages, there), daemon=True)
    process.start()
    try:
        if not here.poll(_WITHIN):
            raise EnvironmentUnfit(f"{messages:,} messages did not come within {_WITHIN:.0f} s")
        yield
    finally:
        process.kill()
        process.join()


def _take(settings: QueueSettings, queue: str, messages: int, told: Connection) -> None:
    with QueueConsumer(settings, queue) as consumer:
        held = [consumer.receive() for _ in range(messages)]
        told.send(len(held))
        time.sleep(_WITHIN)


def _lateness(settings: QueueSettings, messages: int) -> list[float]:
    """Milliseconds between each deadline and the copy."""
    _wait_for(lambda: len(_copies(settings)) > messages, "not all messages were redelivered")
    deadlines: dict[tuple[int, int], int] = {}
    for entry in read_all(settings, settings.marker_topic):
        marker = decode(entry.value)
        if marker.type in {Marker.START, Marker.KEEP_ALIVE}:
            for span in marker.spans:
                for offset in unpack(span.offset, span.runs):
                    deadlines[span.partition, offset] = entry.timestamp + marker.redeliver_after_ms
    entries = list(read_all(settings, settings.message_topic))
    due = [each for each in entries if each.key == _DUE.encode()]
    originals = {each.value: deadlines[each.partition, each.offset] for each in due if not _is_copy(each)}
    return [float(each.timestamp - originals[each.value]) for each in due if _is_copy(each)]


def _copies(settings: QueueSettings, starts: Mapping[int, int] | None = None) -> list[Entry]:
    return [each for each in read_all(settings, settings.message_topic, starts) if _is_copy(each)]


def _is_copy(entry: Entry) -> bool:
    return (number_of(entry.headers, ATTEMPT) or 1) > 1


def _wait_for(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _WITHIN
    while not condition():
        if time.monotonic() > deadline:
            raise EnvironmentUnfit(f"{otherwise} within {_WITHIN:.0f} s; look at the broker's log")
        time.sleep(_LOOK_EVERY)
