"""Record batches: what a partition's log is made of. Records become batches before it is known whose they are.

Many records are encoded in columns, by Arrow, which costs a fifth of making each by itself; a few one by one, which
costs less than to begin with columns. Both make the same bytes.

Invariant: the records of one partition keep their order, and no batch is larger than asked for unless it holds a single
record.
"""

import contextlib
import random
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

import crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windrow.columns import Columns
from windrow.record import Record, flaw
from windrow.wire.codec import signed
from windrow.wire.messages import Piece, Place, Producer
from windrow.wire.partitions import murmur2, murmur2_of_all

_IN_COLUMNS: Final = 128
"""From so many records on, columns are cheaper."""
_TRANSACTIONAL: Final = 0x10
_CODECS: Final = {"none": 0, "gzip": 1, "zstd": 4}
COMPRESSIONS: Final = tuple(_CODECS)
_AROUND: Final = 40
"""Bytes of a record's own lengths and numbers, at the most."""
_OF_A_MESSAGE: Final = ("topic", "header_keys", "header_values", "partition")
"""What decides whether a row is a message."""
_AFTER_LENGTH: Final = 49
"""Bytes of a batch between its length and its records."""
_VARIABLE: Final = pa.array([signed(number) for number in range(-1, 1 << 14)], pa.binary())
_NOTHING: Final = pa.scalar(b"", pa.binary())

PartitionsOf = Callable[[str], int]
"""How many partitions a topic has; raises where there is no such topic."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Encoded records of one partition, in their order."""

    place: Place
    count: int
    earliest: int
    latest: int
    records: Piece

    def stamped(self, producer: Producer, sequence: int, compression: str) -> list[Piece]:
        """The batch as this producer sends it, after so many of its records in the partition."""
        attributes = _TRANSACTIONAL | _CODECS[compression]
        head = struct.pack(
            ">hiqqqhii", attributes, self.count - 1, self.earliest, self.latest, *producer, sequence, self.count
        )
        checksum = crc32c.crc32c(self.records, crc32c.crc32c(head))
        return [struct.pack(">qiibI", 0, _AFTER_LENGTH + len(self.records), -1, 2, checksum) + head, self.records]


