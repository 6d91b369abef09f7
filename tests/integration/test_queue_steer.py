"""Queues seen and steered from outside, without a tracker: what it would do follows from the log as well."""

import json
import threading
from contextlib import closing
from datetime import timedelta
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from fix_command import windrow
from fix_pipeline import wait_for
from windrow import embedded
from windrow.errors import UserError
from windrow.kafka.clients import client_config
from windrow.observe.metrics import exposition
from windrow.queue.consumer import QueueConsumer
from windrow.queue.control import pause
from windrow.queue.dead_letter import dead_letters, discard, replay
from windrow.queue.exposure import samples_of_queues, tracker_lag
from windrow.queue.overview import Overview, QueueFigures, overview, waiting
from windrow.queue.producer import QueueProducer
from windrow.queue.settings import QueueSettings
from windrow.queue.topics import create_topics


@pytest.fixture
def settings(kafka: embedded.Kafka) -> QueueSettings:
    made = QueueSettings(base_kafka_config=kafka.client_config, message_topic=f"queue_{uuid4().hex[:8]}")
    create_topics(made, partitions=2, marker_partitions=2)
    return made


@pytest.fixture
def config(settings: QueueSettings) -> tuple[str, ...]:
    servers = settings.base_kafka_config["bootstrap.servers"]
    return ("--bootstrap-servers", servers, "--message-topic", settings.message_topic)


def send(settings: QueueSettings, queue: str, *payloads: str, delay: timedelta | None = None) -> None:
    with QueueProducer(settings) as producer:
        for each in payloads:
            producer.send(queue, each, delay=delay)


def figures(settings: QueueSettings, queue: str) -> QueueFigures:
    return overview(settings, [queue])[0]


def bury(settings: QueueSettings, queue: str, payload: str, reason: str) -> None:
    """A letter as the tracker writes it."""
    producer = Producer(client_config(settings))
    headers = {"x-attempt": "5", "x-dead-letter-reason": reason, "own": "kept"}
    producer.produce(settings.dead_letter_topic, payload, queue, headers=headers)
    assert producer.flush(10) == 0


def test_messages_wait_are_held_and_are_gone(settings: QueueSettings) -> None:
    send(settings, "emails", "one", "two", "three")
    send(settings, "other", "not mine")
    assert figures(settings, "emails").depth == 3
    with QueueConsumer(settings, "emails") as consumer:
        held = [consumer.receive(20) for _ in range(3)]
        now = figures(settings, "emails")
        assert (now.depth, now.in_flight, now.consumers) == (0, 3, 1)
        for each in held:
            assert each
            each.ack(wait=True)
        assert figures(settings, "emails").in_flight == 0
    assert figures(settings, "emails").consumers == 0


def test_delayed_messages_are_told_apart(settings: QueueSettings) -> None:
    send(settings, "emails", "later", delay=timedelta(hours=1))
    now = figures(settings, "emails")
    assert (now.depth, now.delayed, now.in_flight) == (0, 1, 0)


def test_all_queues_are_found_also_those_that_nobody_consumes(settings: QueueSettings) -> None:
    send(settings, "a", "one")
    send(settings, "b", "one", "two")
    pause(settings, "c")
    bury(settings, "d", "dead", "of no use")
    found = {each.queue: each for each in overview(settings)}
    assert {name: each.depth for name, each in found.items()} == {"a": 1, "b": 2, "c": 0, "d": 0}
    assert [name for name, each in found.items() if each.paused] == ["c"]
    assert found["d"].dead_letters == 1
    assert 0 <= found["b"].oldest_age < 600
    shown = exposition(samples_of_queues(settings, [*found.values()], tracker_lag(settings)))
    mine = f'topic="{settings.message_topic}"'
    assert f'windrow_queue_depth_messages{{queue="b",{mine}}} 2.0' in shown
    assert f'windrow_tracker_lag_markers{{partition="1",{mine}}} 0.0' in shown


def test_who_looks_again_reads_what_has_come_since(settings: QueueSettings) -> None:
    kept, read = Overview(settings), list[int]()

    def look() -> dict[str, int]:
        before = len(read)
        found = {each.queue: each.depth for each in kept.look(lambda done, _: read.append(done))}
        read[before:] = read[-1:] if len(read) > before else [0]
        return found

    send(settings, "a", "one", "two", "three")
    assert look() == {"a": 3}
    send(settings, "b", "one")
    assert look() == {"a": 3, "b": 1}
    with QueueConsumer(settings, "a") as consumer:
        for _ in range(3):
            message = consumer.receive(20)
            assert message
            message.ack(wait=True)
        assert look() == {"a": 0, "b": 1}
    send(settings, "a", "four")
    assert look() == {"a": 1, "b": 1}
    assert read == [3, 1, 0, 1]


