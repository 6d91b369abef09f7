"""A consumer that reads nothing any more, though it is in contact with all brokers, is found out and replaced.

Which librdkafka's are now and then after a broker's restart; here they are paused behind their owner's back.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from fix_consumer import Consuming
from fix_pipeline import wait_for
from fix_queue import queues_on
from windrow import embedded
from windrow.kafka import contact
from windrow.kafka.clients import client_config, create_topic
from windrow.kafka.contact import Flow
from windrow.queue import QueueConsumer, QueueProducer, QueueSettings, duty
from windrow.queue.control import Control, pause
from windrow.queue.duty import Duty

SOON = 0.3


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers are compared with another one all the time."""
    for name in ("_COMPARE_AFTER", "_COMPARE_AGAIN_AFTER"):
        monkeypatch.setattr(contact, name, SOON)


@pytest.fixture
def settings(make_queue_settings: Callable[..., QueueSettings]) -> QueueSettings:
    return make_queue_settings()


def produce(settings: QueueSettings, topic: str, count: int) -> None:
    """In a transaction, which leaves a record of its own behind the others."""
    producer = Producer(client_config(settings, {"transactional.id": uuid4().hex}))
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(topic, b"content")
    producer.commit_transaction(30)


@contextmanager
def reader(settings: QueueSettings, topic: str) -> Iterator[tuple[Consumer, Flow]]:
    """A consumer of the topic's first partition, at its beginning, and its flow."""
    config = client_config(settings, {"group.id": uuid4().hex, "isolation.level": "read_committed"})
    with closing(Consumer(config)) as consumer:
        place = TopicPartition(topic, 0, 0)
        consumer.assign([place])
        yield consumer, Flow(config, lambda: [at if at.offset >= 0 else place for at in consumer.position([place])])


def test_who_has_read_all_is_not_stuck(settings: QueueSettings) -> None:
    topic = uuid4().hex
    create_topic(settings, topic, 1)
    produce(settings, topic, 3)
    with reader(settings, topic) as (consumer, flow):
        assert len(consumer.consume(3, 30)) == 3
        flow.heard()
        for _ in range(4):
            threading.Event().wait(2 * SOON)
            assert not flow.stuck()


def test_who_gets_nothing_of_what_is_there_is_stuck_unless_it_comes_after_all(settings: QueueSettings) -> None:
    topic = uuid4().hex
    create_topic(settings, topic, 1)
    with reader(settings, topic) as (consumer, flow):
        produce(settings, topic, 3)
        flow.heard()
        threading.Event().wait(2 * SOON)
        assert not flow.stuck(), "it may just have come"
        assert len(consumer.consume(3, 30)) == 3
        produce(settings, topic, 1)
        flow.heard()
        threading.Event().wait(2 * SOON)
        assert not flow.stuck(), "suspected anew"
        threading.Event().wait(2 * SOON)
        assert flow.stuck()


def test_consumer_of_a_queue_joins_anew(settings: QueueSettings) -> None:
    with QueueProducer(settings) as producer, QueueConsumer(settings, "jobs") as consumer:
        producer.send("jobs", "first")
        first = consumer.receive(30)
        assert first
        first.ack(wait=True)
        reading = consumer._intake._consumer
        reading.pause(reading.assignment())
        producer.send_many("jobs", [str(number) for number in range(20)])
        found = set()
        for _ in range(20):
            message = consumer.receive(60)
            assert message
            found.add(message.payload)
            message.ack()
        assert found == {str(number).encode() for number in range(20)}
        assert consumer._intake._consumer is not reading


def test_word_on_a_queue_is_read_anew(settings: QueueSettings) -> None:
    with closing(Control(settings)) as control:
        assert control.read_to_end() == set()
        control._consumer.pause([TopicPartition(settings.control_topic, 0)])
        pause(settings, "jobs")
        wait_for(lambda: control.is_paused("jobs"), "the word to be read")


def test_consumer_with_an_inbox_joins_anew(consuming: Consuming) -> None:
    consuming.produce(range(10))
    with consuming.consumer() as consumer:
        consuming.wait_for_effects(10)
        reading = consumer._consumer
        reading.pause(reading.assignment())
        consuming.produce(range(10, 30))
        consuming.wait_for_effects(30)
        assert consumer._consumer is not reading
    assert consuming.effects() == dict.fromkeys(range(30), 1)


class StuckAtFirst(Consumer):
    """Reads nothing, the first time that somebody makes one."""

    made = 0

    def assign(self, partitions: list[TopicPartition]) -> None:
        super().assign(partitions)
        type(self).made += 1
        if type(self).made == 1:
            self.pause(partitions)


def test_tracker_reads_markers_anew(kafka: embedded.Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duty, "Consumer", StuckAtFirst)
    queues, over = queues_on(kafka.client_config, None), threading.Event()
    nobody: dict[str, Any] = {"group.id": queues.settings.tracker_group}
    with closing(Consumer(client_config(queues.settings, nobody))) as member:
        membership = member.consumer_group_metadata()
    queues.mark("START", queues.lease(), queues.send("again"), after=0.1)
    with ThreadPoolExecutor(1) as thread:
        report = thread.submit(Duty(queues.settings, 0, uuid4(), membership, over).run)
        try:
            queues.wait_for_copies(1)
        finally:
            over.set()
    assert report.result(30).ending == "closed"
    assert StuckAtFirst.made > 1
