"""Markers as bytes and back, and the names that queues' records carry. Pure.

Invariant: what `decode` returns can be applied without another look: its type is known, whoever holds is named, every
span has messages in it, and no more than a lease has. Everything else is malformed, whatever wrote it.
"""

from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

from google.protobuf.message import DecodeError

from windrow.queue.marker_pb2 import Header, Marker, Span
from windrow.queue.settings import LARGEST_LEASE
from windrow.queued import QUEUE

CONSUMER_BYTES: Final = 16
_OF_MESSAGES: Final = frozenset({Marker.START, Marker.KEEP_ALIVE, Marker.END, Marker.RETURN, Marker.REJECT})
_OF_EPOCHS: Final = frozenset({Marker.TICK, Marker.CLOSE})

Headers = Sequence[tuple[str, bytes | None]]


class MalformedMarker(ValueError):
    """Bytes in the markers topic that are no marker, or one that makes no sense."""


def marker_partition(queue: str, partition: int, count: int) -> int:
    """The markers partition for messages of a queue in a partition of the queue topic, where there are so many."""
    return (crc32(queue.encode()) + partition) % count


def queue_of(key: bytes | None, headers: Headers | None) -> str | None:
    """The queue that a record of the queue topic belongs to; None where it names none."""
    name = key if key is not None else next((value for header, value in headers or () if header == QUEUE), None)
    try:
        return name.decode() if name else None
    except UnicodeDecodeError:
        return None


def number_of(headers: Headers | None, name: str) -> int | None:
    """A header that is a number in text; None where it is not there, or something else."""
    text = next((value for header, value in headers or () if header == name), None)
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def encode(marker: Marker) -> bytes:
    content: bytes = marker.SerializeToString()
    return content


def decode(content: bytes | None) -> Marker:
    """The marker in a record of the markers topic; raises MalformedMarker where it is none."""
    marker = Marker()
    try:
        marker.ParseFromString(content or b"")
    except DecodeError as error:
        raise MalformedMarker("no marker") from error
    if mistake := _mistake(marker):
        raise MalformedMarker(mistake)
    return marker


def _mistake(marker: Marker) -> str | None:
    kind = marker.type
    if kind in _OF_MESSAGES:
        return _mistake_of_lease(marker.consumer, marker.spans, marker.redeliver_after_ms)
    if kind == Marker.CARRY:
        if not marker.HasField("carried"):
            return "nothing is carried"
        if len(marker.spans) != 1 or marker.spans[0].runs:
            return "not one message is carried"
        return _mistake_of_lease(marker.consumer, marker.spans, marker.redeliver_after_ms)
    if kind in _OF_EPOCHS:
        return None if marker.epoch else "no epoch"
    return None if kind == Marker.TALLY else f"type {kind}"


def _mistake_of_lease(consumer: bytes, spans: Sequence[Span], after: int) -> str | None:
    if len(consumer) != CONSUMER_BYTES:
        return f"a consumer of {len(consumer)} bytes"
    if not spans:
        return "no messages"
    if after < 0:
        return "a time before now"
    return next((mistake for span in spans if (mistake := _mistake_of_span(span))), None)


def _mistake_of_span(span: Span) -> str | None:
    if span.partition < 0 or span.offset < 0:
        return "an offset or a partition below 0"
    runs = span.runs
    if runs and not (len(runs) % 2 and all(runs)):
        return "runs that do not end with messages"
    # A few bytes can name billions, which would have to be redelivered one by one.
    return "more messages than a lease has" if sum(runs[::2]) > LARGEST_LEASE else None


def carried_headers(headers: Iterable[tuple[str, bytes | None]]) -> list[Header]:
    """A record's headers as a CARRY holds them."""
    return [Header(name=name, value=value) for name, value in headers]
