"""Queues as their users see them, on a real broker. No tracker runs: its markers are read back from their topic."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from confluent_kafka import Producer

from fix_pipeline import received, refuse_larger, wait_for
from fix_queue import markers, offsets_of
from windrow.errors import LeaseLost, MessageInvalid, QueueTopicMissing
from windrow.kafka.clients import client_config, create_topic
from windrow.queue import (
    AsyncQueueConsumer,
    AsyncQueueProducer,
    Lost,
    QueueConsumer,
    QueueMessage,
    QueueProducer,
    QueueSettings,
    Sending,
)
from windrow.queue.control import pause, paused, resume
from windrow.queue.marker_pb2 import Marker

Make = Callable[..., QueueSettings]
WITHIN = 30.0


@pytest.fixture
def settings(make_queue_settings: Make) -> QueueSettings:
    return make_queue_settings()


def send(settings: QueueSettings, queue: str, count: int, **more: object) -> set[bytes]:
    payloads = [str(number).encode() for number in range(count)]
    with QueueProducer(settings) as producer:
        producer.send_many(queue, [Sending(each, **more) for each in payloads] if more else payloads)  # type: ignore[arg-type]
    return set(payloads)


def receive(consumer: QueueConsumer) -> QueueMessage:
    message = consumer.receive(WITHIN)
    assert message is not None
    return message


def test_message_is_received_with_all_its_parts_and_acknowledged(settings: QueueSettings) -> None:
    with QueueProducer(settings) as producer:
        producer.send("emails", "hi", {"lang": "en"}, max_attempts=3, ttl=timedelta(hours=1))
    with QueueConsumer(settings, "emails") as consumer:
        message = receive(consumer)
        assert (message.payload, message.headers, message.attempt, message.queue) == (
            b"hi",
            [("lang", b"en")],
            1,
            "emails",
        )
        message.ack(wait=True)
        message.ack()  # the first word counts
        message.nack()
    started, ended = markers(settings, Marker.START), markers(settings, Marker.END)
    assert offsets_of(started) == offsets_of(ended) == [(message.partition, message.offset)]
    assert started[0].consumer == ended[0].consumer
    assert len(markers(settings)) == 2


def test_cancelled_receive_takes_nothing(settings: QueueSettings) -> None:
    async def scenario() -> bytes | None:
        async with AsyncQueueConsumer(settings, "emails") as consumer, AsyncQueueProducer(settings) as producer:
            assert await consumer.receive(0.1) is None
            waiting = asyncio.create_task(consumer.receive())
            await asyncio.sleep(0.3)
            waiting.cancel()
            await producer.send("emails", "hi")
            message = await consumer.receive(WITHIN)
            assert message is not None
            await asyncio.wrap_future(message.ack_later())
            return message.payload

    assert asyncio.run(scenario()) == b"hi"


def test_two_consumers_share_500_messages(settings: QueueSettings) -> None:
    got: list[list[bytes | None]] = [[], []]
    consumers = [QueueConsumer(settings, "emails") for _ in got]

    def work(number: int) -> None:
        for message in consumers[number]:
            got[number].append(message.payload)
            message.ack()
            time.sleep(0.001)

    threads = [threading.Thread(target=work, args=[number]) for number in range(2)]
    for each in threads:
        each.start()
    time.sleep(1)
    sent = send(settings, "emails", 500)
    wait_for(lambda: len(got[0]) + len(got[1]) >= 500, "500 messages")
    for consumer in consumers:
        consumer.close()
    for each in threads:
        each.join(WITHIN)
    assert sorted(got[0] + got[1], key=str) == sorted(sent, key=str)
    assert got[0]
    assert got[1]
    assert sorted(offsets_of(markers(settings, Marker.START))) == sorted(offsets_of(markers(settings, Marker.END)))


def test_two_queues_stay_apart(settings: QueueSettings) -> None:
    send(settings, "emails", 20)
    send(settings, "invoices", 30)
    for queue, count in (("emails", 20), ("invoices", 30)):
        with QueueConsumer(settings, queue) as consumer:
            messages = [receive(consumer) for _ in range(count)]
            assert consumer.receive(0.5) is None
            for each in messages:
                each.ack()
    assert {each.queue for each in markers(settings)} == {"emails", "invoices"}


def test_a_thousand_queues_share_the_topics(settings: QueueSettings) -> None:
    with QueueProducer(settings) as producer, producer.transaction() as transaction:
        for number in range(1000):
            transaction.send(f"queue-{number}", str(number))
    for number in (0, 500, 999):
        with QueueConsumer(settings, f"queue-{number}") as consumer:
            message = receive(consumer)
            assert message.payload == str(number).encode()
            message.ack()
            assert consumer.receive(0.3) is None


def test_message_of_a_relay_belongs_to_the_queue_that_its_header_names(settings: QueueSettings) -> None:
    producer = Producer(client_config(settings))
    for queue in (b"emails", b"invoices"):
        producer.produce(settings.message_topic, b"for " + queue, headers=[("x-queue", queue)])
    producer.flush(10)
    with QueueConsumer(settings, "emails") as consumer:
        message = receive(consumer)
        assert (message.payload, message.headers) == (b"for emails", [])
        message.ack()
        assert consumer.receive(0.5) is None


def test_words_on_messages_become_markers(settings: QueueSettings) -> None:
    send(settings, "emails", 4)
    with QueueConsumer(settings, "emails") as consumer:
        one, two, three, four = (receive(consumer) for _ in range(4))
        one.nack(delay=timedelta(seconds=5))
        two.reject("no such address")
        three.extend(timedelta(minutes=5))
        three.ack()
        four.ack()
    found = {each.type: each for each in markers(settings)}
    assert found[Marker.RETURN].redeliver_after_ms == 5000
    assert not found[Marker.RETURN].unstarted
    assert found[Marker.REJECT].reason == "no such address"
    assert found[Marker.KEEP_ALIVE].redeliver_after_ms == 300_000
    assert offsets_of([found[Marker.KEEP_ALIVE]]) == [(three.partition, three.offset)]


def test_keep_alives_outlast_the_timeout_by_far_and_end_with_max_processing_time(make_queue_settings: Make) -> None:
    settings = make_queue_settings(redelivery_timeout="2s", max_processing_time="5s")
    lost: list[Lost] = []
    send(settings, "emails", 1)
    with QueueConsumer(settings, "emails", lost.append) as consumer:
        message = receive(consumer)
        time.sleep(4.5)
        assert not lost
        wait_for(lambda: lost, "the lease to be lost")
        assert lost == [Lost("emails", message.partition, message.offset)]
        with pytest.raises(LeaseLost, match="held for too long"):
            message.ack()
        with pytest.raises(LeaseLost):
            message.ack(wait=True)
    assert not markers(settings, Marker.END)
    assert 3 <= len(markers(settings, Marker.KEEP_ALIVE)) <= 20


def test_buffered_messages_are_kept_alive_and_do_not_count_as_processed(make_queue_settings: Make) -> None:
    settings = make_queue_settings(redelivery_timeout="2s", max_processing_time="3s")
    send(settings, "emails", 40)
    with QueueConsumer(settings, "emails") as consumer:
        first = [receive(consumer) for _ in range(20)]
        for each in first:
            each.ack()
        time.sleep(5)
        while (message := consumer.receive(1)) is not None:
            message.ack(wait=True)
        assert consumer.lost == 0
    assert len(set(offsets_of(markers(settings, Marker.END)))) == 40


def test_what_was_not_begun_with_is_handed_back_at_once(settings: QueueSettings) -> None:
    send(settings, "emails", 1000)
    consumer = QueueConsumer(settings, "emails")
    taken = 0
    deadline = time.monotonic() + WITHIN
    while not consumer._buffered() and time.monotonic() < deadline:  # quick at first, so that there is a buffer
        receive(consumer).ack()
        taken += 1
    consumer.close()
    assert consumer.receive(1) is None
    started, ended = offsets_of(markers(settings, Marker.START)), offsets_of(markers(settings, Marker.END))
    returned = markers(settings, Marker.RETURN)
    assert len(ended) == taken < len(started)
    assert sorted(started) == sorted(ended + offsets_of(returned))
    assert all(each.unstarted and not each.redeliver_after_ms for each in returned)


def test_buffer_is_bounded_and_a_slow_handler_hoards_nothing(make_queue_settings: Make) -> None:
    settings = make_queue_settings(consumer_receive_buffer_capacity=50)
    send(settings, "emails", 2000)
    with QueueConsumer(settings, "emails") as consumer:
        for _ in range(1000):
            receive(consumer).ack()
            assert consumer._buffered() <= 50
        slow = receive(consumer)
        time.sleep(1)
        held = len(offsets_of(markers(settings, Marker.START)))
        assert held <= 1001 + 50
        slow.ack()
    with QueueConsumer(settings, "emails") as consumer:
        receive(consumer).ack()
        time.sleep(0.5)
        one = receive(consumer)
        time.sleep(1)
        assert consumer._buffered() <= 2
        one.ack()


def test_message_past_its_time_to_live_is_rejected(settings: QueueSettings) -> None:
    send(settings, "emails", 3, ttl=timedelta(milliseconds=100))
    time.sleep(0.3)
    with QueueProducer(settings) as producer:
        producer.send("emails", "fresh", ttl=timedelta(hours=1))
    with QueueConsumer(settings, "emails") as consumer:
        message = receive(consumer)
        assert message.payload == b"fresh"
        message.ack()
        assert consumer.receive(0.5) is None
    rejected = markers(settings, Marker.REJECT)
    assert len(offsets_of(rejected)) == 3
    assert {each.reason for each in rejected} == {"time to live is over"}


def test_delayed_message_is_carried_in_the_markers_topic(settings: QueueSettings) -> None:
    with QueueProducer(settings) as producer:
        producer.send("emails", "later", {"lang": "en"}, delay=timedelta(seconds=7), max_attempts=2)
    (carry,) = markers(settings, Marker.CARRY)
    assert carry.redeliver_after_ms == 7000
    assert (carry.carried.key, carry.carried.value, carry.carried.returned) == (b"emails", b"later", True)
    assert {each.name for each in carry.carried.headers} == {"lang", "x-max-attempts"}
    assert not received(settings, settings.message_topic)  # type: ignore[arg-type]


def test_paused_queue_hands_nothing_out_and_gives_back(settings: QueueSettings) -> None:
    send(settings, "emails", 1)
    with QueueConsumer(settings, "emails") as consumer:
        receive(consumer).ack()
        pause(settings, "emails")
        assert paused(settings) == {"emails"}
        wait_for(lambda: consumer.paused, "the consumer to pause", 1)
        send(settings, "emails", 5)
        assert consumer.receive(1) is None
        assert not consumer._buffered()
        resume(settings, "emails")
        for _ in range(5):
            receive(consumer).ack()
    assert paused(settings) == set()


def test_rebalance_in_mid_batch_drops_the_batch_and_loses_nothing(make_queue_settings: Make) -> None:
    settings = make_queue_settings(partitions=4)
    got: list[bytes | None] = []

    def work(consumer: QueueConsumer) -> None:
        for message in consumer:
            got.append(message.payload)
            message.ack()

    first = QueueConsumer(settings, "emails")
    threads = [threading.Thread(target=work, args=[first])]
    threads[0].start()
    sender = threading.Thread(target=lambda: [send(settings, "emails", 2000) for _ in range(5)])
    sender.start()
    others = []
    for _ in range(3):  # each of them moves the group on while batches are under way
        others.append(QueueConsumer(settings, "emails"))
        threads.append(threading.Thread(target=work, args=[others[-1]]))
        threads[-1].start()
        time.sleep(0.5)
    others[0].close()
    sender.join()
    wait_for(lambda: len(offsets_of(markers(settings, Marker.END, Marker.RETURN))) >= 10_000, "all words", 60)
    for each in (first, *others):
        each.close()
    for each in threads:
        each.join(WITHIN)
    started = offsets_of(markers(settings, Marker.START))
    over = offsets_of(markers(settings, Marker.END)) + offsets_of(markers(settings, Marker.RETURN))
    assert len(started) == len(set(started)) == 10_000
    assert sorted(over) == sorted(started)


def test_payload_too_large_is_refused_with_the_limit(settings: QueueSettings) -> None:
    with QueueProducer(settings) as producer:
        with pytest.raises(MessageInvalid, match=r"1,000,001 bytes are more than 1,000,000"):
            producer.send("emails", b"x" * 1_000_001)
        refuse_larger(settings, settings.message_topic, 1000)  # type: ignore[arg-type]
        with pytest.raises(MessageInvalid, match=r"at most 1,000 bytes \(max.message.bytes\)"):
            producer.send("emails", os.urandom(10_000))
        producer.send("emails", b"small")


@pytest.mark.parametrize("name", ["", "x" * 201, "\ud800", "a\0b"])
def test_name_of_no_queue_is_refused(settings: QueueSettings, name: str) -> None:
    with QueueProducer(settings) as producer, pytest.raises(MessageInvalid, match="queue"):
        producer.send(name, b"")
    with pytest.raises(MessageInvalid, match="queue"):
        QueueConsumer(settings, name)


def test_transaction_sends_all_or_nothing(settings: QueueSettings) -> None:
    own = f"{settings.message_topic}.own"
    create_topic(settings, own, 1)
    with QueueProducer(settings) as producer:
        with suppress(ZeroDivisionError), producer.transaction() as transaction:
            transaction.send("emails", "never")
            transaction.produce(own, 1 // 0 * "never")
        with producer.transaction() as transaction:
            transaction.send("emails", "hi")
            transaction.produce(own, "mine", key="k")
    with QueueConsumer(settings, "emails") as consumer:
        message = receive(consumer)
        assert message.payload == b"hi"
        message.ack()
        assert consumer.receive(0.5) is None
    assert [each.value() for each in received(settings, own)] == [b"mine"]  # type: ignore[arg-type]


def test_messages_are_spread_evenly(make_queue_settings: Make) -> None:
    settings = make_queue_settings(partitions=4)
    send(settings, "emails", 10_000)
    counts = [0] * 4
    for each in received(settings, settings.message_topic):  # type: ignore[arg-type]
        counts[each.partition() or 0] += 1
    assert min(counts) > 2000


def test_topics_that_are_not_there_are_told(settings: QueueSettings) -> None:
    elsewhere = QueueSettings(base_kafka_config=settings.base_kafka_config, message_topic="nowhere")
    with QueueProducer(elsewhere) as producer, pytest.raises(QueueTopicMissing, match="windrow queue init"):
        producer.send("emails", b"")
