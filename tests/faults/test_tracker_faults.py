"""Trackers that are killed, paused and cut off, while consumers begin, end and forget messages: whatever was not ended
in time, by the broker's clock, is redelivered once, and nothing else is.
"""

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from fix_command import signal_marked, windrow_running, write_config
from fix_faults import kill_python_workers
from fix_pipeline import wait_for
from fix_queue import Queues, header, queues_on
from windrow import embedded

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

SLOW = 150.0
TIMEOUT = 2.0
TIMEOUT_MS = 2000


@dataclass
class Kept:
    """A message that is kept alive for long."""

    lease: int
    offset: int
    value: bytes
    until: float
    deadline: int


@dataclass
class Load:
    """A consumer that takes ten messages at a time, forgets one, keeps one alive for long, and ends the others."""

    queues: Queues
    forgotten: set[bytes] = field(default_factory=set)
    rounds: int = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _run(self, stop: threading.Event) -> None:
        kept: list[Kept] = []
        while not stop.is_set():
            values = [uuid4().hex.encode() for _ in range(10)]
            offsets, lease = self.queues.send(*values), self.queues.lease()
            deadline = self.queues.mark("START", lease, offsets, after=TIMEOUT).timestamp()[1] + TIMEOUT_MS
            ended = self.queues.mark("END", lease, offsets[:8]).timestamp()[1]
            self.forgotten.update(values[8:9] if ended <= deadline else values[:9])
            kept.append(Kept(lease, offsets[9], values[9], time.monotonic() + 3 * TIMEOUT, deadline))
            self.rounds += 1
            kept = [each for each in kept if self._keep(each)]
            time.sleep(0.1)
        for each in kept:
            each.until = 0
            self._keep(each)

    def _keep(self, kept: Kept) -> bool:
        """Keep it alive, or end it when it is time; whether it goes on."""
        ends = time.monotonic() >= kept.until
        kind = "END" if ends else "KEEP_ALIVE"
        marked_at = self.queues.mark(kind, kept.lease, [kept.offset], after=TIMEOUT).timestamp()[1]
        if marked_at > kept.deadline:
            self.forgotten.add(kept.value)
            return False
        kept.deadline = marked_at + TIMEOUT_MS
        return not ends

    def wait_for_redelivery(self, seconds: float = 90) -> None:
        """All that were forgotten so far have come again."""
        expected = set(self.forgotten)
        wait_for(lambda: expected <= self._copied().keys(), "all that was forgotten", seconds)

    def judge(self) -> None:
        self.wait_for_redelivery()
        copied = self._copied()
        assert set(copied) == self.forgotten
        assert set(copied.values()) == {1}

    def _copied(self) -> Counter[bytes]:
        copies = self.queues.copies()
        assert {header(copy, "x-attempt") for copy in copies} <= {"2"}
        return Counter(copy.value() for copy in copies)  # type: ignore[arg-type]


class Candidate:
    """A tracker in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.mark = uuid4().hex
        self.talk = folder / self.mark

    def said(self, what: str) -> int:
        """How often it said so."""
        return self.talk.read_text().count(what) if self.talk.exists() else 0

    def leads(self) -> int:
        """How often it came to lead."""
        return self.said(" leads: ")

    def send(self, number: int) -> None:
        """Send a signal to all of its processes: driver, Spark, Python workers."""
        signal_marked(self.mark, number)


@contextmanager
def running(queues: Queues, folder: Path) -> Iterator[Candidate]:
    config = write_config(
        folder,
        messageTopic=queues.settings.message_topic,
        baseKafkaConfig=dict(queues.settings.base_kafka_config),
        spark={"master": "local[2]"},
    )
    new = Candidate(folder)
    with windrow_running("queue", "tracker", "--config", config, mark=new.mark, talk=new.talk):
        try:
            yield new
        finally:
            new.send(signal.SIGKILL)


def test_standby_takes_over_from_a_tracker_that_is_paused_and_from_one_that_is_killed(
    kafka: embedded.Kafka, tmp_path: Path
) -> None:
    queues = queues_on(kafka.client_config, marker_partitions=3)
    load = Load(queues)
    with running(queues, tmp_path) as first:
        wait_for(first.leads, "the first to lead", SLOW)
        with running(queues, tmp_path) as second, load.running():
            wait_for(lambda: first.said("new generation"), "the second to join", SLOW)
            wait_for(lambda: load.rounds > 20, "some load")
            load.wait_for_redelivery()
            first.send(signal.SIGSTOP)
            wait_for(second.leads, "the second to lead", SLOW)
            load.wait_for_redelivery()
            first.send(signal.SIGCONT)
            load.wait_for_redelivery()
            second.send(signal.SIGKILL)
            wait_for(lambda: first.leads() == 2, "the first to lead again", SLOW)
            load.wait_for_redelivery()
        load.judge()


def test_tracker_goes_on_when_its_python_workers_are_killed(queues: Queues) -> None:
    load = Load(queues)
    with queues.tracker() as tracker:
        with load.running():
            for _ in range(3):
                load.wait_for_redelivery()
                before = tracker.epochs
                kill_python_workers()
                wait_for(lambda before=before: tracker.epochs > before, "another epoch")  # type: ignore[misc]
        load.judge()


def test_tracker_goes_on_after_its_broker_was_away(spark: SparkSession) -> None:
    with embedded.Kafka() as kafka:
        queues = queues_on(kafka.client_config, spark)
        offsets = queues.send(*"abc")
        lease = queues.lease()
        with queues.tracker():
            queues.mark("START", lease, offsets, after=25)
            queues.mark("END", lease, offsets[:1])
            kafka.restart()
            wait_for(lambda: marked_again(queues, lease, offsets), "the broker to answer")
            assert [each.value() for each in queues.wait_for_copies(1)] == [b"c"]
            queues.mark("END", lease, [offsets[1]])
            time.sleep(1)
            assert len(queues.copies()) == 1


def marked_again(queues: Queues, lease: int, offsets: list[int]) -> bool:
    try:
        queues.mark("KEEP_ALIVE", lease, [offsets[1]], after=60)
    except KafkaException:
        return False
    return True