def test_what_is_to_be_taken_again_waits_again_and_what_is_deleted_does_not(settings: QueueSettings) -> None:
    kept = Overview(settings)
    send(settings, "a", "one", "two")
    with QueueConsumer(settings, "a") as consumer:
        for _ in range(2):
            message = consumer.receive(20)
            assert message
            message.ack(wait=True)
    assert [each.depth for each in kept.look()] == [0]
    admin, topic = AdminClient(client_config(settings)), settings.message_topic
    with closing(Consumer(client_config(settings, {"group.id": settings.group("a")}))) as again:
        again.commit(offsets=[TopicPartition(topic, each, 0) for each in range(2)], asynchronous=False)
    assert [each.depth for each in kept.look()] == [2]
    for deletion in admin.delete_records([TopicPartition(topic, each, -1) for each in range(2)]).values():
        deletion.result(10)
    assert [each.depth for each in kept.look()] == [0]


def test_peeking_takes_nothing(settings: QueueSettings) -> None:
    send(settings, "emails", "one", "two")
    for _ in range(2):
        assert sorted(each.value or b"" for each in waiting(settings, "emails")) == [b"one", b"two"]


def test_letter_comes_back_once_and_fresh(settings: QueueSettings) -> None:
    bury(settings, "emails", "again", "too often")
    bury(settings, "emails", "stay", "too often")
    bury(settings, "other", "not mine", "too often")
    (letter, _) = dead_letters(settings, "emails")
    assert (letter.reason, letter.attempts, letter.payload) == ("too often", 5, b"again")
    assert replay(settings, "emails", [letter.id]) == 1
    with pytest.raises(UserError, match=letter.id):
        replay(settings, "emails", [letter.id])
    with QueueConsumer(settings, "emails") as consumer:
        message = consumer.receive(20)
        assert message
        assert (message.payload, message.attempt, message.headers) == (b"again", 1, [("own", b"kept")])
        message.ack(wait=True)
        assert consumer.receive(0.5) is None
    assert {each.payload for each in dead_letters(settings)} == {b"stay", b"not mine"}
    assert discard(settings, "emails") == 1
    assert [each.queue for each in dead_letters(settings)] == ["other"]


def test_two_who_replay_at_a_time_send_no_letter_twice(settings: QueueSettings) -> None:
    for number in range(50):
        bury(settings, "emails", str(number), "too often")
    failures: list[BaseException] = []

    def run() -> None:
        try:
            replay(settings, "emails")
        except Exception as error:  # noqa: BLE001 - one of them may be fenced
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    replay(settings, "emails")
    assert sorted(int(each.value or b"") for each in waiting(settings, "emails")) == list(range(50))
    assert len(failures) <= 1


def test_commands_show_and_steer(settings: QueueSettings, config: tuple[str, ...]) -> None:
    send(settings, "emails", "one")
    bury(settings, "emails", "dead", "too often")
    listed = [json.loads(line) for line in windrow("queue", "list", *config, "--json").stdout.splitlines()]
    assert [(each["queue"], each["depth"], each["dead_letters"]) for each in listed] == [("emails", 1, 1)]
    assert "emails" in windrow("queue", "show", "emails", *config).stdout
    peeked = json.loads(windrow("queue", "peek", "emails", *config, "--json").stdout)
    assert (peeked["payload"], peeked["attempt"]) == ("one", 1)
    assert windrow("queue", "pause", "emails", *config).returncode == 0
    drained = windrow("queue", "drain", "emails", *config, "--timeout", "1s")
    assert drained.returncode == 1
    assert "paused" in drained.stderr
    assert windrow("queue", "resume", "emails", *config).returncode == 0
    assert not figures(settings, "emails").paused
    letters = json.loads(windrow("queue", "dead-letters", "emails", *config, "--json").stdout)
    assert (letters["reason"], letters["payload"]) == ("too often", "dead")
    assert windrow("queue", "replay", "emails", *config).returncode == 2
    assert "1 letters" in windrow("queue", "replay", "emails", letters["id"], *config).stderr
    with QueueConsumer(settings, "emails") as consumer:
        for _ in range(2):
            message = consumer.receive(20)
            assert message
            message.ack(wait=True)
    wait_for(lambda: windrow("queue", "drain", "emails", *config, "--timeout", "1s").returncode == 0, "drained", 20)
