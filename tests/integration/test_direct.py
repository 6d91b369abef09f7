"""Transactions in Kafka's own protocol, against real brokers: what consumers get, and what is refused.

librdkafka's transactor is held beside it: whoever reads the topic cannot tell which of the two has written it.
"""

import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from fix_pipeline import Pipeline, limit_message_size, received, wait_for
from windrow import embedded
from windrow.errors import Interrupted, PublishFailed, RelayFenced
from windrow.kafka.clients import client_config, committed_offsets, create_topic, position_reader
from windrow.kafka.statistics import Statistics
from windrow.publish import direct
from windrow.publish.direct import DirectTransactor
from windrow.publish.sending import DEFAULTS
from windrow.publish.transaction import Transacting, transactor
from windrow.publish.transactor import MembershipOver, Transactor, persist
from windrow.record import Record
from windrow.settings import Settings
from windrow.wire import cluster, messages
from windrow.wire.cluster import Cluster
from windrow.wire.codec import NO_TAGS, array, text
from windrow.wire.connection import CLIENT
from windrow.wire.messages import Api

LIBRDKAFKA = {"queue.buffering.max.messages": "100000"}
"""What the protocol's own side does not know, so that librdkafka is taken."""


def record(number: int, topic: str, **more: Any) -> Record:
    made = Record(number, topic, b"key %d" % (number % 7), b"value %d" % number, ["a"], [b"b"], None, 1_700_000_000_000)
    return made._replace(**more)


@contextmanager
def opened(settings: Settings, **producer: str) -> Iterator[Transacting]:
    """A transactor that has taken over, with these settings of its producer."""
    with closing(transactor(replace(settings, producer_kafka_config=producer), "0.a")) as made:
        made.connect()
        made.init()
        yield made


def publish(settings: Settings, by: Transacting, *pages: list[Record], at: int = 1) -> None:
    with closing(position_reader(settings)) as member:
        membership = member.consumer_group_metadata()

    def attempt() -> None:
        with by.transaction():
            for page in pages:
                by.send(b"source", page)
            by.finish([position_of(settings, at)], membership)

    persist(attempt)


def position_of(settings: Settings, at: int) -> TopicPartition:
    return TopicPartition(settings.position_topic, 0, at, metadata="here")


def told(settings: Settings, topic: str) -> list[tuple[Any, ...]]:
    return [
        (each.partition(), each.key(), each.value(), each.headers(), each.timestamp())
        for each in received(settings, topic)
    ]


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
@pytest.mark.parametrize("count", [20, 3_000])
def test_consumers_cannot_tell_who_has_written(pipeline: Pipeline, compression: str, count: int) -> None:
    settings, other = pipeline.settings, f"{pipeline.topic}.other"
    create_topic(settings, other, 3)
    create_topic(settings, f"{other}.too", 3)
    odd = {
        1: {"value": None, "header_keys": [], "header_values": []},
        2: {"value": b"", "key": b""},
        3: {"header_keys": ["a", "a", "b"], "header_values": [None, b"", "ä".encode()]},
        4: {"partition": 2},
        5: {"timestamp": 1_600_000_000_000},
        6: {"value": bytes(30_000)},
    }
    for topic, further in ((other, {}), (f"{other}.too", LIBRDKAFKA)):
        page = [record(number, topic, **odd.get(number, {})) for number in range(count)]
        with opened(settings, **{"compression.type": compression, "batch.size": "20000"}, **further) as by:
            assert isinstance(by, Transactor if further else DirectTransactor)
            publish(settings, by, page)
    ours, theirs = told(settings, other), told(settings, f"{other}.too")
    assert len(ours) == count
    assert sorted(ours, key=repr) == sorted(theirs, key=repr)
    assert [each for each in ours if each[0] == 1] == [each for each in theirs if each[0] == 1]


def test_records_without_a_time_get_that_of_their_sending(pipeline: Pipeline) -> None:
    with opened(pipeline.settings) as by:
        publish(pipeline.settings, by, [record(1, pipeline.topic, timestamp=None)])
    ((kind, time),) = [each.timestamp() for each in pipeline.received()]
    assert kind == 1
    assert time > 1_700_000_000_000


def test_one_transaction_after_the_other_and_its_position_with_it(pipeline: Pipeline) -> None:
    settings, heard = pipeline.settings, list[Any]()
    with closing(transactor(settings, "0.a", Statistics(heard.append))) as by:
        by.init()
        for number in range(1, 40):
            publish(settings, by, [record(number, pipeline.topic, key=b"k")], [], at=number)
    with closing(position_reader(settings)) as reader:
        (at,) = committed_offsets(reader, [TopicPartition(settings.position_topic, 0)])
    assert (at.offset, at.metadata) == (39, "here")
    assert pipeline.values() == [b"value %d" % number for number in range(1, 40)]
    assert heard[0]["requests"] >= 3
    assert heard[0]["sent_bytes"] > 200


