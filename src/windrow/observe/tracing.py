"""Traces: the span in which a message was written goes on through the outbox, the relay and the consumer.

Its context travels as W3C's headers `traceparent` and `tracestate`; those that a message has already are left alone.
The application's own tracer provider makes the spans. OpenTelemetry is not imported on its behalf: who has not imported
it has no span, and pays a look into `sys.modules`. Names and attributes are those of OpenTelemetry's conventions for
messaging.

Invariant: of what is published, nothing but these two headers depends on tracing.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from windrow.message import Message

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

Attributes: TypeAlias = dict[str, str | int]
_Handler: TypeAlias = Callable[[Any, Any], object]
TRACER: Final = "windrow"
HEADERS: Final = ("traceparent", "tracestate")


def in_use() -> bool:
    """Whether this process has to do with OpenTelemetry at all."""
    return "opentelemetry.trace" in sys.modules


def traced(messages: Iterable[Message]) -> list[Message]:
    """The messages with the context of the span that we are in, unless they carry one already."""
    headers = _current() if in_use() else ()
    if not headers:
        return list(messages)
    return [each if _carries(each) else replace(each, headers=(*each.headers, *headers)) for each in messages]


def handling(handler: _Handler, group: str) -> _Handler:
    """A consumer's handler, run in a span that goes on from its message's."""
    if not in_use():
        return handler
    tracer = global_tracer()

    def traced_handler(connection: Any, message: Any) -> object:
        with _processing(tracer, message, group):
            return handler(connection, message)

    return traced_handler


def global_tracer() -> "Tracer":
    """By the provider that the application has set."""
    from opentelemetry.trace import get_tracer  # noqa: PLC0415 - only where it is in use

    return get_tracer(TRACER)


def injected(context: "Context") -> list[tuple[str, bytes]]:
    """A context as headers; none where it is in no span."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - as above

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, context)
    return [(name, content.encode()) for name, content in carrier.items()]


def extracted(headers: Mapping[str, bytes | str | None]) -> "Context":
    """The context that headers carry."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - as above

    carrier = {name: _text(content) for name in HEADERS if (content := headers.get(name)) is not None}
    return TraceContextTextMapPropagator().extract(carrier)


def operation(name: str, topic: str) -> Attributes:
    """What is done, and to which topic."""
    return {"messaging.system": "kafka", "messaging.destination.name": topic, "messaging.operation.name": name}


def content(key: bytes | str | None, value: bytes | str | None) -> Attributes:
    """Of a message's content, what helps to find it again."""
    attributes: Attributes = {} if key is None else {"messaging.kafka.message.key": _text(key)}
    if value is None:
        return attributes | {"messaging.kafka.message.tombstone": True}
    return attributes | {"messaging.message.body.size": len(value)}


def failed(span: "Span", error: BaseException | str) -> None:
    """Say in a span what went wrong."""
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - as above

    span.set_status(StatusCode.ERROR, str(error))
    if isinstance(error, BaseException):
        span.set_attribute("error.type", type(error).__qualname__)
        span.record_exception(error)


def _current() -> list[tuple[str, bytes]]:
    from opentelemetry.context import get_current  # noqa: PLC0415 - as above

    return injected(get_current())


def _carries(message: Message) -> bool:
    return any(name in HEADERS for name, _ in message.headers)


@contextmanager
def _processing(tracer: "Tracer", message: Any, group: str) -> Iterator[None]:
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - as above

    topic = message.topic() or ""
    attributes: Attributes = {
        **operation("process", topic),
        **content(message.key(), message.value()),
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": group,
        "messaging.destination.partition.id": str(message.partition()),
        "messaging.kafka.offset": message.offset() or 0,
    }
    parent = extracted(dict(message.headers() or ()))
    with tracer.start_as_current_span(
        f"process {topic}",
        parent,
        SpanKind.CONSUMER,
        attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except BaseException as error:
            failed(span, error)
            raise


def _text(part: bytes | str) -> str:
    return part if isinstance(part, str) else part.decode(errors="replace")
