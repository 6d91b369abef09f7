"""Kafka's transactions alone, under a live load: the least p50 of any relay that makes a transaction of what it finds.

Records are made in memory when they are due, and published in Kafka's own protocol, with a position, as soon as the
transaction before is over. Nothing is looked for in a database; but writers write to one as they do for everybody
else, so that disk and cores are as busy.
"""

import time
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
from confluent_kafka import TopicPartition

from benchmarks.peers.loads import Run, Stage, judged, latencies, receiving
from windrow.bench.check import Numbers
from windrow.bench.load import KEYS, key_of, value_of
from windrow.bench.writers import write_live
from windrow.kafka.clients import position_reader
from windrow.publish.transaction import Transacting, transactor
from windrow.publish.transactor import persist
from windrow.record import Record
from windrow.settings import Settings

FLOOR: Final = "transactions alone"
LOAD: Final = "1k"
_RATE: Final = 1_000
_IN_TURNS: Final = 4
"""Producers: with so many, none has to wait until Kafka has ended its last transaction."""


def measure_floor(stage: Stage) -> Run:
    bed, size = stage.bed, stage.size
    ignored = int(_RATE * size.warm_up)
    count = ignored + int(_RATE * size.live)
    with (
        bed.lane(partitions=stage.partitions) as lane,
        receiving(bed, lane.settings, lane.topic, count + 1, live=True) as received_within,
    ):
        beside = bed.helpers.submit(write_live, lane.settings, lane.topic, count, _RATE, durably=True)
        due = bed.helpers.submit(publish_live, lane.settings, lane.topic, count, _RATE).result()
        received = received_within(size.late)
        until = time.monotonic_ns()
        beside.result()
    p50, p99 = latencies(received, due, ignored, until)
    bed.say(f"  {FLOOR}: p50 {p50:,.1f} ms, p99 {p99:,.1f}")
    return replace(judged(FLOOR, {"p50_ms": p50, "p99_ms": p99}, received, count + 1), load=LOAD)


def publish_live(settings: Settings, topic: str, count: int, rate: int) -> Numbers:
    """Publish the numbers from 0 on; return when each one was due."""
    records = [Record(each, topic, key_of(each, KEYS), value_of(each), [], [], None, None) for each in range(count + 1)]
    position = TopicPartition(settings.position_topic, 0, 0)
    with closing(position_reader(settings)) as reader, ExitStack() as stack:
        membership = reader.consumer_group_metadata()
        producers = [stack.enter_context(closing(transactor(settings, f"alone.{each}"))) for each in range(_IN_TURNS)]
        for each in producers:
            each.init()

        def publish(by: Transacting, first: int, last: int) -> None:
            with by.transaction():
                by.send(b"bench", records[first : last + 1])
                by.finish([position], membership)

        due = time.monotonic_ns() + np.arange(count + 1) * (1_000_000_000 // rate)
        published, turn = -1, 0
        while published < count:
            if (early := due[published + 1] - time.monotonic_ns()) > 0:
                time.sleep(early / 1e9)
            last = int(np.searchsorted(due, time.monotonic_ns(), side="right")) - 1
            persist(partial(publish, producers[turn % _IN_TURNS], published + 1, last))
            published, turn = last, turn + 1
    return due