def test_what_is_refused_leaves_nothing_and_the_next_transaction_goes_through(pipeline: Pipeline) -> None:
    settings, topic = pipeline.settings, pipeline.topic
    limit_message_size(pipeline, 100_000)
    good, large = record(1, topic), record(2, topic, value=bytes(300_000))
    with opened(settings) as by:
        for bad, whole, reason in (
            (large, False, "large"),
            (record(2, f"{topic} is no name"), True, "Invalid topic"),
            (record(2, topic, partition=77), False, "no partition 77"),
        ):
            with pytest.raises(PublishFailed, match=reason) as refusal:
                publish(settings, by, [good, bad])
            assert refusal.value.whole_topic is whole
        publish(settings, by, [good])
    assert pipeline.values() == [b"value 1"]
    assert not pipeline.transaction_open()


def test_no_request_is_larger_than_brokers_take(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker hangs up on larger ones, and would whenever they are sent again."""
    settings, topic, sizes = pipeline.settings, pipeline.topic, list[int]()
    made = messages.produce

    def produce(*given: Any) -> list[messages.Piece]:
        sizes.append(sum(map(len, request := made(*given))))
        return request

    monkeypatch.setattr(messages, "produce", produce)
    page = [record(number, topic, value=bytes(60_000), partition=number % 2) for number in range(6)]
    with opened(settings, **{"message.max.bytes": "100000"}) as by:
        assert isinstance(by, DirectTransactor)
        with pytest.raises(PublishFailed, match=r"more than 100,000 bytes \(message.max.bytes\)"):
            publish(settings, by, [*page, record(6, topic, value=bytes(100_000))])
        publish(settings, by, page)
    assert len(pipeline.values()) == 6
    assert max(sizes) < 101_000

    with opened(settings) as by, pytest.raises(PublishFailed, match="a record of more than"):
        publish(settings, by, [record(1, topic, value=bytes(100 * 1024 * 1024))])


def test_predecessor_is_ended_and_refused(pipeline: Pipeline) -> None:
    settings, topic = pipeline.settings, pipeline.topic
    with opened(settings) as first:
        publish(settings, first, [record(0, topic)])
        with first.transaction():
            first.send(b"source", [record(1, topic)])
            first.flush()
            assert pipeline.transaction_open()
            with opened(settings) as second:
                publish(settings, second, [record(2, topic)], at=2)
                with pytest.raises(RelayFenced):
                    publish(settings, first, [], at=3)
    assert {*pipeline.values()} == {b"value 0", b"value 2"}


def test_leader_whose_membership_is_over_is_refused(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    consumer = Consumer(client_config(settings, {"group.id": settings.leader_group_id}))
    consumer.subscribe([settings.leader_topic])
    wait_for(lambda: consumer.poll(0.05) or consumer.assignment(), "a member")
    membership = consumer.consumer_group_metadata()
    with opened(settings) as by:

        def attempt(number: int) -> None:
            with by.transaction():
                by.send(b"source", [record(number, pipeline.topic)])
                by.finish([position_of(settings, number)], membership)

        attempt(1)
        consumer.close()
        with pytest.raises(MembershipOver):
            persist(partial(attempt, 2))
    assert pipeline.values() == [b"value 1"]
    assert not pipeline.transaction_open()


def test_connections_that_brokers_would_close_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_IDLE", 0.1)
    with embedded.Kafka(settings={"connections.max.idle.ms": 1_000}) as kafka:
        given = {**DEFAULTS, **kafka.client_config}
        with (
            closing(DirectTransactor({**given, "transactional.id": "kept"})) as kept,
            closing(DirectTransactor({**given, "transactional.id": "idle"})) as idle,
        ):
            kept.init()
            idle.init()

            def is_closed() -> bool:
                kept.listen()
                return _hung_up(idle)

            wait_for(is_closed, "the broker to close what is idle")
            kept.init()
            with pytest.raises(Interrupted, match="Kafka broke off"):
                idle.init()


def _hung_up(transactor: DirectTransactor) -> bool:
    return all(_ended(each._opened) for each in transactor._cluster.connections)


def _ended(connected: socket.socket) -> bool:
    readable, _, _ = select.select([connected], [], [], 0)
    return bool(readable)


def test_partitions_that_a_topic_has_got_since_are_known_as_soon_as_they_are_asked_for(pipeline: Pipeline) -> None:
    settings, topic = pipeline.settings, f"{pipeline.topic}.growing"
    create_topic(settings, topic, 1)
    with opened(settings) as by:
        publish(settings, by, [record(1, topic)])
        grow(settings, topic, 3)
        publish(settings, by, [record(2, topic, partition=2)], at=2)
        with pytest.raises(PublishFailed, match="there is no partition 3, it has 3"):
            publish(settings, by, [record(3, topic, partition=3)], at=3)
    assert sorted(each[0] for each in told(settings, topic)) == [0, 2]


def test_each_topic_is_asked_for_anew_in_its_own_time(pipeline: Pipeline) -> None:
    settings, old, new = pipeline.settings, f"{pipeline.topic}.old", f"{pipeline.topic}.new"
    for topic in (old, new):
        create_topic(settings, topic, 1)
    with closing(Cluster(client_config(settings), 10.0, 0.6)) as brokers:
        assert len(brokers.topic(old, 5.0).leaders) == 1
        grow(settings, old, 2)
        time.sleep(0.4)
        assert len(brokers.topic(new, 5.0).leaders) == 1
        time.sleep(0.4)
        assert len(brokers.topic(old, 5.0).leaders) == 2


def grow(settings: Settings, topic: str, partitions: int) -> None:
    admin = AdminClient(client_config(settings))
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
    wait_for(lambda: len(admin.list_topics(topic).topics[topic].partitions) == partitions, "the topic to grow")


def test_broker_that_does_not_listen_for_a_while_since_a_quota_is_used_up_is_waited_for(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "TAKES_SOME_WITHIN", 0.5)
    settings = pipeline.settings
    page = [record(number, pipeline.topic, value=bytes(1_000), key=None, partition=0) for number in range(130)]
    with opened(settings, **{"topic.metadata.propagation.max.ms": "500"}) as by, bytes_per_second(by, 10_000):
        assert isinstance(by, DirectTransactor)
        began = time.monotonic()
        publish(settings, by, page)
        assert any(each._quiet_until > began + 1 for each in by._cluster.connections)
    assert len(pipeline.values()) == len(page)


@contextmanager
def bytes_per_second(by: Transacting, limit: float) -> Iterator[None]:
    """Meanwhile, more than that makes the broker deaf to our producers for a while."""
    assert isinstance(by, DirectTransactor)
    to_quotas, ours = Api(49, 1), text("client-id") + text(CLIENT) + NO_TAGS
    broker = by._cluster.connections[0]
    for value, remove in ((limit, False), (0.0, True)):
        limited = text("producer_byte_rate") + struct.pack(">d?", value, remove) + NO_TAGS
        request = array([array([ours]) + array([limited]) + NO_TAGS]) + b"\0" + NO_TAGS
        answer = broker.call(to_quotas, request, lambda answer: answer.take("ibh"))
        assert answer[-1] == 0
        if not remove:
            time.sleep(0.5)  # brokers hear of it by their log
            yield


def test_what_is_closed_in_the_middle_keeps_no_consumer_waiting(pipeline: Pipeline) -> None:
    with suppress(KeyboardInterrupt), opened(pipeline.settings) as by, by.transaction():
        by.send(b"source", [record(1, pipeline.topic)])
        raise KeyboardInterrupt
    assert pipeline.values() == []
    assert not pipeline.transaction_open()


def test_records_of_a_transaction_go_to_all_brokers_of_a_cluster() -> None:
    with embedded.Kafka(brokers=3) as kafka:
        settings = Settings.load(
            environment={}, name="three", data_source="postgresql://-", base_kafka_config=kafka.client_config
        )
        for topic, partitions in ((settings.position_topic, 1), ("spread", 6)):
            create_topic(settings, topic, partitions)
        with opened(settings) as by:
            for number in range(1, 4):
                page = [record(number * 1_000 + each, "spread") for each in range(500)]
                publish(settings, by, page, page[:5], at=number)
        found = told(settings, "spread")
        assert len(found) == 3 * 505
        assert len({each[0] for each in found}) > 3


def test_who_we_are_is_shown_by_every_mechanism_over_tls_and_a_wrong_password_is_said() -> None:
    with embedded.Kafka(security=embedded.Security({"ada": "right"})) as kafka:
        for mechanism in ("SCRAM-SHA-512", "PLAIN"):
            given = {**DEFAULTS, **kafka.client_config, "sasl.mechanism": mechanism, "transactional.id": "one"}
            with closing(DirectTransactor(given)) as by:
                assert by.speaks_all
                by.init()
            with pytest.raises(Interrupted, match=r"(?i)authentication failed") as refusal:
                DirectTransactor({**given, "sasl.password": "wrong"})
            assert "wrong" not in str(refusal.value)
        with pytest.raises(Interrupted, match=r"does not offer sasl\.mechanism SCRAM-SHA-256"):
            DirectTransactor({**given, "sasl.mechanism": "SCRAM-SHA-256"})
        with pytest.raises(Interrupted, match="CERTIFICATE_VERIFY_FAILED"):
            DirectTransactor({name: value for name, value in given.items() if name != "ssl.ca.location"})
