"""What carries a trace: headers, and spans where the application has OpenTelemetry; nothing where it has not."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from fix_tracing import Spans
from windrow import Message, Outbox
from windrow.errors import SettingsInvalid
from windrow.logged import unpacked
from windrow.observe.provider import send_spans
from windrow.observe.sends import SendSpans
from windrow.observe.tracing import handling
from windrow.record import Record

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def headers_of(row: tuple[Any, ...]) -> dict[str, bytes]:
    return dict(zip(row[3], row[4], strict=True))


def a_record(**headers: bytes | None) -> Record:
    return Record(7, "orders", b"key", None, [*headers], [*headers.values()], None, None)


def python(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_what_is_written_in_a_span_carries_its_context(spans: Spans) -> None:
    outbox = Outbox()
    with spans.tracer.start_as_current_span("order") as span:
        _, row = outbox.statement(Message("orders", "1", headers={"a": "b"}))
        _, rows = outbox.statement([Message("orders", "1"), Message("orders", "2")])
        (copied,) = outbox.checked([Message("orders", "1")])
        _, (content,) = Outbox(mode="log").statement(Message("orders", "1"))
    context = span.get_span_context()
    expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}".encode()
    assert headers_of(row) == {"a": b"b", "traceparent": expected}
    assert headers_of(rows[:7]) == headers_of(rows[7:]) == {"traceparent": expected}
    assert copied.headers == (("traceparent", expected),)
    assert unpacked(b"\0" * 8 + bytes(content)).header_values == [expected]  # type: ignore[arg-type]


def test_outside_of_spans_nothing_is_added() -> None:
    message = Message("orders", "1")
    assert Outbox().checked([message])[0] is message


def test_a_context_that_the_user_has_set_wins(spans: Spans) -> None:
    message = Message("orders", "1", headers={"traceparent": TRACEPARENT})
    with spans.tracer.start_as_current_span("order"):
        assert Outbox().checked([message]) == [message]


def test_a_record_is_sent_with_the_context_of_its_send(spans: Spans) -> None:
    sends = SendSpans(spans.tracer, "shop")
    record = a_record(traceparent=TRACEPARENT.encode(), tracestate=b"vendor=1", a=b"b")
    sent, sending = sends.begin(record)
    assert sending
    sending.end("broker is away")
    (span,) = spans.named("send orders")
    context = span["context"]
    assert dict(zip(sent.header_keys, sent.header_values, strict=True)) == {
        "a": b"b",
        "traceparent": f"00-{context['trace_id'][2:]}-{context['span_id'][2:]}-01".encode(),
        "tracestate": b"vendor=1",
    }
    assert record.header_keys == ["traceparent", "tracestate", "a"]
    assert span["status"] == {"status_code": "ERROR", "description": "broker is away"}
    assert span["attributes"]["messaging.kafka.message.tombstone"] is True


@pytest.mark.parametrize(
    "record",
    [
        a_record(a=b"b"),
        Record(7, "orders", None, None, ["traceparent", "a"], [TRACEPARENT.encode()], None, None),
        a_record(traceparent=f"{TRACEPARENT[:-2]}00".encode()),
    ],
    ids=["no context", "malformed", "not sampled"],
)
def test_a_record_outside_of_traces_is_sent_as_it_is(spans: Spans, record: Record) -> None:
    with SendSpans(spans.tracer, "shop").sending([record]) as sent:
        assert sent[0] is record
    assert spans.named("send orders") == []


def test_a_context_that_is_none_begins_a_trace_at_the_send(spans: Spans) -> None:
    with SendSpans(spans.tracer, "shop").sending([a_record(traceparent=b"\xff nonsense")]):
        pass
    (span,) = spans.named("send orders")
    assert span["parent_id"] is None


def test_time_in_the_outbox_does_not_begin_after_its_end(spans: Spans) -> None:
    future = a_record(traceparent=TRACEPARENT.encode())._replace(written_at=4_000_000_000_000_000)
    with SendSpans(spans.tracer, "shop").sending([future]):
        pass
    (waited,) = spans.named("outbox orders")
    assert waited["start_time"] == waited["end_time"]


class Delivered:
    """A message as a consumer gets it."""

    def __init__(self, *headers: tuple[str, bytes]) -> None:
        self._headers = headers

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return 5

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"value"

    def headers(self) -> Any:
        return [*self._headers] or None


def test_a_handler_that_fails_says_so_in_its_span(spans: Spans) -> None:
    def handler(_connection: object, _message: object) -> None:
        raise ValueError("no such customer")

    with pytest.raises(ValueError, match="no such customer"):
        handling(handler, "billing")(None, Delivered(("traceparent", TRACEPARENT.encode())))
    (span,) = spans.named("process orders")
    assert span["context"]["trace_id"] == f"0x{TRACEPARENT[3:35]}"
    assert span["parent_id"] == f"0x{TRACEPARENT[36:52]}"
    assert span["status"]["status_code"] == "ERROR"
    assert span["attributes"] == {
        "messaging.system": "kafka",
        "messaging.destination.name": "orders",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.body.size": 5,
        "messaging.consumer.group.name": "billing",
        "messaging.destination.partition.id": "1",
        "messaging.kafka.offset": 5,
        "error.type": "ValueError",
    }
    assert [event["name"] for event in span["events"]] == ["exception"]


def test_nothing_of_opentelemetry_is_imported_for_who_does_not_use_it() -> None:
    program = (
        "import sys\n"
        "from windrow import Message, Outbox\n"
        "from windrow.inbox.work import Work\n"
        "from windrow.observe.provider import send_spans\n"
        "from windrow.observe.sends import SendSpans\n"
        "from windrow.observe.tracing import handling\n"
        "from windrow.relay.shard import ShardLoop\n"
        "Outbox().statement(Message('orders', '1'))\n"
        "assert handling(print, 'group') is print\n"
        "assert send_spans('', 'shop') is SendSpans.here('shop') is None\n"
        "print(*[name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    assert python(program).split() == []


def test_without_opentelemetry_the_setting_names_the_remedy() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from windrow.errors import ExtraMissing\n"
        "from windrow.observe.provider import send_spans\n"
        "try:\n    send_spans('environment', 'shop')\n"
        "except ExtraMissing as error:\n    print(error)"
    )
    assert 'pip install "windrow[otel]"' in python(program)


def test_the_environment_says_where_spans_go() -> None:
    program = (
        "from windrow.observe.provider import flush, send_spans\n"
        "from windrow.record import Record\n"
        f"record = Record(1, 'orders', None, b'', ['traceparent'], [{TRACEPARENT.encode()!r}], None, None)\n"
        "with send_spans('environment', 'shop').sending([record]):\n    pass\n"
        "flush('environment')"
    )
    off = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("METRICS", "LOGS")}
    span = json.loads(python(program, OTEL_TRACES_EXPORTER="console", OTEL_SERVICE_NAME="relay", **off))
    assert span["name"] == "send orders"
    assert span["parent_id"] == "0xb7ad6b7169203331"
    assert span["resource"]["attributes"]["service.name"] == "relay"


@pytest.mark.parametrize("tracing", ["nowhere:provider", "windrow.errors:provider"])
def test_a_function_that_is_not_there_is_named(tracing: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"tracing: {tracing}: "):
        send_spans(tracing, "shop")
