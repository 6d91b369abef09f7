"""A tracker on a real broker and Spark; the markers of consumers are written by hand."""

import time
from collections.abc import Callable, Iterator
from urllib.request import urlopen
from uuid import uuid4

import pytest
from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from fix_pipeline import refuse_larger, wait_for
from fix_queue import Queues, header, queues_on, values
from windrow import embedded
from windrow.kafka.clients import client_config
from windrow.parse import Address
from windrow.queue.exposure import exposed
from windrow.queue.marker import encode
from windrow.queue.marker_pb2 import Carried, Header, Marker, Span
from windrow.queue.runs import unpack
from windrow.queue.tracker import Tracker

SHORT = 0.5


@pytest.fixture(scope="module")
def tracked(kafka: embedded.Kafka, spark: SparkSession) -> Iterator[Queues]:
    """Queues with a tracker that runs for all tests of this module; each has a queue of its own."""
    queues = queues_on(kafka.client_config, spark, marker_partitions=2)
    with queues.tracker():
        yield queues


@pytest.fixture
def name() -> str:
    return uuid4().hex


def of(messages: list[Message], name: str) -> list[Message]:
    return [each for each in messages if each.key() == name.encode()]


def wait_for_copies(queues: Queues, name: str, number: int) -> list[Message]:
    wait_for(lambda: len(of(queues.copies(), name)) >= number, f"{number} copies")
    return of(queues.copies(), name)


def wait_for_letters(queues: Queues, name: str, number: int = 1) -> list[Message]:
    wait_for(lambda: len(of(queues.dead_letters(), name)) >= number, f"{number} dead letters")
    return of(queues.dead_letters(), name)


def time_of(message: Message) -> int:
    return message.timestamp()[1]


def test_queues_are_shown_by_any_tracker(tracked: Queues, name: str) -> None:
    tracked.send("shown", queue=name)
    with exposed(Tracker(tracked.settings, tracked.spark), Address("127.0.0.1", 0)) as server:

        def shown() -> str:
            with urlopen(f"http://{server.address}/metrics", timeout=20) as answer:
                return answer.read().decode()

        mine = f'topic="{tracked.settings.message_topic}"'
        wait_for(lambda: f'windrow_queue_depth_messages{{queue="{name}",{mine}}} 1.0' in shown(), "the queue")
        assert f"windrow_tracker_leader{{{mine}}} 0.0" in shown()
        assert f'windrow_tracker_lag_markers{{partition="1",{mine}}}' in shown()


def test_what_nobody_acknowledges_is_redelivered_once_and_the_rest_never(tracked: Queues, name: str) -> None:
    offsets = tracked.send(*"01234", queue=name, headers={"trace": b"x"})
    lease = tracked.lease()
    began = tracked.mark("START", lease, offsets, after=SHORT, queue=name)
    tracked.mark("END", lease, [offsets[0], offsets[1], offsets[4]], queue=name)
    copies = wait_for_copies(tracked, name, 2)
    assert all(time_of(each) > time_of(began) + SHORT * 1000 for each in copies)
    tracked.mark("END", lease, [offsets[2]], queue=name)
    for each in copies:  # in any partition
        place = {"offsets": [each.offset() or 0], "partition": each.partition()}
        tracked.mark("START", tracked.lease(), after=30, queue=name, **place)
    time.sleep(2 * SHORT)
    copies = of(tracked.copies(), name)
    assert values(copies) == [b"2", b"3"]
    assert {(header(each, "trace"), header(each, "x-attempt")) for each in copies} == {("x", "2")}


def test_kept_alive_far_beyond_its_time_it_is_not_redelivered(tracked: Queues, name: str) -> None:
    lease, offsets = tracked.lease(), tracked.send("a", "b", "c", queue=name)
    tracked.mark("START", lease, offsets, after=SHORT, queue=name)
    for _ in range(15):
        time.sleep(SHORT / 2.5)
        tracked.mark("KEEP_ALIVE", lease, offsets[:2], after=SHORT, queue=name)
    tracked.mark("END", lease, offsets[:1], queue=name)
    assert values(wait_for_copies(tracked, name, 2)) == [b"b", b"c"]


