"""Workers, the outbox's way to queues, and the how-to's examples; with a tracker where messages come again."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from fix_pipeline import Pipeline, wait_for
from fix_queue import Queues, header
from fix_snippets import code
from windrow.cli import windrow
from windrow.errors import MessageInvalid
from windrow.outbox import AsyncOutbox, queue_message
from windrow.queue import Queue, QueueConsumer, QueueMessage, QueueProducer, QueueSettings, Reject, Worker
from windrow.testing import AsyncRecordingOutbox, RecordingOutbox

EXAMPLES = code("docs/how-to/queues.md")


@contextmanager
def working(worker: Worker) -> Iterator[None]:
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_worker_retries_rejects_and_acknowledges(make_queues: Callable[..., Queues], kind: str) -> None:
    queues = make_queues(max_attempts=3)
    calls: list[tuple[bytes | None, int]] = []
    queue = Queue(queues.settings, "emails")

    def handle(message: QueueMessage) -> None:
        calls.append((message.payload, message.attempt))
        if message.payload == b"spam":
            raise Reject("of no use")
        if message.payload == b"flaky" and message.attempt == 1:
            raise ValueError("not today")
        if message.payload == b"bad":
            raise ValueError("never")

    async def handle_async(message: QueueMessage) -> None:
        await asyncio.sleep(0)
        handle(message)

    worker = queue.worker(concurrency=3, first_retry_after=timedelta(milliseconds=50))(
        handle_async if kind == "asyncio" else handle
    )
    with queue.producer() as producer:
        producer.send_many("emails", [b"fine", b"spam", b"flaky", b"bad"])
    with queues.tracker(), working(worker):
        wait_for(lambda: len(queues.dead_letters()) == 2 and len(calls) == 7, "all calls")
    assert sorted(calls, key=str) == sorted(
        [(b"fine", 1), (b"spam", 1), (b"flaky", 1), (b"flaky", 2), (b"bad", 1), (b"bad", 2), (b"bad", 3)], key=str
    )
    reasons = {each.value(): header(each, "x-dead-letter-reason") or "" for each in queues.dead_letters()}
    assert reasons[b"spam"] == "of no use"
    assert set(reasons) == {b"spam", b"bad"}


def test_interrupted_consumers_messages_and_delayed_ones_are_delivered(make_queues: Callable[..., Queues]) -> None:
    queues = make_queues(redelivery_timeout="2s")
    with QueueProducer(queues.settings) as producer, queues.tracker():
        producer.send("emails", "held")
        consumer = QueueConsumer(queues.settings, "emails")
        held = consumer.receive(30)
        assert held is not None
        consumer.close(timedelta())  # as if it had died with the message in hand
        producer.send("emails", "later", delay=timedelta(seconds=1))
        began = time.monotonic()
        with QueueConsumer(queues.settings, "emails") as other:
            got = {}
            for _ in range(2):
                message = other.receive(60)
                assert message is not None
                got[message.payload] = (message.attempt, time.monotonic() - began)
                message.ack(wait=True)
            assert other.receive(1) is None
    assert (got[b"held"][0], got[b"later"][0]) == (2, 1)
    assert got[b"later"][1] > 0.9


def test_message_through_the_outbox_is_received_when_its_transaction_commits(
    pipeline: Pipeline, make_queue_settings: Callable[..., QueueSettings]
) -> None:
    settings = make_queue_settings()
    pipeline.outbox.queue_topic = settings.message_topic
    with pipeline.relay() as relay, QueueConsumer(settings, "emails") as consumer:
        with suppress(ZeroDivisionError), pipeline.connect() as connection:
            pipeline.outbox.write(connection, "rolled back", queue="emails")
            _ = 1 // 0
        with pipeline.connect() as connection:
            pipeline.outbox.write(connection, "committed", queue="emails")
            assert consumer.receive(1) is None
        pipeline.write(queue_message("emails", "limited", {"a": "b"}, max_attempts=1, topic=settings.message_topic))
        pipeline.wait_published(relay, 2)
        got = [consumer.receive(30) for _ in range(2)]
        assert {each.payload: dict(each.headers).get("a") for each in got if each} == {
            b"committed": None,
            b"limited": b"b",
        }
        for each in got:
            if each:
                each.ack()
        assert consumer.receive(1) is None


def test_recording_outboxes_take_messages_for_queues() -> None:
    outbox = RecordingOutbox()
    outbox.write(None, "hi", queue="emails")
    outbox.assert_written("windrow.queue", "hi", None, headers=[("x-queue", "emails")])
    recording = AsyncRecordingOutbox(queue_topic="other")
    asyncio.run(recording.write(None, "hi", queue="emails"))
    recording.assert_written("other", "hi")
    with pytest.raises(MessageInvalid, match="queue_message"):
        outbox.write(None, queue_message("emails", "hi"), queue="emails")
    with pytest.raises(MessageInvalid, match="give a Message"):
        outbox.write(None, "hi")
    assert AsyncOutbox(queue_topic="other").queue_topic == "other"


def test_how_to_runs_as_it_stands(
    make_queue_settings: Callable[..., QueueSettings], capsys: pytest.CaptureFixture[str]
) -> None:
    settings = make_queue_settings()
    servers = settings.base_kafka_config["bootstrap.servers"]
    names: dict[str, Any] = {"__name__": "example"}
    for example in EXAMPLES:
        here = example.replace("localhost:9092", servers).replace(
            f'"{servers}"}})', f'"{servers}"}}, message_topic="{settings.message_topic}")'
        )
        exec(compile(here, "example", "exec"), names)  # noqa: S102 - our own
    printed = capsys.readouterr().out
    assert all(f"to: {name}" in printed for name in ("ada", "cy", "dan", "eve"))
    assert "to: bob" not in printed
    with QueueProducer(settings) as producer, working(names["deliver"]):
        producer.send("emails", "to: fay")
        wait_for(lambda: "to: fay" in capsys.readouterr().out, "the worker")


def test_commands_send_and_refuse(make_queue_settings: Callable[..., QueueSettings]) -> None:
    settings = make_queue_settings()
    options = [
        "--bootstrap-servers",
        settings.base_kafka_config["bootstrap.servers"],
        "--message-topic",
        settings.message_topic,
    ]
    sent = CliRunner().invoke(windrow, ["queue", "send", "emails", "hi", "--header", "a=b", "--ttl", "1h", *options])
    assert sent.exit_code == 0, sent.output
    with QueueConsumer(settings, "emails") as consumer:
        message = consumer.receive(30)
        assert message is not None
        assert (message.payload, message.headers) == (b"hi", [("a", b"b")])
        message.ack()
    refused = CliRunner().invoke(windrow, ["queue", "work", "emails", "nowhere:handler", *options])
    assert "nowhere:handler" in str(refused.exception)
