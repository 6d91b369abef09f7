"""One trace from the writer's span to the consumer's handler, by the real SDK, through Kafka and Spark."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry import trace

from fix_pipeline import Pipeline, limit_message_size, wait_for
from fix_tracing import Spans, TaskSpans
from windrow import Outbox
from windrow.dispatch import Dispatcher
from windrow.inbox import ConsumerSettings, Inbox, InboxConsumer
from windrow.publish.dead_letter import DeadLetters

Made = Callable[..., Pipeline]


def consume(pipeline: Pipeline, handler: Callable[[Any, Any], object], count: int) -> None:
    """Have so many messages handled by a consumer with an inbox."""
    name = pipeline.settings.name
    settings = ConsumerSettings(
        base_kafka_config=pipeline.settings.base_kafka_config,
        group=f"{name}.group",
        topics=(pipeline.topic,),
        data_source=pipeline.settings.data_source,
        inbox_table=f"{name}_inbox",
    )
    with pipeline.connect() as connection:
        Inbox(settings.group, settings.inbox_table).create(connection)
    handled: list[object] = []

    def handle(connection: Any, message: Any) -> None:
        handler(connection, message)
        handled.append(message)

    consumer = InboxConsumer(settings, handle)
    thread = threading.Thread(target=consumer.run)
    thread.start()
    try:
        wait_for(lambda: len(handled) >= count, "the messages to be handled")
    finally:
        consumer.stop()
        thread.join(30)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("strategy", "mode"),
    [
        ({"capture": "snapshot"}, "table"),
        ({"capture": "tail"}, "log"),
        ({"database": "mariadb", "capture": "mark", "delivery": "at-least-once"}, "table"),
    ],
    ids=["snapshot", "log", "at least once, from MariaDB"],
)
def test_one_trace_from_the_writer_to_the_consumer(
    make_pipeline: Made, spans: Spans, task_spans: TaskSpans, mode: Any
) -> None:
    pipeline = make_pipeline(tracing=task_spans.tracing)
    outbox = Outbox(pipeline.settings.outbox_table, mode=mode)
    before = time.time()
    with spans.tracer.start_as_current_span("order") as order, pipeline.connect() as connection:
        outbox.write_many(connection, [pipeline.message("1", headers={"a": "b"})])
    written = time.time()
    pipeline.write(pipeline.message("untraced"))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
    inside: list[int] = []
    consume(pipeline, lambda *_: inside.append(trace.get_current_span().get_span_context().span_id), 2)

    writer = order.get_span_context()
    (waited,) = task_spans.named(f"outbox {pipeline.topic}")
    (send,) = task_spans.named(f"send {pipeline.topic}")
    traced = f"0x{writer.trace_id:032x}"
    (process,) = (each for each in spans.named(f"process {pipeline.topic}") if each["context"]["trace_id"] == traced)
    assert [each["context"]["trace_id"] for each in (waited, send)] == [traced, traced]
    assert [each["parent_id"] for each in (waited, send)] == [f"0x{writer.span_id:016x}"] * 2
    assert process["parent_id"] == send["context"]["span_id"]
    assert int(process["context"]["span_id"], 16) in inside
    assert [each["kind"] for each in (waited, send, process)] == [
        "SpanKind.INTERNAL",
        "SpanKind.PRODUCER",
        "SpanKind.CONSUMER",
    ]
    assert before - 0.001 <= moment(waited["start_time"]) <= written + 0.001
    assert waited["end_time"] == send["start_time"]
    assert moment(send["start_time"]) <= moment(send["end_time"]) <= moment(process["start_time"])
    assert send["attributes"] == {
        "messaging.system": "kafka",
        "messaging.destination.name": pipeline.topic,
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.kafka.message.key": "key",
        "messaging.message.body.size": 1,
        "windrow.source": pipeline.settings.source,
        "windrow.sequence": send["attributes"]["windrow.sequence"],
    }
    assert process["attributes"]["messaging.consumer.group.name"] == f"{pipeline.settings.name}.group"
    headers = next(message.headers() or [] for message in pipeline.received() if message.value() == b"1")
    assert [name for name, _ in headers] == ["a", "traceparent", "x-sequence", "x-source"]


def test_a_refused_message_has_a_failed_send_and_the_trace_goes_on_when_it_is_retried(
    make_pipeline: Made, spans: Spans, task_spans: TaskSpans
) -> None:
    pipeline = make_pipeline(tracing=task_spans.tracing)
    limit_message_size(pipeline, 10_000)
    with spans.tracer.start_as_current_span("order"):
        pipeline.write(pipeline.message("x" * 20_000))
    with pipeline.relay() as relay:
        wait_for(lambda: DeadLetters(pipeline.settings).list(1), "the dead letter")
        limit_message_size(pipeline, 100_000)
        DeadLetters(pipeline.settings).retry(None)
        pipeline.wait_published(relay, 1)
    *failed, sent = task_spans.named(f"send {pipeline.topic}")
    assert {each["status"]["status_code"] for each in failed} == {"ERROR"}
    assert failed[0]["attributes"]["error.type"] == "PublishFailed"
    assert sent["status"]["status_code"] == "UNSET"
    assert len(task_spans.named(f"outbox {pipeline.topic}")) == 1


@pytest.mark.parametrize("strategy", [{"capture": "sweep"}])
def test_the_dispatcher_sends_in_a_span(pipeline: Pipeline, spans: Spans) -> None:
    with Dispatcher(pipeline.settings) as dispatcher:
        with (
            spans.tracer.start_as_current_span("order") as order,
            dispatcher.writing() as outbox,
            pipeline.connect() as connection,
        ):
            outbox.write(connection, pipeline.message("1"))
        wait_for(lambda: spans.named(f"send {pipeline.topic}"), "the span of the send")
    (send,) = spans.named(f"send {pipeline.topic}")
    context = order.get_span_context()
    assert send["parent_id"] == f"0x{context.span_id:016x}"
    (message,) = pipeline.received()
    carried = dict(message.headers() or ())["traceparent"].decode().split("-")
    assert [f"0x{carried[1]}", f"0x{carried[2]}"] == [send["context"]["trace_id"], send["context"]["span_id"]]
