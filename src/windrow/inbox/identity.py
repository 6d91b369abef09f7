"""What a message is told by: the same message has the same id however often it comes, and no other has it.

The id is the relay's where it says which row of which outbox a message is (`x-sequence`, `x-source`); otherwise that of
a CloudEvent (`ce_id`, `ce_source`); otherwise its place in Kafka, by which a message that was produced twice is two.
The relay's holds within a topic, since a transform can make a message for each of several. The sequence 0 says nothing:
pipelines write it to messages that come from no row.

Invariant: ids of different kinds never meet, and none is longer than the inbox's column.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from windrow.errors import MessageInvalid

LONGEST: Final = 255


@dataclass(frozen=True, slots=True)
class Received:
    """A message that was received, for those whose Kafka client has no such type: confluent_kafka's is as good."""

    topic: str
    partition: int
    offset: int
    value: bytes | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def id_of(message: Any, given: str | bytes | None = None) -> bytes:
    """The id of a message of any Kafka client; or the one that is given."""
    if given is not None:
        if not given:
            raise MessageInvalid("id: give one that is not empty, or None")
        return _fitting(b"id:" + (given.encode() if isinstance(given, str) else given))
    headers = _headers(part(message, "headers"))
    topic = part(message, "topic")
    sequence, source = headers.get("x-sequence"), headers.get("x-source")
    if sequence is not None and sequence.isdigit() and sequence.strip(b"0") and source is not None:
        return _fitting(b"outbox:%s:%s:%s" % (sequence, topic.encode(), source))
    event, origin = headers.get("ce_id"), headers.get("ce_source")
    if event and origin:
        return _fitting(b"ce:%d:%s:%s" % (len(origin), origin, event))
    return _fitting(f"at:{topic}:{part(message, 'partition')}:{part(message, 'offset')}".encode())


def part(message: Any, name: str) -> Any:
    """A part of a message: confluent_kafka has methods for them, other clients attributes."""
    try:
        found = getattr(message, name)
    except AttributeError:
        raise MessageInvalid(f"message: {type(message).__name__} has no {name}; give a Kafka message") from None
    return found() if callable(found) else found


def _headers(given: Any) -> dict[str, bytes | None]:
    """The last of each name: the relay's own stand behind the others."""
    pairs: Iterable[tuple[str, Any]] = given.items() if isinstance(given, Mapping) else given or ()
    return {name: content.encode() if isinstance(content, str) else content for name, content in pairs}


def _fitting(made: bytes) -> bytes:
    return made if len(made) <= LONGEST else b"sha256:" + sha256(made).hexdigest().encode()