def test_returned_message_waits_its_delay_and_one_that_was_not_begun_keeps_its_attempt(
    tracked: Queues, name: str
) -> None:
    lease, offsets = tracked.lease(), tracked.send("nacked", "unstarted", queue=name)
    tracked.mark("START", lease, offsets, after=60, queue=name)
    nacked = tracked.mark("RETURN", lease, offsets[:1], after=1, queue=name)
    returned = tracked.mark("RETURN", lease, offsets[1:], queue=name, unstarted=True)
    copies = {each.value(): each for each in wait_for_copies(tracked, name, 2)}
    assert [header(copies[each], "x-attempt") for each in (b"nacked", b"unstarted")] == ["2", "1"]
    assert time_of(copies[b"nacked"]) - time_of(nacked) > 1000
    assert time_of(copies[b"unstarted"]) - time_of(returned) < 30_000


def test_rejected_message_goes_to_the_dead_letters_with_its_reason(tracked: Queues, name: str) -> None:
    lease, offsets = tracked.lease(), tracked.send("bad", "good", queue=name)
    tracked.mark("START", lease, offsets, after=60, queue=name)
    tracked.mark("REJECT", lease, offsets[:1], queue=name, reason="no such customer")
    (letter,) = wait_for_letters(tracked, name)
    assert (letter.value(), header(letter, "x-dead-letter-reason")) == (b"bad", "no such customer")
    assert int(header(letter, "x-dead-letter-time") or 0) <= time_of(letter)
    assert of(tracked.copies(), name) == []


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"x-attempt": "5"}, "not acknowledged in 5 attempts"),
        ({"x-attempt": "2", "x-max-attempts": "2"}, "not acknowledged in 2 attempts"),
        ({"x-ttl-ms": "100"}, "not handled in its time to live, 100 ms"),
        ({"x-ttl-ms": "5000", "x-sent-ms": "1000"}, "not handled in its time to live, 5000 ms"),
    ],
)
def test_message_past_its_attempts_or_its_time_becomes_a_dead_letter(
    tracked: Queues, name: str, headers: dict[str, str], reason: str
) -> None:
    offsets = tracked.send("old", queue=name, headers=headers)
    tracked.mark("START", tracked.lease(), offsets, after=SHORT, queue=name)
    (letter,) = wait_for_letters(tracked, name)
    assert header(letter, "x-dead-letter-reason") == reason
    assert header(letter, "x-attempt") == headers.get("x-attempt", "1")


def test_delayed_message_arrives_after_its_delay_as_it_was_sent(tracked: Queues, name: str) -> None:
    carried = Carried(key=name.encode(), value=b"later", returned=True, unstarted=True)
    carried.headers.append(Header(name="color", value=b"red"))
    marker = Marker(type=Marker.CARRY, queue=name, consumer=uuid4().bytes, spans=[Span()], redeliver_after_ms=1000)
    marker.carried.CopyFrom(carried)
    sent = tracked.write(encode(marker), 1)
    (copy,) = wait_for_copies(tracked, name, 1)
    assert time_of(copy) - time_of(sent) > 1000
    assert (copy.value(), header(copy, "color"), header(copy, "x-attempt")) == (b"later", "red", "1")
    assert header(copy, "x-sent-ms") == str(time_of(sent))


def test_message_without_a_key_is_copied_without_one(tracked: Queues, name: str) -> None:
    offsets = tracked.send("outboxed", queue=None, headers={"x-queue": name})  # type: ignore[arg-type]
    tracked.mark("START", tracked.lease(), offsets, after=SHORT, queue=name)
    wait_for(lambda: any(header(each, "x-queue") == name for each in tracked.copies()), "a copy")
    (copy,) = (each for each in tracked.copies() if header(each, "x-queue") == name)
    assert (copy.key(), copy.value()) == (None, b"outboxed")


