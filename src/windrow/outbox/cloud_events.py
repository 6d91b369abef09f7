"""CloudEvents 1.0 as messages, by the protocol's binding to Kafka.

In binary mode the attributes are headers (`ce_id`, `ce_source` …) and the value is the data; in structured mode the
value is the whole event as JSON. The attribute `partitionkey` is the key, unless one is given.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Unpack
from uuid import uuid4

from windrow.errors import MessageInvalid
from windrow.message import Message
from windrow.outbox.content import Parts, as_json

_NAME: Final = re.compile(r"[a-z0-9]+")
_OF_JSON: Final = re.compile(r"[^;]+[/+]json\s*(;.*)?", re.IGNORECASE)
_STRUCTURED: Final = "application/cloudevents+json; charset=UTF-8"


def cloud_event_message(topic: str, event: Any, *, structured: bool = False, **parts: Unpack[Parts]) -> Message:
    """A message of an event: one of the CloudEvents SDK, or a mapping of its attributes and `data`.

    `source` and `type` are required; `id` is made up if it is missing. Data become JSON, as `json_message` makes it,
    unless they are bytes, or text of another content type.
    """
    given, data = _parted(event)
    attributes = {name: _attribute(name, content) for name, content in _complete(given).items()}
    if data is not None and not isinstance(data, bytes):
        attributes.setdefault("datacontenttype", "application/json")
    content_type = attributes.get("datacontenttype")
    is_json = _OF_JSON.fullmatch(str(content_type)) is not None
    if structured:
        content_type, own = _STRUCTURED, []
        value: bytes | str | None = as_json(attributes | _member(data, is_json=is_json))
    else:
        own = [(f"ce_{name}", _text(each)) for name, each in attributes.items() if name != "datacontenttype"]
        value = _value(data, is_json=is_json)
    if content_type is not None:
        own.append(("content-type", _text(content_type)))
    more = parts.get("headers", ())
    parts["headers"] = [*own, *(more.items() if isinstance(more, Mapping) else more)]
    if "partitionkey" in attributes:
        parts.setdefault("key", _text(attributes["partitionkey"]))
    return Message(topic, value, **parts)


def _parted(event: Any) -> tuple[dict[str, Any], Any]:
    """Attributes and data."""
    if hasattr(event, "get_attributes"):
        return dict(event.get_attributes()), event.get_data()
    if not isinstance(event, Mapping):
        raise MessageInvalid(f"event: give a CloudEvent or a mapping, not {type(event).__name__}")
    attributes = {name: content for name, content in event.items() if name not in {"data", "data_base64"}}
    if "data_base64" in event:
        return attributes, b64decode(event["data_base64"])
    return attributes, event.get("data")


def _complete(given: dict[str, Any]) -> dict[str, Any]:
    attributes = {"specversion": "1.0", "id": str(uuid4())} | {
        name: content for name, content in given.items() if content is not None
    }
    for name in ("id", "source", "type"):
        if not isinstance(attributes.get(name), str) or not attributes[name]:
            raise MessageInvalid(f"event: the attribute {name} is missing or no text")
    if attributes["specversion"] != "1.0":
        raise MessageInvalid(f"event: specversion is {attributes['specversion']!r}, not '1.0'")
    return attributes


def _attribute(name: object, content: Any) -> str | bool | int:
    """An attribute as JSON has it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise MessageInvalid(f"event: the attribute {name!r} is not made of lower-case letters and digits")
    match content:
        case str() | bool() | int():
            return content
        case bytes():
            return b64encode(content).decode()
        case datetime() if content.utcoffset() is not None:
            return content.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case _:
            raise MessageInvalid(
                f"event: the attribute {name} is a {type(content).__name__}; give text, a whole number, a truth value, "
                "bytes or a datetime with a time zone"
            )


def _text(content: object) -> str:
    return str(content).lower() if isinstance(content, bool) else str(content)


def _value(data: Any, *, is_json: bool) -> bytes | str | None:
    if data is None or isinstance(data, bytes):
        return data
    if is_json:
        return as_json(data)
    if isinstance(data, str):
        return data
    raise MessageInvalid(f"event: data of this content type are bytes or text, not {type(data).__name__}")


def _member(data: Any, *, is_json: bool) -> dict[str, Any]:
    """The data as a member of the event in JSON."""
    value = _value(data, is_json=is_json)
    if value is None:
        return {}
    if isinstance(value, str):
        return {"data": value}
    if not is_json:
        return {"data_base64": b64encode(value).decode()}
    try:
        return {"data": json.loads(value)}
    except ValueError as error:
        raise MessageInvalid(f"event: the data are no JSON, which datacontenttype says they are: {error}") from None
