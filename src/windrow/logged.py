"""A message as the content of one that is emitted to PostgreSQL's log, for outboxes that store nothing.

The message's number comes first, as the database gave it out, then what `packed` made. Lengths stand before their
contents; -1 means that there is none. Invariant: what `packed` wrote, `unpacked` reads as it was, and whatever else it
is given, it reads it whole or raises a ValueError.
"""

from struct import Struct, error
from typing import Final

from windrow.message import Message
from windrow.record import Record
from windrow.table import quoted

_VERSION: Final = 1
_HEAD: Final = Struct(">qb")
_TAIL: Final = Struct(">biqi")
_LENGTH: Final = Struct(">i")


def prefix_of(table: str) -> str:
    """What tells the messages of an outbox from all others in the log."""
    return f"windrow {quoted(table)}"


def packed(message: Message) -> bytes:
    """The message without its number."""
    parts = [
        Struct(">b").pack(_VERSION),
        _framed(message.topic.encode()),
        _framed(message.key),
        _framed(message.value),
        _TAIL.pack(message.partition is not None, message.partition or 0, message.millis or 0, len(message.headers)),
    ]
    for name, content in message.headers:
        parts += _framed(name.encode()), _framed(content)
    return b"".join(parts)


def unpacked(content: bytes) -> Record:
    """The number and the message behind it, as a record."""
    try:
        number, version = _HEAD.unpack_from(content)
        if version != _VERSION:
            raise ValueError(f"the message in the log has format {version}, this windrow reads {_VERSION}")
        topic, at = _part(content, _HEAD.size)
        key, at = _part(content, at)
        value, at = _part(content, at)
        chosen, partition, timestamp, count = _TAIL.unpack_from(content, at)
        at += _TAIL.size
        names, contents = [], []
        for _ in range(count):
            name, at = _part(content, at)
            each, at = _part(content, at)
            names.append((name or b"").decode())
            contents.append(each)
    except error as cut_off:
        raise ValueError("the message in the log is cut off") from cut_off
    if at != len(content):
        raise ValueError(f"the message in the log has {len(content) - at} bytes too many")
    return Record(
        number,
        (topic or b"").decode(),
        key,
        value,
        names,
        contents,
        partition if chosen else None,
        timestamp or None,
    )


def _framed(content: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if content is None else _LENGTH.pack(len(content)) + content


def _part(content: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = _LENGTH.unpack_from(content, at)
    at += _LENGTH.size
    if size < 0:
        return None, at
    if at + size > len(content):
        raise ValueError("the message in the log is cut off")
    return content[at : at + size], at + size