def test_aborted_markers_do_not_count_and_an_open_transaction_only_delays(tracked: Queues, name: str) -> None:
    lease, offsets = tracked.lease(), tracked.send("acked", "forgotten", queue=name)
    start = tracked.marker("START", lease, offsets, after=SHORT, queue=name)
    partition = tracked.partition_of(start)
    producer = Producer(client_config(tracked.settings, {"transactional.id": uuid4().hex}))
    producer.init_transactions(30)
    for outcome in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(tracked.settings.marker_topic, encode(start), partition=partition)
        producer.flush()
        if outcome == producer.commit_transaction:
            tracked.mark("END", lease, offsets[:1], queue=name)
            time.sleep(3 * SHORT)
            assert of(tracked.messages(), name)[2:] == []
        outcome()
    assert values(wait_for_copies(tracked, name, 1)) == [b"forgotten"]
    time.sleep(SHORT)
    assert values(of(tracked.copies(), name)) == [b"forgotten"]


def test_malformed_markers_are_skipped(tracked: Queues, name: str) -> None:
    lease, offsets = tracked.lease(), tracked.send("survivor", queue=name)
    start = tracked.marker("START", lease, offsets, after=SHORT, queue=name)
    partition = tracked.partition_of(start)
    for content in (b"", b"\xff\xff\xff", b"nonsense", encode(Marker(type=Marker.START, queue=name))):
        tracked.write(content, partition)
    tracked.mark("END", 999, [1, 2, 3], queue=name)
    tracked.write(encode(start), partition)
    assert values(wait_for_copies(tracked, name, 1)) == [b"survivor"]


def test_message_that_was_deleted_from_its_topic_holds_nobody_up(make_queues: Callable[..., Queues]) -> None:
    queues = make_queues()
    offsets = queues.send("gone", "gone too", "here")
    admin = AdminClient(client_config(queues.settings))
    upto = TopicPartition(queues.settings.message_topic, 0, offsets[2])
    admin.delete_records([upto])[upto].result(30)
    queues.mark("START", queues.lease(), [*offsets, 1000, 1001], after=SHORT)
    queues.mark("START", queues.lease(), offsets, partition=99, after=SHORT)
    with queues.tracker():
        assert values(queues.wait_for_copies(1)) == [b"here"]
    assert sum(len(unpack(span.offset, span.runs)) for end in queues.markers(Marker.END) for span in end.spans) == 8


def test_copy_that_kafka_refuses_becomes_a_dead_letter_and_the_rest_goes_on(make_queues: Callable[..., Queues]) -> None:
    queues = make_queues()
    offsets = queues.send("a", "b" * 50_000, "c", "d" * 100_000)
    queues.mark("START", queues.lease(), offsets, after=SHORT)
    refuse_larger(queues.settings, queues.settings.message_topic, 20_000)  # type: ignore[arg-type]
    refuse_larger(queues.settings, queues.settings.dead_letter_topic, 70_000)  # type: ignore[arg-type]
    with queues.tracker():
        assert values(queues.wait_for_copies(2)) == [b"a", b"c"]
        wait_for(queues.dead_letters, "the dead letter")
        (letter,) = queues.dead_letters()
        assert (header(letter, "x-dead-letter-reason") or "").startswith("refused by Kafka")
        assert letter.value() == b"b" * 50_000
        refuse_larger(queues.settings, queues.settings.dead_letter_topic, 200_000)  # type: ignore[arg-type]
    with queues.tracker():
        wait_for(lambda: len(queues.dead_letters()) == 2, "the other dead letter, now that it is taken")
    (count,) = queues.markers(Marker.TALLY)[-1].counts
    assert (count.queue, count.redelivered, count.dead_lettered) == ("jobs", 2, 2)


