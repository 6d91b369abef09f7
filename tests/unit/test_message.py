"""A message that exists can be carried by Kafka; anything else is refused, naming the field."""

import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.errors import MessageInvalid
from windrow.message import Message


def test_text_becomes_utf8_and_bytes_stay() -> None:
    message = Message("orders", value="Grüße 🌾", key=b"\x00\xff", headers={"a": "ü", "b": b"\xff"})
    assert message.value == "Grüße 🌾".encode()
    assert message.key == b"\x00\xff"
    assert message.headers == (("a", "ü".encode()), ("b", b"\xff"))


def test_none_and_empty_are_different_contents() -> None:
    assert (Message("orders").value, Message("orders").key) == (None, None)
    assert (Message("orders", value="", key=b"").value, Message("orders", value="", key=b"").key) == (
        b"",
        b"",
    )
    assert Message("orders", headers={"nothing": None, "empty": ""}).headers == (
        ("nothing", None),
        ("empty", b""),
    )


def test_headers_keep_their_order_and_may_repeat() -> None:
    pairs = [("trace", "1"), ("tenant", "a"), ("trace", "2")]
    expected = (("trace", b"1"), ("tenant", b"a"), ("trace", b"2"))
    assert Message("orders", headers=pairs).headers == expected
    assert Message("orders", headers=iter(pairs)).headers == expected


@given(st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="\0")), st.binary()))
def test_a_mapping_of_headers_is_taken_as_it_stands(headers: dict[str, bytes]) -> None:
    assert Message("orders", headers=headers).headers == tuple(headers.items())


def test_the_type_of_the_value_is_a_header_behind_the_others() -> None:
    message = Message("orders", "{}", headers={"tenant": "a"}, value_type="shop.v1.Größe")
    assert message.headers == (("tenant", b"a"), ("x-value-type", "shop.v1.Größe".encode()))
    assert message.value_type == "shop.v1.Größe"
    assert Message("orders").value_type is None


def test_an_application_may_give_the_header_of_the_type_itself_and_where_it_likes() -> None:
    headers = (("x-value-type", b"shop.v1.Order"), ("tenant", b"a"))
    message = Message("orders", headers=headers)
    assert (message.headers, message.value_type) == (headers, "shop.v1.Order")


def test_equal_messages_are_equal_and_survive_pickling() -> None:
    message = Message("orders", "v", "k", {"h": "1"}, partition=3, timestamp=datetime(2026, 1, 2, tzinfo=UTC))
    assert message == Message("orders", b"v", b"k", [("h", b"1")], partition=3, timestamp=message.timestamp)
    assert pickle.loads(pickle.dumps(message)) == message  # noqa: S301 - our own


@pytest.mark.parametrize("topic", ["a", "A.b_c-9", "x" * 249, "...", "_"])
def test_topics_that_kafka_takes_are_taken(topic: str) -> None:
    assert Message(topic).topic == topic


@pytest.mark.parametrize("topic", ["", ".", "..", "x" * 250, "a b", "a/b", "é", "a\n", "a\0", None, b"orders", 7])
def test_topics_that_kafka_refuses_are_refused(topic: Any) -> None:
    with pytest.raises(MessageInvalid, match=r"^topic "):
        Message(topic)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("value", {"value": 7}),
        ("value", {"value": bytearray(b"x")}),
        ("value", {"value": "\ud800"}),
        ("key", {"key": 7}),
        ("key", {"key": "\ud800"}),
        ("header 'h'", {"headers": {"h": 7}}),
        ("header 'h'", {"headers": {"h": "\ud800"}}),
        ("header name", {"headers": {"\ud800": "x"}}),
        ("headers", {"headers": {7: "x"}}),
        ("headers", {"headers": {"nul\0": "x"}}),
        ("headers", {"headers": ["abc"]}),
        ("headers", {"headers": [("one", "two", "three")]}),
        ("headers", {"headers": [7]}),
        ("headers", {"headers": None}),
        ("headers", {"headers": 7}),
        ("value_type", {"value_type": ""}),
        ("value_type", {"value_type": b"shop.v1.Order"}),
        ("value_type", {"value_type": "\ud800"}),
        ("value_type", {"value_type": "a", "headers": {"x-value-type": "b"}}),
        ("partition", {"partition": -1}),
        ("partition", {"partition": 2**31}),
        ("partition", {"partition": True}),
        ("partition", {"partition": "1"}),
        ("partition", {"partition": 1.0}),
        ("timestamp", {"timestamp": datetime(2026, 1, 2)}),  # noqa: DTZ001 - the mistake itself
        ("timestamp", {"timestamp": 1_700_000_000}),
        ("timestamp", {"timestamp": datetime(1969, 12, 31, tzinfo=UTC)}),
        ("timestamp", {"timestamp": datetime(1970, 1, 1, tzinfo=UTC)}),
        ("timestamp", {"timestamp": datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))}),
        ("timestamp", {"timestamp": "2026-01-02"}),
    ],
)
def test_bad_content_is_refused_and_its_field_named(field: str, bad: dict[str, Any]) -> None:
    with pytest.raises(MessageInvalid, match=rf"^{field}"):
        Message("orders", **bad)


@pytest.mark.parametrize("partition", [None, 0, 2**31 - 1])
def test_partitions_from_the_first_to_the_last_are_taken(partition: int | None) -> None:
    assert Message("orders", partition=partition).partition == partition


def test_the_first_timestamp_that_kafka_does_not_take_for_now_is_taken() -> None:
    first = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=1)
    assert Message("orders", timestamp=first).timestamp == first
