"""The spans of what is sent to Kafka: one for the time in the outbox, one for the sending itself.

Both follow on the span that the message was written in, the second right after the first. The message that is sent
carries the second one's context, so that its consumers go on from there. A message that was written outside of any
trace, or in one that is not sampled, has no spans and is sent as it is.

The span of the time in the outbox is made once Kafka has the message: however often it was tried, there is one.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from windrow.observe.tracing import (
    HEADERS,
    Attributes,
    content,
    extracted,
    failed,
    global_tracer,
    in_use,
    injected,
    operation,
)
from windrow.record import Record

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer


class SendSpans:
    """Spans of what is sent under one name of the source."""

    def __init__(self, tracer: "Tracer", source: str) -> None:
        self.tracer, self._source = tracer, source

    @classmethod
    def here(cls, source: str) -> Self | None:
        """By the provider of this process; None where it has nothing to do with OpenTelemetry."""
        return cls(global_tracer(), source) if in_use() else None

    def begin(self, record: Record) -> "tuple[Record, Sending | None]":
        """Begin to send: the record as it is to be sent, and what is to be ended."""
        if "traceparent" not in record.header_keys or len(record.header_keys) != len(record.header_values):
            return record, None
        from opentelemetry.trace import SpanKind, set_span_in_context  # noqa: PLC0415 - only where there are traces

        pairs = [*zip(record.header_keys, record.header_values, strict=True)]
        parent, began = extracted(dict(pairs)), time.time_ns()
        attributes = {
            **self.attributes(record, "send"),
            **content(record.key, record.value),
            "messaging.operation.type": "send",
        }
        span = self.tracer.start_span(f"send {record.topic}", parent, SpanKind.PRODUCER, attributes, start_time=began)
        if not span.is_recording():  # the writer's trace is not sampled, and goes on as it is
            return record, None
        sent = [*(pair for pair in pairs if pair[0] not in HEADERS), *injected(set_span_in_context(span))]
        changed = record._replace(header_keys=[name for name, _ in sent], header_values=[each for _, each in sent])
        return changed, Sending(self, record, parent, span, began)

    @contextmanager
    def sending(self, records: Sequence[Record]) -> Iterator[Sequence[Record]]:
        """The records as they are to be sent; Kafka has them if the context ends well."""
        begun = [self.begin(record) for record in records]
        spans = [sending for _, sending in begun if sending]
        try:
            yield [record for record, _ in begun]
        except BaseException as error:
            for each in spans:
                each.end(error)
            raise
        for each in spans:
            each.end()

    def attributes(self, record: Record, name: str) -> Attributes:
        attributes = {
            **operation(name, record.topic),
            "windrow.source": self._source,
            "windrow.sequence": record.id,
        }
        if record.partition is not None:
            attributes["messaging.destination.partition.id"] = str(record.partition)
        return attributes


@dataclass(frozen=True, slots=True)
class Sending:
    """A record on its way to Kafka, and its span."""

    spans: SendSpans
    record: Record
    parent: "Context"
    span: "Span"
    began: int

    def end(self, error: BaseException | str | None = None) -> None:
        """Kafka has the record, or did not take it."""
        if error is not None:
            failed(self.span, error)
        elif self.record.written_at is not None:
            written = min(self.record.written_at * 1_000, self.began)  # the database's clock may be ahead
            name, attributes = f"outbox {self.record.topic}", self.spans.attributes(self.record, "outbox")
            self.spans.tracer.start_span(name, self.parent, attributes=attributes, start_time=written).end(self.began)
        self.span.end()