class Malformed(ValueError):
    """A row that is no message, and why."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(reason)
        self.topic = topic


class NoPartition(Malformed):
    """A partition that its topic does not have, as far as is known."""


@dataclass(frozen=True, slots=True)
class Encoder:
    """Makes batches of records: for which source, how large, and how compressed."""

    source: bytes
    size: int
    compression: str = "none"
    _tail: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tail", signed(8) + b"x-source" + signed(len(self.source)) + self.source)

    def encode(self, records: Sequence[Record], partitions_of: PartitionsOf) -> list[Batch]:
        if not records:
            return []
        now = time.time_ns() // 1_000_000
        columns = _columns(records)
        if columns:
            batches = self._in_columns(columns.batch, partitions_of, now)
        else:
            batches = self._one_by_one(records, partitions_of, now)
        if self.compression == "none":
            return list(batches)
        codec = pa.Codec(self.compression)
        return [replace(each, records=codec.compress(each.records, asbytes=True)) for each in batches]

    def _one_by_one(self, records: Sequence[Record], partitions_of: PartitionsOf, now: int) -> Iterator[Batch]:
        open_batches: dict[Place, _Open] = {}
        for record in records:
            place = Place(record.topic, _partition(record, partitions_of))
            body = _body(record, self._tail)
            size = len(body) + _AROUND
            batch = open_batches.get(place)
            if batch and batch.size + size > self.size:
                yield batch.closed(place)
                batch = None
            if batch is None:
                batch = open_batches[place] = _Open(record.timestamp or now)
            batch.add(body, record.timestamp or now, size)
        for place, batch in open_batches.items():
            yield batch.closed(place)

    def _in_columns(self, rows: pa.RecordBatch, partitions_of: PartitionsOf, now: int) -> Iterator[Batch]:
        _check(rows)
        places, groups = _grouped(rows, partitions_of)
        bodies = _bodies(rows, self._tail)
        times = rows.column("timestamp").fill_null(0).to_numpy(zero_copy_only=False)
        times = np.where(times == 0, now, times)
        if len(places) > 1:
            order = np.argsort(groups, kind="stable")
            bodies, times, groups = bodies.take(pa.array(order)), times[order], groups[order]
        ends = np.cumsum(_lengths(bodies).to_numpy() + _AROUND)
        cuts = list(_cuts(groups, ends, self.size))
        firsts = np.repeat(np.array([first for first, _ in cuts]), [last - first for first, last in cuts])
        deltas = np.arange(len(groups)) - firsts
        pieces = (_variable(pa.array(times - times[firsts])), _variable(pa.array(deltas)), bodies)
        sizes = reduce(pc.add, map(_lengths, pieces), len(_ZERO.as_py()))
        _, offsets, data = _joined(_variable(sizes), _ZERO, *pieces).buffers()
        bounds, content = np.frombuffer(offsets, np.int32), memoryview(data)
        for first, last in cuts:
            moments = times[first:last]
            yield Batch(
                places[groups[first]],
                last - first,
                int(moments[0]),
                int(moments.max()),
                content[bounds[first] : bounds[last]],
            )


@dataclass(slots=True)
class _Open:
    """A batch that may yet grow."""

    earliest: int
    latest: int = 0
    size: int = 0
    records: list[bytes] = field(default_factory=list)

    def add(self, body: bytes, timestamp: int, size: int) -> None:
        head = b"\0" + signed(timestamp - self.earliest) + signed(len(self.records) // 2)
        self.records += (signed(len(head) + len(body)) + head, body)
        self.latest = max(self.latest, timestamp)
        self.size += size

    def closed(self, place: Place) -> Batch:
        return Batch(place, len(self.records) // 2, self.earliest, self.latest, b"".join(self.records))


_ZERO: Final = pa.scalar(b"\0", pa.binary())


def _columns(records: Sequence[Record]) -> Columns | None:
    """The records in columns, where there are enough of them, and none is so odd that it does not fit."""
    if isinstance(records, Columns) or len(records) >= _IN_COLUMNS:
        with contextlib.suppress(pa.ArrowTypeError):
            return Columns.of(records)
    return None


def _partition(record: Record, partitions_of: PartitionsOf) -> int:
    topic, given = record.topic, record.partition
    if why := flaw(topic, record.header_keys, record.header_values, given):
        raise Malformed(topic, why)
    count = partitions_of(topic)
    if given is None:
        return random.randrange(count) if record.key is None else murmur2(record.key) % count  # noqa: S311
    return _existing(topic, given, count)


def _existing(topic: str, partition: int, count: int) -> int:
    if partition >= count:
        raise NoPartition(topic, f"topic {topic}: there is no partition {partition}, it has {count}")
    return partition


def _sized(content: bytes | str | None) -> bytes:
    if content is None:
        return b"\x01"
    encoded = content.encode() if isinstance(content, str) else content
    return signed(len(encoded)) + encoded


def _body(record: Record, tail: bytes) -> bytes:
    """A record from its key on."""
    pieces = [_sized(record.key), _sized(record.value), signed(len(record.header_keys) + 2)]
    for name, content in zip(record.header_keys, record.header_values, strict=True):
        pieces += (_sized(name), _sized(content))
    return b"".join((*pieces, b"\x14x-sequence", _sized(b"%d" % record.id), tail))


def _check(rows: pa.RecordBatch) -> None:
    """Raise for the first row that is no message."""
    topics, *lists, partitions = (rows.column(name) for name in _OF_A_MESSAGE)
    nowhere = pc.equal(topics, "").fill_null(True)
    uneven = pc.not_equal(*(pc.list_value_length(each).fill_null(0) for each in lists))
    below = pc.less(partitions, 0).fill_null(False)
    first = pc.index(pc.or_(pc.or_(nowhere, uneven), below), True).as_py()
    if first < 0 and lists[0].flatten().null_count:
        first = next(row for row, names in enumerate(lists[0].to_pylist()) if names and None in names)
    if first >= 0:
        topic, names, contents, partition = (rows.column(name)[first].as_py() for name in _OF_A_MESSAGE)
        raise Malformed(topic or "", flaw(topic, names or (), contents or (), partition))


def _grouped(rows: pa.RecordBatch, partitions_of: PartitionsOf) -> tuple[list[Place], npt.NDArray[np.int64]]:
    """The places that rows go to, and for each row which of them."""
    topics = rows.column("topic").dictionary_encode()
    names = topics.dictionary.to_pylist()
    counts = np.array([partitions_of(name) for name in names], np.int64)
    topic = topics.indices.to_numpy()
    partitions = _partitions(rows, names, topic, counts)
    firsts = np.cumsum(counts) - counts
    places = [Place(name, partition) for name, count in zip(names, counts, strict=True) for partition in range(count)]
    return places, firsts[topic] + partitions


def _partitions(
    rows: pa.RecordBatch, names: list[str], topic: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    keys, given, several = rows.column("key"), rows.column("partition"), counts[topic]
    chosen = murmur2_of_all(keys.fill_null(b"")).astype(np.int64) % several
    if keys.null_count:
        free = keys.is_null().to_numpy(zero_copy_only=False)
        chosen[free] = np.random.default_rng().integers(0, several[free])
    if given.null_count < len(given):
        said = given.is_valid().to_numpy(zero_copy_only=False)
        chosen[said] = given.fill_null(0).to_numpy(zero_copy_only=False)[said]
        wrong = np.nonzero(chosen >= several)[0]
        for row in wrong[:1]:
            _existing(names[topic[row]], int(chosen[row]), int(several[row]))
    return chosen


def _cuts(groups: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], size: int) -> Iterator[tuple[int, int]]:
    """Where batches begin and end: a group's rows, as many as fit."""
    changes = np.nonzero(np.diff(groups))[0] + 1
    for first, last in zip([0, *changes], [*changes, len(groups)], strict=True):
        while first < last:
            before = ends[first - 1] if first else 0
            fitting = int(np.searchsorted(ends, before + size, "right"))
            end = min(max(fitting, first + 1), last)
            yield int(first), int(end)
            first = end  # noqa: PLW2901 - the rest of the group


