"""Messages out of a service's own objects: as JSON, as protobuf, or by the serializer of a schema registry.

Each returns a `Message`, to be written as any other; a library is imported only where an object of it is given.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, TypedDict, Unpack

from windrow.errors import MessageInvalid
from windrow.message import Bytes, Headers, Message

Serializer = Callable[[Any, Any], bytes | None]
"""One of confluent_kafka's: AvroSerializer, JSONSerializer, ProtobufSerializer."""


class Parts(TypedDict, total=False):
    """What a message has besides topic and value, as `Message` takes it."""

    key: Bytes
    headers: Headers
    value_type: str | None
    partition: int | None
    timestamp: datetime | None


def json_message(topic: str, value: object, **parts: Unpack[Parts]) -> Message:
    """A message whose value is JSON: of a pydantic model, a msgspec struct, a dataclass, or what `json` takes.

    `None` is JSON's null. A tombstone is a plain `Message` without a value.
    """
    return Message(topic, as_json(value), **parts)


def protobuf_message(topic: str, value: Any, **parts: Unpack[Parts]) -> Message:
    """A message whose value is a protobuf message, with the full name of its type as `x-value-type`."""
    try:
        content, name = value.SerializeToString(), value.DESCRIPTOR.full_name
    except AttributeError:
        raise MessageInvalid(f"value: give a protobuf message, not {type(value).__name__}") from None
    given: Parts = {"value_type": name, **parts}
    return Message(topic, content, **given)


def serialized_message(topic: str, value: Any, serializer: Serializer, **parts: Unpack[Parts]) -> Message:
    """A message whose value a serializer of confluent_kafka makes, with its schema in the registry.

    It may ask the registry: make the message before the transaction begins.
    """
    from confluent_kafka.serialization import MessageField, SerializationContext  # noqa: PLC0415 - whose serializer it is

    given = parts.get("headers", ())
    headers = list(given.items() if isinstance(given, Mapping) else given)
    content = serializer(value, SerializationContext(topic, MessageField.VALUE, headers))  # it may add headers
    parts["headers"] = headers
    return Message(topic, content, **parts)


def as_json(value: Any) -> bytes:
    if hasattr(value, "model_dump_json"):
        return str(value.model_dump_json()).encode()
    if hasattr(value, "__struct_config__"):
        import msgspec  # noqa: PLC0415 - whose struct it is

        return msgspec.json.encode(value)
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageInvalid(f"value: it cannot be written as JSON: {error}") from None
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise MessageInvalid("value: the text has no UTF-8 form") from None


def _plain(value: Any) -> Any:
    """What `json` can write in place of an object that it cannot."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__struct_config__"):
        import msgspec  # noqa: PLC0415 - whose struct it is

        return msgspec.to_builtins(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} has no form in JSON; give text or a number")
