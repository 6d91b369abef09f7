"""A service's own objects become messages, in the form that consumers expect."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pydantic
import pytest
from cloudevents.core.bindings import kafka
from cloudevents.core.v1.event import CloudEvent
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.type.money_pb2 import Money

from windrow import Message
from windrow.errors import MessageInvalid
from windrow.outbox import cloud_event_message, json_message, protobuf_message, serialized_message

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Model(pydantic.BaseModel):
    """An order, in pydantic."""

    number: int
    at: datetime


class Struct(msgspec.Struct):
    """The same, in msgspec."""

    number: int
    at: datetime


@dataclass
class Plain:
    """A dataclass that holds others."""

    name: str
    inner: Any


@pytest.mark.parametrize("order", [Model(number=7, at=AT), Struct(7, AT)])
def test_models_are_json_also_inside_other_objects(order: Any) -> None:
    expected = b'{"number":7,"at":"2026-01-02T03:04:05Z"}'
    assert json_message("orders", order).value == expected
    assert json_message("orders", [order]).value == b"[%b]" % expected
    assert json_message("orders", Plain("Größe", order)).value == '{"name":"Größe","inner":'.encode() + expected + b"}"


def test_plain_values_are_json_and_the_other_parts_are_the_messages() -> None:
    message = json_message("orders", {"a": [1, None, "ü"]}, key="k", headers={"h": "1"}, value_type="shop.Order")
    assert message == Message("orders", '{"a":[1,null,"ü"]}', "k", {"h": "1"}, value_type="shop.Order")
    assert json_message("orders", None).value == b"null"


@pytest.mark.parametrize("value", [AT, {"a": object()}, float("nan"), "\ud800", {b"a": 1}, Plain])
def test_what_json_has_no_form_for_is_refused(value: Any) -> None:
    with pytest.raises(MessageInvalid, match=r"^value: "):
        json_message("orders", value)


def test_a_protobuf_message_names_its_type() -> None:
    message = protobuf_message("orders", Money(units=7), key="k", headers={"h": "1"})
    content = Money(units=7).SerializeToString()
    assert message == Message("orders", content, "k", {"h": "1"}, value_type="google.type.Money")
    assert protobuf_message("orders", Money(), value_type="mine").value_type == "mine"
    with pytest.raises(MessageInvalid, match=r"^value: give a protobuf message, not dict"):
        protobuf_message("orders", {})


AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "number", "type": "int"}]}'
JSON = '{"title": "Order", "type": "object", "properties": {"number": {"type": "integer"}}}'


def test_the_serializers_of_a_registry_make_values_that_its_deserializers_read() -> None:
    registry = SchemaRegistryClient.new_client({"url": "mock://"})
    where = SerializationContext("orders", MessageField.VALUE)
    order = {"number": 7}
    avro = serialized_message("orders", order, AvroSerializer(registry, AVRO), key="k", headers={"h": "1"})
    assert AvroDeserializer(registry)(avro.value, where) == order
    assert (avro.key, avro.headers) == (b"k", (("h", b"1"),))
    of_json = serialized_message("orders", order, JSONSerializer(JSON, registry))
    assert JSONDeserializer(JSON, schema_registry_client=registry)(of_json.value, where) == order
    serializer = ProtobufSerializer(Money, registry, {"use.deprecated.format": False})
    protobuf = serialized_message("times", Money(units=7), serializer)
    read = ProtobufDeserializer(Money, {"use.deprecated.format": False})
    assert read(protobuf.value, SerializationContext("times", MessageField.VALUE)) == Money(units=7)


def test_a_serializer_may_add_headers() -> None:
    def serializer(value: Any, context: Any) -> bytes:
        context.headers.append(("schema", b"\x01"))
        return f"{value} {context.topic} {context.field.value}".encode()

    message = serialized_message("orders", 7, serializer, headers=[("h", "1")])
    assert message.headers == (("h", b"1"), ("schema", b"\x01"))
    assert message.value == b"7 orders value"


EVENT = {"id": "1", "source": "/shop", "type": "placed", "time": AT, "partitionkey": "alice", "urgent": True}


def test_an_event_in_binary_mode_has_its_attributes_as_headers() -> None:
    message = cloud_event_message("orders", {**EVENT, "data": {"number": 7}}, headers={"h": "1"})
    assert message == Message(
        "orders",
        '{"number":7}',
        "alice",
        [
            ("ce_specversion", "1.0"),
            ("ce_id", "1"),
            ("ce_source", "/shop"),
            ("ce_type", "placed"),
            ("ce_time", "2026-01-02T03:04:05Z"),
            ("ce_partitionkey", "alice"),
            ("ce_urgent", "true"),
            ("content-type", "application/json"),
            ("h", "1"),
        ],
    )


def test_an_event_in_structured_mode_is_its_value() -> None:
    message = cloud_event_message("orders", {**EVENT, "data": {"number": 7}}, structured=True, key="bob")
    assert (message.key, message.headers) == (
        b"bob",
        (("content-type", b"application/cloudevents+json; charset=UTF-8"),),
    )
    assert json.loads(message.value or b"") == {
        **EVENT,
        "time": "2026-01-02T03:04:05Z",
        "specversion": "1.0",
        "datacontenttype": "application/json",
        "data": {"number": 7},
    }


@pytest.mark.parametrize(
    ("data", "content_type", "value", "member"),
    [
        (None, None, None, {}),
        (b"\xff", None, b"\xff", {"data_base64": "/w=="}),
        (b"\xff", "image/png", b"\xff", {"data_base64": "/w=="}),
        ("text", "text/plain", b"text", {"data": "text"}),
        ("text", "application/json", b'"text"', {"data": "text"}),
        (b'{"a": 1}', "application/vnd.shop+json; charset=UTF-8", b'{"a": 1}', {"data": {"a": 1}}),
        (Plain("a", None), None, b'{"name":"a","inner":null}', {"data": {"name": "a", "inner": None}}),
    ],
)
def test_data_are_json_unless_they_are_something_else(
    data: Any, content_type: str | None, value: bytes | None, member: dict[str, Any]
) -> None:
    event = {**EVENT, "datacontenttype": content_type, "data": data}
    assert cloud_event_message("orders", event).value == value
    whole = json.loads(cloud_event_message("orders", event, structured=True).value or b"")
    assert {name: content for name, content in whole.items() if name.startswith("data_") or name == "data"} == member
    as_base64 = {**EVENT, "data_base64": "/w=="}
    assert cloud_event_message("orders", as_base64).value == b"\xff"


@pytest.mark.parametrize("structured", [False, True])
def test_events_of_the_sdk_are_taken_and_read_by_it(structured: bool) -> None:  # noqa: FBT001 - a parameter
    attributes = {"id": "1", "source": "/shop", "type": "placed", "specversion": "1.0", "time": AT, "partitionkey": "a"}
    event = CloudEvent({**attributes, "datacontenttype": "application/json"}, {"number": 7})
    message = cloud_event_message("orders", event, structured=structured)
    headers = {name: content or b"" for name, content in message.headers}
    arrived = kafka.from_kafka_event(kafka.KafkaMessage(headers, message.key, message.value or b""))
    assert arrived.get_attributes() == event.get_attributes()
    assert arrived.get_data() == event.get_data()


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ({"source": ""}, "source"),
        ({"type": None}, "type"),
        ({"id": 7}, "id"),
        ({"specversion": "0.3"}, "specversion"),
        ({"comExample": "a"}, "comExample"),
        ({"weight": 1.5}, "weight"),
        ({"time": datetime(2026, 1, 2)}, "time"),  # noqa: DTZ001 - the mistake itself
        ({"datacontenttype": "text/plain", "data": {}}, "data of this content type"),
    ],
)
def test_events_that_are_none_are_refused(mistake: dict[str, Any], told: str) -> None:
    with pytest.raises(MessageInvalid, match=rf"^event: .*{told}"):
        cloud_event_message("orders", {**EVENT, **mistake})


def test_an_event_gets_an_id_and_anything_else_is_refused() -> None:
    events = [cloud_event_message("orders", {"source": "/shop", "type": "placed"}) for _ in range(2)]
    assert events[0].headers[1][0] == "ce_id"
    assert events[0].headers[1] != events[1].headers[1]
    with pytest.raises(MessageInvalid, match=r"^event: give a CloudEvent or a mapping, not str"):
        cloud_event_message("orders", "placed")
    with pytest.raises(MessageInvalid, match=r"^event: the data are no JSON"):
        cloud_event_message("orders", {**EVENT, "datacontenttype": "application/json", "data": b"{"}, structured=True)
