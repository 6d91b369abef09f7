"""The transactional publisher, as the successor of one that left something behind."""

import struct
import time
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import Producer, TopicPartition

from fix_pipeline import Pipeline
from windrow.capture.position import Position
from windrow.errors import Interrupted, RelayFenced
from windrow.kafka import clients
from windrow.kafka.clients import client_config, committed_position, position_reader, sent
from windrow.kafka.offsets_log import TOPIC, log_partition, logged_position
from windrow.publish.transaction import TransactionalPublisher
from windrow.record import Committed, Shard
from windrow.settings import Settings


def test_what_was_left_open_keeps_nobody_waiting(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = pipeline.settings
    monkeypatch.setattr(clients, "_ANSWER_WITHIN", 100.0)
    left = Producer(client_config(settings, {"transactional.id": f"{settings.name} left open"}))
    left.init_transactions(30)
    left.begin_transaction()
    with closing(position_reader(settings)) as reader:
        position = TopicPartition(settings.position_topic, 0, 1)
        left.send_offsets_to_transaction([position], reader.consumer_group_metadata(), 30)
    began = time.monotonic()
    with closing(TransactionalPublisher(settings, Shard(0, 1))):
        assert time.monotonic() - began < 50
    left.abort_transaction(30)


def test_log_says_what_the_coordinator_tells(pipeline: Pipeline) -> None:
    position = Position("1234567890").encode()
    for number in range(12):  # each of the log's partitions, and hashes of both signs
        settings = replace(pipeline.settings, leader_group_id=f"{pipeline.settings.leader_group_id}-{number}")
        with (
            closing(position_reader(settings)) as reader,
            closing(TransactionalPublisher(settings, Shard(0, 1))) as publisher,
        ):
            publisher.open(reader.consumer_group_metadata(), Committed(number, position))
            publisher.renew()
            told = committed_position(reader, settings, 0)
        assert told == Committed(number, position)
        assert logged_position(settings, 0) == told


@pytest.mark.parametrize(("told", "said"), [(3, "3"), (None, "no")])
def test_coordinator_that_remembers_less_than_its_log_holds_is_reminded(
    pipeline: Pipeline, caplog: pytest.LogCaptureFixture, told: int | None, said: str
) -> None:
    settings, position = pipeline.settings, Position("1234567890").encode()
    present = Committed(5, position, 1)
    if told:
        pipeline.commit(Committed(told, position))
    _write_to_log(settings, present)
    with closing(position_reader(settings)) as reader:
        assert committed_position(reader, settings, 0) == (Committed(told, position) if told else None)
        with closing(TransactionalPublisher(settings, Shard(0, 1))) as publisher:
            publisher.open(reader.consumer_group_metadata(), Committed(4, position))
            assert publisher.committed == present
    assert pipeline.committed() == present
    assert f"Kafka tells an older position ({said} records published) than its log holds (5)" in caplog.text


def test_publisher_that_has_published_nothing_is_fenced_all_the_same(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    with (
        closing(position_reader(settings)) as reader,
        closing(TransactionalPublisher(settings, Shard(0, 1))) as stale,
        closing(TransactionalPublisher(settings, Shard(0, 1))) as successor,
    ):
        stale.open(reader.consumer_group_metadata(), None)
        successor.open(reader.consumer_group_metadata(), None)
        with pytest.raises(RelayFenced):
            stale.renew()
        successor.renew()
        assert successor.committed == Committed(0, "")


def test_neither_a_coordinator_nor_its_log_is_believed_that_tells_less_than_is_known(pipeline: Pipeline) -> None:
    settings, position = pipeline.settings, Position("1234567890").encode()
    pipeline.commit(Committed(3, position))
    _write_to_log(settings, Committed(5, position))
    with (
        closing(position_reader(settings)) as reader,
        closing(TransactionalPublisher(settings, Shard(0, 1))) as publisher,
    ):
        with pytest.raises(Interrupted, match=r"an older position \(3 records published\) than .* before \(6\)"):
            publisher.open(reader.consumer_group_metadata(), Committed(6, position))
        assert publisher.committed is None


def _write_to_log(settings: Settings, at: Committed) -> None:
    """As a coordinator does that forgets it at once."""
    group, topic, beside = (
        struct.pack(">h", len(text)) + text.encode()
        for text in (settings.position_group_id, settings.position_topic, at.metadata + "\0")
    )
    key = struct.pack(">h", 1) + group + topic + struct.pack(">i", 0)
    value = struct.pack(">hqi", 3, at.published, -1) + beside + struct.pack(">q", int(time.time() * 1000))
    writer = Producer(client_config(settings, {"client.id": "__admin_client"}))  # whom brokers let write there
    partitions = writer.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
    partition = log_partition(settings.position_group_id, len(partitions))
    sent(writer, 30, TOPIC, partition=partition, key=key, value=value)
