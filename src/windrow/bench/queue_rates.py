"""How many messages one consumer process receives and acknowledges, against other ways on the same broker, in turns;
and what that costs in the markers topic.
"""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final
from uuid import uuid4

from windrow.bench.queue_rivals import RIVALS
from windrow.errors import EnvironmentUnfit
from windrow.queue.consumer import QueueConsumer
from windrow.queue.log import read_all
from windrow.queue.producer import QueueProducer
from windrow.queue.settings import QueueSettings
from windrow.queue.topics import create_topics

VALUE_BYTES: Final = 200
QUEUE: Final = "bench"
_PARTITIONS: Final = 4
_OVERHEAD: Final = 80
"""Bytes of a record in a batch of its own, beside key and value, at most."""
_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages/s by way, the medians of all rounds."""

    ours: float
    rivals: dict[str, float]
    marker_bytes_ratio: float
    lost: int
    handled_twice: int
    settings: QueueSettings
    """The topics of the last round: they hold the markers of its messages."""


def payload(number: int) -> bytes:
    return b"%0*d" % (VALUE_BYTES, number)


def topics(kafka: QueueSettings, partitions: int = _PARTITIONS, **changes: Any) -> QueueSettings:
    """Fresh topics for queues."""
    made = replace(
        kafka,
        message_topic=f"windrow_bench_{uuid4().hex[:8]}",
        marker_topic="",
        control_topic="",
        dead_letter_topic="",
        **changes,
    )
    create_topics(made, partitions=partitions, marker_partitions=partitions)
    return made


def measure_rates(kafka: QueueSettings, messages: int, rounds: int, say: Callable[[str], None]) -> Rates:
    ours: list[float] = []
    rivals: dict[str, list[float]] = {name: [] for name in RIVALS}
    numbers: Counter[int] = Counter()
    for turn in range(rounds):
        settings = topics(kafka)
        with QueueProducer(settings) as producer:
            producer.send_many(QUEUE, map(payload, range(messages)))
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as apart:
            for name, rival in RIVALS.items():
                count = messages // 1000 if name == "one by one" else messages
                rivals[name].append(apart.submit(rival, _markers_elsewhere(settings), f"{name} {turn}", count).result())
                say(f"  {name} {rivals[name][-1]:,.0f}/s")
            rate, handled = apart.submit(received, settings, messages).result()
        ours.append(rate)
        say(f"  windrow {rate:,.0f}/s")
        numbers.update(handled)
        numbers.subtract(dict.fromkeys(range(messages), 1))
    return Rates(
        ours=median(ours),
        rivals={name: median(each) for name, each in rivals.items()},
        marker_bytes_ratio=_marker_bytes(settings) / (messages * VALUE_BYTES),
        lost=sum(-count for count in numbers.values() if count < 0),
        handled_twice=sum(count for count in numbers.values() if count > 0),
        settings=settings,
    )


def received(settings: QueueSettings, messages: int) -> tuple[float, list[int]]:
    """Messages/s from the first message to when Kafka has the last acknowledgement; and which messages they were."""
    payloads: list[bytes | None] = []
    deadline = time.monotonic() + _SECONDS
    with QueueConsumer(settings, QUEUE) as consumer:
        began_at, left = 0.0, messages
        for message in consumer:
            if not began_at:
                began_at = time.perf_counter()
            payloads.append(message.payload)
            left -= 1
            if not left:
                message.ack(wait=True)
                break
            message.ack()
            if not left % 10_000 and time.monotonic() > deadline:
                raise EnvironmentUnfit(f"{left:,} messages did not come within {_SECONDS:.0f} s")
        seconds = time.perf_counter() - began_at
    return messages / seconds, [int(each or b"-1") for each in payloads]


def _markers_elsewhere(settings: QueueSettings) -> QueueSettings:
    """The rivals read the same messages, and write their markers into the dead-letter topic: nobody else does here."""
    return replace(settings, marker_topic=settings.dead_letter_topic, dead_letter_topic=settings.marker_topic)


def _marker_bytes(settings: QueueSettings) -> int:
    return sum(
        len(each.value or b"") + len(each.key or b"") + _OVERHEAD for each in read_all(settings, settings.marker_topic)
    )
