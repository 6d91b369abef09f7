"""What the application wrote arrives as it was written, down to the byte."""

import os
from collections.abc import Callable
from datetime import UTC, datetime

from confluent_kafka import TIMESTAMP_CREATE_TIME

from fix_pipeline import Pipeline
from windrow import Message


def relayed(pipeline: Pipeline, message: Message) -> list[tuple[str, bytes]]:
    """Relay one message and compare everything but the headers, which are returned."""
    pipeline.write(message)
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
    (received,) = pipeline.received()
    assert received.value() == message.value
    assert received.key() == message.key
    return received.headers() or []


CONTENTS: dict[str, tuple[bytes | str | None, bytes | str | None]] = {
    "null value": ("key", None),
    "empty value": ("key", b""),
    "binary value": ("key", bytes(range(256))),
    "unicode": ("ключ 鍵 🔑", "значение 值 🌾"),
    "binary key": (b"\x00\xff\xfe", b"value"),
    "empty key": (b"", b"value"),
    "no key": (None, b"value"),
    "neither": (None, None),
    "1 MB value": ("key", os.urandom(1024 * 1024)),
    "6 MB value": ("key", b"compressible" * 500_000),
}


def test_keys_and_values_arrive_unchanged(pipeline: Pipeline) -> None:
    written = {name: pipeline.message(value, key, headers={"name": name}) for name, (key, value) in CONTENTS.items()}
    pipeline.write(*written.values())
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, len(CONTENTS))
    received = {dict(each.headers() or [])["name"].decode(): (each.key(), each.value()) for each in pipeline.received()}
    assert received == {name: (message.key, message.value) for name, message in written.items()}


def test_headers_keep_their_order_repeats_and_bytes(pipeline: Pipeline) -> None:
    headers: list[tuple[str, bytes | str | None]] = [
        ("b", b"\x00\xff"),
        ("a", "text ü"),
        ("b", b""),
        ("c", None),
        ("naïve 名", b"1"),
    ]
    arrived = relayed(pipeline, pipeline.message("value", headers=headers))
    assert arrived[:5] == [
        ("b", b"\x00\xff"),
        ("a", "text ü".encode()),
        ("b", b""),
        ("c", None),
        ("naïve 名", b"1"),
    ]


def test_message_says_where_it_comes_from(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(source="billing")
    own = [("b", "1"), ("x-source", "the application's"), ("a", "2"), ("b", "3")]
    headers = relayed(pipeline, pipeline.message("value", headers=own, value_type="shop.v1.Order"))
    assert headers == [
        *((name, content.encode()) for name, content in own),
        ("x-value-type", b"shop.v1.Order"),
        ("x-sequence", b"1"),
        ("x-source", b"billing"),
    ]


def test_time_that_never_comes_is_none(pipeline: Pipeline) -> None:
    pipeline.write(*map(pipeline.message, ("1", "2", "3")))
    with pipeline.connect() as connection:
        connection.execute(f"UPDATE {pipeline.settings.outbox_table} SET timestamp = 'infinity' WHERE id = 2")
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 3)
    assert pipeline.values() == [b"1", b"2", b"3"]


def test_partition_and_timestamp_are_those_given(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(partitions=4)
    moment = datetime(2020, 2, 29, 12, 30, 15, 123_000, tzinfo=UTC)
    for partition in range(4):
        pipeline.write(pipeline.message("value", partition=partition, timestamp=moment))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 4)
    received = pipeline.received()
    assert sorted(message.partition() for message in received) == [0, 1, 2, 3]
    expected = (TIMESTAMP_CREATE_TIME, int(moment.timestamp() * 1000))
    assert {message.timestamp() for message in received} == {expected}
