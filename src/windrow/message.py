"""The message: what an application wants Kafka to carry.

Invariant: a `Message` that exists can be written to the outbox and accepted by Kafka's protocol. Whatever
Kafka's naming and typing rules would refuse is refused here, with an error that names the field, before anything
reaches the database.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from windrow.errors import MessageInvalid

Bytes: TypeAlias = bytes | str | None
Headers: TypeAlias = Mapping[str, Bytes] | Iterable[tuple[str, Bytes]]

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
VALUE_TYPE: Final = "x-value-type"
_MAX_PARTITION: Final = 2**31 - 1
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=1)  # Kafka's clients take 0 for now


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """One record for Kafka. Text is encoded as UTF-8; `None` as value is a tombstone, as key means no key.

    Headers keep their order and may repeat. `value_type` says what the value is, for instance the full name of its
    schema; consumers get it as the header `x-value-type`, behind the others. Without a partition Kafka's partitioner
    chooses by the key; without a timestamp the broker's rules apply.
    """

    topic: str
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    timestamp: datetime | None

    def __init__(  # noqa: PLR0913 - as many as a Kafka record has parts
        self,
        topic: str,
        value: Bytes = None,
        key: Bytes = None,
        headers: Headers = (),
        *,
        value_type: str | None = None,
        partition: int | None = None,
        timestamp: datetime | None = None,
    ) -> None:
        assign = object.__setattr__
        assign(self, "topic", _topic(topic))
        assign(self, "value", _bytes("value", value))
        assign(self, "key", _bytes("key", key))
        assign(self, "headers", _headers(headers) + _typed(value_type))
        if value_type is not None and [name for name, _ in self.headers].count(VALUE_TYPE) > 1:
            raise MessageInvalid(f"value_type: there is a header {VALUE_TYPE} as well; give one of the two")
        assign(self, "partition", _partition(partition))
        assign(self, "timestamp", _timestamp(timestamp))

    @property
    def value_type(self) -> str | None:
        """What the value is, as its header says; None where it does not say."""
        content = next((content for name, content in self.headers if name == VALUE_TYPE), None)
        return None if content is None else content.decode(errors="replace")

    @property
    def millis(self) -> int | None:
        """The timestamp as Kafka counts it, in milliseconds since 1970."""
        return None if self.timestamp is None else int(self.timestamp.timestamp() * 1000)


def _topic(topic: object) -> str:
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise MessageInvalid(f"topic {topic!r}: Kafka takes 1 to 249 letters, digits, dots, underscores and hyphens")
    return topic


def _bytes(field: str, content: Bytes) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    if not isinstance(content, str):
        raise MessageInvalid(f"{field}: give bytes, text or None, not {type(content).__name__}")
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise MessageInvalid(f"{field}: the text has no UTF-8 form; give bytes instead") from None


def _headers(headers: object) -> tuple[tuple[str, bytes | None], ...]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    if not isinstance(pairs, Iterable):
        raise MessageInvalid(f"headers: give a mapping, or pairs of name and content, not {headers!r}")
    return tuple(_header(pair) for pair in pairs)


def _header(pair: tuple[object, Bytes]) -> tuple[str, bytes | None]:
    try:
        name, content = pair
    except (TypeError, ValueError):
        raise MessageInvalid(f"headers: give pairs of name and content, not {pair!r}") from None
    if not isinstance(name, str) or "\0" in name:
        raise MessageInvalid(f"headers: the name {name!r} is not text, or has a NUL in it")
    _bytes("header name", name)
    return name, _bytes(f"header {name!r}", content)


def _typed(value_type: object) -> tuple[tuple[str, bytes | None], ...]:
    if value_type is None:
        return ()
    if not isinstance(value_type, str) or not value_type:
        raise MessageInvalid(f"value_type {value_type!r}: give a name, or None")
    return ((VALUE_TYPE, _bytes("value_type", value_type)),)


def _partition(partition: int | None) -> int | None:
    if partition is None or (type(partition) is int and 0 <= partition <= _MAX_PARTITION):
        return partition
    raise MessageInvalid(f"partition {partition!r}: give a whole number from 0, or None")


def _timestamp(timestamp: object) -> datetime | None:
    if timestamp is None:
        return None
    if not isinstance(timestamp, datetime) or timestamp.utcoffset() is None:
        raise MessageInvalid(f"timestamp {timestamp!r}: give a datetime with a time zone, or None")
    if timestamp < _EARLIEST:
        raise MessageInvalid(f"timestamp {timestamp}: Kafka counts from 1970 on; give a later one, or None")
    return timestamp
