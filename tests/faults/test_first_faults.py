"""Kill and pause what the relay stands on, under load, and judge what came out."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import psycopg
import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from fix_pipeline import Pipeline, wait_for
from windrow import embedded
from windrow.kafka.clients import client_config
from windrow.observe.verdict import Written, judge

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]


class Load:
    """One writer at work, and the history of what it did."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._stop = threading.Event()
        self.history: dict[str, Written] = {}

    @property
    def committed(self) -> int:
        return sum(1 for each in list(self.history.values()) if each.outcome == "committed")

    @contextmanager
    def running(self, writers: int = 2) -> Iterator[None]:
        threads = [threading.Thread(target=self._write, args=(f"key {number}",)) for number in range(writers)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _write(self, key: str) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                with self._pipeline.connect() as connection:
                    while not self._stop.wait(0.002):
                        number += 1
                        self._write_one(connection, key, number)
            except psycopg.OperationalError:
                self._stop.wait(0.1)

    def _write_one(self, connection: psycopg.Connection[tuple[object, ...]], key: str, number: int) -> None:
        name = f"{key}/{number}"
        self.history[name] = Written(key, number, "unknown")
        for part in range(5):
            self._pipeline.outbox.write(connection, self._pipeline.message(json.dumps([name, part]), key))
        if number % 10 == 0:
            connection.rollback()
            self.history[name] = Written(key, number, "rolled back")
        else:
            connection.commit()
            self.history[name] = Written(key, number, "committed")

    def judge(self) -> None:
        """Every part of every committed transaction came once and in order; no part of any other."""
        history = {
            f"{name}/{part}": Written(each.key, each.number * 5 + part, each.outcome)
            for name, each in self.history.items()
            for part in range(5)
        }
        receipts = [json.loads(value or b"[]") for value in self._pipeline.values()]
        verdict = judge(history, [f"{name}/{part}" for name, part in receipts])
        assert verdict.sound, verdict
        assert verdict.received >= verdict.written > 0


def test_killing_the_python_worker_in_mid_transaction_loses_and_doubles_nothing(
    make_pipeline: Callable[..., Pipeline],
) -> None:
    pipeline = make_pipeline(limits={"ioErrorBackoff": "10ms"})
    load = Load(pipeline)
    in_mid_transaction = 0
    with pipeline.relay() as relay:
        with load.running():
            pipeline.wait_published(relay, 100)
            deadline = time.monotonic() + 90
            while in_mid_transaction < 3 and time.monotonic() < deadline:
                before = relay.published()
                wait_for(lambda: _transaction_open(pipeline), "an open transaction")
                _kill_python_workers()
                in_mid_transaction += _transaction_open(pipeline)
                pipeline.wait_published(relay, before + 100)
        pipeline.wait_published(relay, load.committed * 5)
    assert in_mid_transaction == 3
    load.judge()


def test_database_killed_and_restarted_under_load(pipeline: Pipeline, postgres: embedded.Postgres) -> None:
    _survives(pipeline, postgres.kill, postgres.restart)


def test_broker_killed_and_restarted_under_load(pipeline: Pipeline, kafka: embedded.Kafka) -> None:
    _survives(pipeline, kafka.kill, kafka.restart)


def test_broker_paused_under_load(pipeline: Pipeline, kafka: embedded.Kafka) -> None:
    _survives(pipeline, kafka.pause, kafka.resume)


def _survives(pipeline: Pipeline, fault: Callable[[], None], remedy: Callable[[], None]) -> None:
    load = Load(pipeline)
    with pipeline.relay() as relay:
        with load.running():
            pipeline.wait_published(relay, 100)
            before = relay.published()
            fault()
            remedy()
            pipeline.wait_published(relay, before + 2_000)
        pipeline.wait_published(relay, load.committed * 5)
    load.judge()


def _transaction_open(pipeline: Pipeline) -> bool:
    """Whether the topic holds records that no transaction has committed or aborted yet."""
    admin = AdminClient(client_config(pipeline.settings))
    ends = [
        [
            offset.result(10).offset
            for offset in admin.list_offsets(
                {TopicPartition(pipeline.topic, partition): OffsetSpec.latest() for partition in range(2)},
                isolation_level=level,
            ).values()
        ]
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    ]
    return ends[0] != ends[1]


def _kill_python_workers() -> None:
    for process in psutil.Process().children(recursive=True):
        parent = process.parent()
        if parent and "pyspark.daemon" in " ".join(parent.cmdline()):
            process.kill()