def _bodies(rows: pa.RecordBatch, tail: bytes) -> pa.Array:
    """As `_body`, of all rows at once."""
    keys, values, lists = rows.column("key"), rows.column("value"), rows.column("header_keys")
    names, contents = (_binary(rows.column(name).flatten()) for name in ("header_keys", "header_values"))
    counts = pc.list_value_length(lists).fill_null(0)
    headers = _joined(_variable(_lengths(names)), names, _variable(_lengths(contents)), contents)
    ends = np.cumsum(np.concatenate([[0], counts.to_numpy()]))
    _, offsets, data = headers.buffers()
    bounds = pa.py_buffer(np.frombuffer(offsets, np.int32)[ends])  # those of a row's headers follow each other
    own = pa.Array.from_buffers(pa.binary(), len(rows), [None, bounds, data])
    sequences = _binary(rows.column("id").cast(pa.string()))
    return _joined(
        _variable(_lengths(keys)),
        keys,
        _variable(_lengths(values)),
        values,
        _variable(pc.add(counts, 2)),
        own,
        pa.scalar(b"\x14x-sequence", pa.binary()),
        _variable(_lengths(sequences)),
        sequences,
        pa.scalar(tail, pa.binary()),
    )


def _binary(column: pa.Array) -> pa.Array:
    return column.cast(pa.binary())


def _lengths(column: pa.Array) -> pa.Array:
    """Lengths in bytes, -1 where there is nothing."""
    return pc.binary_length(column).fill_null(-1)


def _variable(numbers: pa.Array) -> pa.Array:
    """As `signed`, of all numbers at once."""
    bounds = pc.min_max(numbers)
    if len(numbers) and bounds["min"].as_py() >= -1 and bounds["max"].as_py() < len(_VARIABLE) - 1:
        return _VARIABLE.take(pc.add(numbers, 1))
    return pa.array([signed(number) for number in numbers.to_pylist()], pa.binary())


def _joined(*columns: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*columns, _NOTHING, null_handling="replace", null_replacement=b"")
