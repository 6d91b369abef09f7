"""PostgreSQL's pgoutput, read: what logical decoding says of transactions, as values. Pure: bytes in, values out.

Messages of protocol version 1, in binary format. A transaction comes whole and in the order of its changes, once it has
committed: a `Begin`, its rows and emitted messages, a `Commit`. A relation is told before the first of its rows, and
again when it has changed.

Invariant: a message of a kind that we do not know, or that is cut off, is never taken for another: it is None where
pgoutput has more to tell than we asked for, or a ValueError.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from struct import Struct, error
from typing import Any, Final, NamedTuple, TypeVar

from windrow.record import PARTS, Record

T = TypeVar("T")

_EPOCH: Final = 946_684_800_000
"""2000-01-01 in Unix milliseconds: PostgreSQL counts from there."""
_FOREVER: Final = (2**63 - 1, -(2**63))
_BEGIN: Final = Struct(">xqqi")
_COMMIT: Final = Struct(">xbqqq")
_EMITTED: Final = Struct(">xbq")
_RELATION: Final = Struct(">xI")
_ROW: Final = Struct(">xIch")
_LENGTH: Final = Struct(">I")
_COLUMN_TYPE: Final = Struct(">Ii")
_BINARY: Final = ord("b")
_NULL: Final = ord("n")
_KNOWN: Final = 1_000
_INT: Final = Struct(">i")
_INT8: Final = Struct(">q")


class Begin(NamedTuple):
    """A transaction's opening: where its commit stands in the log, and when that was, in microseconds since 1970."""

    commit: int
    time: int


class Commit(NamedTuple):
    """A transaction's end: where the log goes on after it."""

    end: int


class Relation(NamedTuple):
    """A table: its number, and its columns in the order of a row's."""

    number: int
    columns: Sequence[str]


class Emitted(NamedTuple):
    """What somebody wrote to the log with pg_logical_emit_message."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


Said = Begin | Commit | Relation | Emitted | None


def said(message: bytes) -> Said:
    """What a message says, unless it is a row; None where that does not matter to us."""
    try:
        match message[:1]:
            case b"B":
                commit, micros, _ = _BEGIN.unpack_from(message)
                return Begin(commit, micros + _EPOCH * 1_000)
            case b"C":
                return Commit(_COMMIT.unpack_from(message)[2])
            case b"R":
                return _relation(message)
            case b"M":
                return _emitted(message)
            case b"Y" | b"O" | b"T" | b"U" | b"D":  # a type, an origin, changes that the publication leaves out
                return None
            case kind:
                raise ValueError(f"pgoutput sent a message of unknown kind {kind!r}")
    except error as cut_off:
        raise ValueError(f"pgoutput sent a message that is cut off: {message[:40]!r}") from cut_off


def _relation(message: bytes) -> Relation:
    (number,) = _RELATION.unpack_from(message)
    at = _after_text(message, _after_text(message, _RELATION.size))
    (count,) = Struct(">xh").unpack_from(message, at)
    at += 3
    columns = []
    for _ in range(count):
        end = message.index(b"\0", at + 1)
        columns.append(message[at + 1 : end].decode())
        at = end + 1 + _COLUMN_TYPE.size
    return Relation(number, columns)


def _emitted(message: bytes) -> Emitted:
    flags, lsn = _EMITTED.unpack_from(message)
    end = message.index(b"\0", _EMITTED.size)
    (size,) = _INT.unpack_from(message, end + 1)
    content = message[end + 5 : end + 5 + size]
    if len(content) < size:
        raise ValueError("pgoutput sent a message that is cut off")
    return Emitted(bool(flags & 1), lsn, message[_EMITTED.size : end].decode(), content)


def _after_text(message: bytes, at: int) -> int:
    return message.index(b"\0", at) + 1


class RowReader:
    """Makes records of a table's rows, by the columns that its relation has."""

    def __init__(self, relation: Relation) -> None:
        if lacking := [name for name in PARTS if name not in relation.columns]:
            raise ValueError(f"the published table lacks {', '.join(lacking)}")
        self._columns = range(len(relation.columns))
        self._parts = itemgetter(*map(relation.columns.index, PARTS))
        self._topics: dict[bytes, str] = {}
        self._names: dict[bytes, list[Any]] = {}

    def record(self, row: bytes) -> Record:
        """The record of a row. This is the hot path, 3 µs: a backlog's every row comes through here."""
        fields: list[bytes | None] = []
        add, unpack, at = fields.append, _LENGTH.unpack_from, _ROW.size
        try:
            for _ in self._columns:
                if row[at] == _BINARY:
                    start = at + 5
                    at = start + unpack(row, at + 1)[0]
                    add(row[start:at])
                elif row[at] == _NULL:
                    add(None)
                    at += 1
                else:
                    raise ValueError(f"pgoutput sent a field of kind {row[at : at + 1]!r}, not in binary format")
        except (error, IndexError) as cut_off:
            raise ValueError("pgoutput sent a row that is cut off") from cut_off
        if at != len(row):
            raise ValueError(f"pgoutput sent a row of {len(row)} bytes, whose fields take {at}")
        number, topic, key, value, names, contents, partition, timestamp = self._parts(fields)
        return Record(
            _integer(number) or 0,
            self._topics.get(topic) or self._topic(topic or b""),
            key,
            value,
            self._names.get(names) or self._header_names(names),
            array(contents) if contents else [],
            _integer(partition),
            None if timestamp is None else _millis(timestamp),
        )

    def _topic(self, topic: bytes) -> str:
        return _remembered(self._topics, topic, topic.decode())

    def _header_names(self, names: bytes | None) -> list[Any]:
        """Most messages of a service have headers of the same names: read those once."""
        return _remembered(self._names, names, array(names, bytes.decode)) if names else []


def _remembered(known: dict[bytes, T], content: bytes, read: T) -> T:
    if len(known) >= _KNOWN:
        known.clear()
    known[content] = read
    return read


def array(content: bytes, convert: Callable[[bytes], Any] | None = None) -> list[Any]:
    """The elements of an array in binary format, of whatever dimensions, in their order."""
    elements: list[Any] = []
    add, unpack, end = elements.append, _INT.unpack_from, len(content)
    at = 12 + 8 * unpack(content)[0]
    while at < end:
        start = at + 4
        size = unpack(content, at)[0]
        if size < 0:
            add(None)
            at = start
        else:
            at = start + size
            element = content[start:at]
            add(convert(element) if convert else element)
    return elements


def _integer(content: bytes | None) -> int | None:
    return None if content is None else int.from_bytes(content, "big", signed=True)


def _millis(content: bytes) -> int | None:
    """Kafka has no time that never comes: then the message gets the time of its sending."""
    micros: int = _INT8.unpack(content)[0]
    return None if micros in _FOREVER else micros // 1_000 + _EPOCH
