"""Publishing without transactions, on a real broker: order, throttle, refusals, and the figure that it keeps."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition

from fix_outbox import SHARD, MemoryOutbox, Nowhere, memory_outbox, overtaken
from fix_pipeline import received, refuse_larger, wait_for
from windrow import embedded
from windrow.errors import Interrupted, PublishFailed
from windrow.kafka.clients import client_config, committed_positions, position_reader
from windrow.publish.at_least_once import AtLeastOncePublisher, message_timeout
from windrow.record import Committed, Progress, Record, Released
from windrow.relay.shard import ShardLoop


def test_all_records_arrive_once_and_in_the_order_of_their_keys(kafka: embedded.Kafka) -> None:
    outbox = memory_outbox(kafka)
    written = outbox.write(2_000, keys=50)
    with outbox.publisher() as publisher:
        publisher.publish(written, Nowhere())
    assert not outbox.rows
    assert outbox.log() == {b"%d" % key: list(range(key, 2_000, 50)) for key in range(50)}


def test_records_look_as_those_of_transactions_do(kafka: embedded.Kafka) -> None:
    outbox = memory_outbox(kafka)
    record = Record(7, outbox.topic, b"key", None, ["a"], [b"b"], 1, 1_700_000_000_000)
    outbox.rows[7] = record
    with outbox.publisher() as publisher:
        publisher.publish([record], Nowhere())
    (message,) = received(outbox.settings, outbox.topic)
    assert message.headers() == [("a", b"b"), ("x-sequence", b"7"), ("x-source", outbox.settings.source.encode())]
    assert (message.partition(), message.timestamp()[1], message.value()) == (1, 1_700_000_000_000, None)


@pytest.mark.parametrize(("keys", "limit", "at_most"), [(100, 7, 7), (1, 100, 1), (3, 100, 3)])
def test_records_ahead_of_the_purge_are_limited_in_all_and_to_one_of_a_key(
    kafka: embedded.Kafka, keys: int, limit: int, at_most: int
) -> None:
    outbox = memory_outbox(kafka, limits={"maxInFlightRecords": limit})
    written = outbox.write(100, keys)
    ahead = []
    consumer = Consumer(client_config(outbox.settings, {"group.id": uuid4().hex}))

    def look(_: Sequence[int]) -> None:
        ends = [consumer.get_watermark_offsets(TopicPartition(outbox.topic, each))[1] for each in range(2)]
        ahead.append(sum(ends) - len(outbox.purged))

    outbox.before_purge = look
    with closing(consumer), outbox.publisher() as publisher:
        publisher.publish(written, Nowhere())
    assert max(ahead) <= at_most
    assert len(outbox.purged) == 100


class _Batch:
    """A page whose refused records are noted and deleted."""

    fresh = True

    def __init__(self, outbox: MemoryOutbox) -> None:
        self._outbox = outbox
        self.refused: list[int] = []

    def upto(self, _: int, /) -> Progress | Released:
        return Nowhere()

    def free(self, records: Sequence[Record]) -> Sequence[Record]:
        return records

    def refuse(self, poison: Sequence[Record], reason: str) -> None:
        assert reason
        for each in poison:
            self.refused.append(each.id)
            del self._outbox.rows[each.id]


@pytest.mark.parametrize(
    "poison",
    [{"value": b"x" * 20_000}, {"partition": 17}, {"header_keys": ["lonely"]}],
    ids=["too large", "unknown partition", "malformed"],
)
def test_the_others_go_on_around_refused_records_and_none_comes_twice(
    kafka: embedded.Kafka, poison: dict[str, Any]
) -> None:
    _goes_on_around(kafka, poison)


def test_the_others_go_on_around_a_topic_that_is_not_there() -> None:
    with embedded.Kafka(settings={"auto.create.topics.enable": "false"}) as kafka:
        _goes_on_around(kafka, {"topic": "nowhere"})


def _goes_on_around(kafka: embedded.Kafka, poison: dict[str, Any]) -> None:
    outbox = memory_outbox(kafka)
    refuse_larger(outbox.settings, outbox.topic, 10_000)
    written = outbox.write(400, keys=10)
    for bad in (7, 23, 201):
        outbox.rows[bad] = written[bad] = written[bad]._replace(**poison)
    batch, loop = _Batch(outbox), ShardLoop(outbox.settings, SHARD, uuid4())
    with outbox.publisher() as publisher:
        loop.publish(publisher, batch, written, Nowhere())
        assert publisher.committed == Committed(397, "")
    assert batch.refused == [7, 23, 201]
    assert not outbox.rows
    good = [each.id for each in written if each.id not in batch.refused]
    assert outbox.log() == {b"%d" % key: [each for each in good if each % 10 == key] for key in range(10)}


def test_a_refusal_says_what_was_published_all_the_same(kafka: embedded.Kafka) -> None:
    outbox = memory_outbox(kafka, limits={"maxInFlightRecords": 1})
    written = outbox.write(5, keys=5)
    written[3] = written[3]._replace(partition=-1)
    with outbox.publisher() as publisher:
        with pytest.raises(PublishFailed, match="partition -1") as refusal:
            publisher.publish(written, Nowhere())
        assert refusal.value.published == {0, 1, 2}
    assert outbox.rows.keys() == {3, 4}


def test_what_could_not_be_purged_repeats_at_once_and_never_after_a_later_one(kafka: embedded.Kafka) -> None:
    outbox = memory_outbox(kafka)
    outbox.write(300, keys=10)
    failures = iter([False, True, False, True])

    def fail(_: Sequence[int]) -> None:
        if next(failures, False):
            raise Interrupted("the database broke off")

    outbox.before_purge = fail
    interruptions = 0
    while outbox.rows:
        with outbox.publisher() as publisher:
            try:
                publisher.publish(list(outbox.rows.values()), Nowhere())
            except Interrupted:
                interruptions += 1
    assert interruptions == 2
    log = outbox.log()
    assert sum(map(len, log.values())) > 300
    for key in range(10):
        assert overtaken(log[b"%d" % key], range(key, 300, 10)) == []


def test_the_number_of_published_records_survives_a_publisher_also_beside_members_of_the_group(
    kafka: embedded.Kafka,
) -> None:
    outbox = memory_outbox(kafka)
    settings = outbox.settings
    member = Consumer(client_config(settings, {"group.id": settings.leader_group_id}))
    member.subscribe([settings.leader_topic])

    def joined() -> bool:
        member.poll(0.1)
        return bool(member.assignment())

    wait_for(joined, "a member of the group")
    with closing(member):
        with outbox.publisher() as publisher:
            assert publisher.committed is None
            publisher.publish(outbox.write(10, keys=3), Nowhere())
            publisher.publish(outbox.write(5, keys=3), Nowhere())
        with closing(position_reader(settings)) as reader:
            assert committed_positions(reader, settings, range(1)) == {0: Committed(15, "")}
        with outbox.publisher() as publisher:
            assert publisher.committed == Committed(15, "")
            publisher.publish(outbox.write(5, keys=3), Nowhere())
            assert publisher.committed == Committed(20, "")


def test_progress_among_released_letters_is_committed_at_once(kafka: embedded.Kafka) -> None:
    outbox = memory_outbox(kafka)
    with outbox.publisher() as publisher:
        publisher.publish(outbox.write(4, keys=2), Released(3))
        publisher.publish(outbox.write(4, keys=2), Nowhere())
        with closing(AtLeastOncePublisher(outbox.settings, SHARD, outbox.purge)) as successor:
            successor.open(b"", None)
            assert successor.committed is not None
            assert successor.committed.released == 3


def test_what_kafka_has_forgotten_is_taken_from_the_database(kafka: embedded.Kafka) -> None:
    outbox = memory_outbox(kafka)
    with closing(AtLeastOncePublisher(outbox.settings, SHARD, outbox.purge)) as publisher:
        publisher.open(b"", Committed(12, "", 4))
        publisher.renew()
    with outbox.publisher() as publisher:
        assert publisher.committed == Committed(12, "", 4)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, 6),
        ({"limits": {"sessionTimeout": "20s"}}, 20),
        ({"election": "lease"}, 5),
        ({"producer_kafka_config": {"message.timeout.ms": "300000"}}, 6),
        ({"producer_kafka_config": {"delivery.timeout.ms": "0"}}, 6),
        ({"producer_kafka_config": {"delivery.timeout.ms": "3000"}}, 3),
    ],
)
def test_no_record_is_under_way_when_another_may_lead(
    kafka: embedded.Kafka, given: dict[str, Any], seconds: float
) -> None:
    outbox = memory_outbox(kafka, **given)
    assert message_timeout(outbox.settings).total_seconds() == seconds
    with outbox.publisher() as publisher:
        publisher.publish(outbox.write(1, keys=1), Nowhere())