def test_long_held_messages_are_carried_and_outlive_their_topic(make_queues: Callable[..., Queues]) -> None:
    queues = make_queues(redelivery_tracker={"carryAfter": "400ms"}, partitions=1)
    refuse_larger(queues.settings, queues.settings.message_topic, 2_000_000)  # type: ignore[arg-type]
    lease, offsets = queues.lease(), queues.send("lost", "ended", "kept", "huge" * 300_000, headers={"color": "red"})
    with queues.tracker():
        queues.mark("START", lease, offsets, after=10)
        wait_for(lambda: len(queues.markers(Marker.CARRY)) >= 3, "messages to be carried")
        queues.mark("KEEP_ALIVE", lease, offsets, after=7)
        queues.mark("END", lease, [offsets[1]])
        admin = AdminClient(client_config(queues.settings))
        upto = TopicPartition(queues.settings.message_topic, 0, offsets[3])
        admin.delete_records([upto])[upto].result(30)
        wait_for(lambda: len(queues.markers(Marker.CARRY)) >= 5, "messages to be carried again")
    with queues.tracker():
        copies = queues.wait_for_copies(3)
    assert {(each.value() or b"")[:4] for each in copies} == {b"huge", b"lost", b"kept"}
    assert {header(each, "color") for each in copies} == {"red"}
    assert {header(each, "x-attempt") for each in copies} == {"2"}


def test_offset_goes_on_past_what_is_carried(make_queues: Callable[..., Queues]) -> None:
    queues = make_queues(redelivery_tracker={"carryAfter": "400ms", "numOffsetsPerCommit": 1})
    lease, offsets = queues.lease(), queues.send("slow")
    start = queues.mark("START", lease, offsets, after=60)
    with queues.tracker():
        wait_for(lambda: queues.markers(Marker.CARRY), "the message to be carried")
        other, more = queues.lease(), queues.send("quick")
        queues.mark("START", other, more, after=60)
        queues.mark("END", other, more)
        wait_for(lambda: queues.committed()[0] > (start.offset() or 0), "the offset to go on")
        queues.mark("RETURN", lease, offsets)
        assert values(queues.wait_for_copies(1)) == [b"slow"]


def test_restart_with_a_backlog_redelivers_only_what_was_not_ended_in_time(make_queues: Callable[..., Queues]) -> None:
    queues = make_queues(marker_partitions=1)
    offsets = queues.send(*(str(number) for number in range(3000)))
    for begin in range(0, 3000, 10):
        lease, some = queues.lease(), offsets[begin : begin + 10]
        last = queues.mark("START", lease, some, after=1)
        queues.mark("END", lease, [each for each in some if each % 100])
    queues.mark("START", lease := queues.lease(), [offsets[7]], after=0.001)
    wait_for(lambda: time_of(queues.mark("KEEP_ALIVE", 0, [0])) > time_of(last) + 1000, "everything to be over")
    queues.mark("END", lease, [offsets[7]])
    with queues.tracker():
        queues.wait_for_copies(31)
        time.sleep(1)
        assert values(queues.copies()) == values_of(offsets[7], *offsets[::100])


def values_of(*numbers: int) -> list[bytes]:
    return sorted((str(number).encode() for number in numbers), key=str)


def test_tracker_that_has_nothing_to_watch_writes_nothing(make_queues: Callable[..., Queues]) -> None:
    queues = make_queues(redelivery_tracker={"useNowIfNoMarkerSeen": "100ms"})
    lease, offsets = queues.lease(), queues.send("a")
    queues.mark("START", lease, offsets, after=1)
    with queues.tracker():
        queues.mark("END", lease, offsets)
        wait_for(lambda: queues.markers(Marker.TICK), "the first tick")
        wait_for(lambda: queues.committed()[0] >= 2, "the offset of the markers that are over")
        before = len(queues.markers())
        time.sleep(1.5)
        assert len(queues.markers()) == before


def test_standby_takes_over_from_a_tracker_that_is_stopped(make_queues: Callable[..., Queues]) -> None:
    queues = make_queues()
    with queues.tracker() as first:
        second = Tracker(queues.settings, queues.spark)
        second.start()
        try:
            wait_for(lambda: first.epochs == 2, "the first to go on in the group's new generation")
            offsets = queues.send("a")
            queues.mark("START", queues.lease(), offsets, after=SHORT)
            assert values(queues.wait_for_copies(1)) == [b"a"]
            first.stop()
            wait_for(lambda: second.is_leader, "the second to lead")
            offsets = queues.send("b")
            queues.mark("START", queues.lease(), offsets, after=SHORT)
            assert values(queues.wait_for_copies(2)) == [b"a", b"b"]
        finally:
            second.stop()
        second.wait()
