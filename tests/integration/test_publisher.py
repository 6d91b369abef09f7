"""The transactional publisher, as the successor of one that left something behind."""

import time
from contextlib import closing

import pytest
from confluent_kafka import Producer, TopicPartition

from fix_pipeline import Pipeline
from windrow.kafka import clients
from windrow.kafka.clients import client_config, position_reader
from windrow.publish.transaction import TransactionalPublisher
from windrow.record import Shard


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
