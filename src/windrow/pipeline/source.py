"""The format `outbox`: messages as rows, for batch and for streaming queries.

A stream's offset is the position of each of its shards, the same value that a relay commits, with a count. It is
planned on the driver and read on the executors, one partition a shard; whoever reads it again finds the same rows.

Invariant: a row is purged only after the stream has passed it. The stream is entered beside the relays under its name,
and saves its positions there as Spark commits them; the purge goes by the slowest of all.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from windrow.capture.position import Position, Snapshot
from windrow.capture.snapshot import NO_BOUND
from windrow.capture.span import SPARK_SCHEMA, Reach, SpanCapture
from windrow.database.connections import connect
from windrow.database.migrations import check
from windrow.errors import PositionForeign, SettingsInvalid
from windrow.pipeline.options import settings_from
from windrow.record import Committed, Shard
from windrow.relay.registry import Registry
from windrow.relay.setup import default_shards
from windrow.settings import Settings

_MAX_ROWS: Final = "maxRowsPerTrigger"
_DEFAULT_MAX_ROWS: Final = 100_000

Offset = dict[str, dict[str, Any]]
"""For each shard its encoded position, and how many records were read until there."""


class OutboxSource(DataSource):
    """`spark.read.format("outbox")` and `spark.readStream.format("outbox")`."""

    @classmethod
    def name(cls) -> str:
        return "outbox"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> "OutboxReader":  # noqa: ARG002 - Spark's signature
        return OutboxReader(self._settings())

    def streamReader(self, schema: StructType) -> "OutboxStreamReader":  # noqa: ARG002, N802 - Spark's signature
        return OutboxStreamReader(self._settings(), _max_rows(self.options))

    def _settings(self) -> Settings:
        return settings_from(self.options, ours=frozenset({_MAX_ROWS}), unused="WINDROW_KAFKA_BOOTSTRAP_SERVERS")


@dataclass
class SpanPartition(InputPartition):
    """A shard's rows between two positions, both encoded."""

    shard: Shard
    start: str
    end: str


class _Reader:
    """What batch and streaming readers have in common: the executors' side."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SpanPartition):
            raise TypeError(f"a partition of the outbox, not {partition!r}")
        with closing(SpanCapture.at(self._settings, partition.shard, partition.start)) as capture:
            yield from capture.read(Position.decode(partition.start), Position.decode(partition.end))


class OutboxReader(_Reader, DataSourceReader):
    """All that is in the outbox now, whether it was published or not."""

    def partitions(self) -> Sequence[InputPartition]:
        shards = self._settings.shards or default_shards()
        with closing(SpanCapture.at(self._settings, Shard(0, 1), None)) as capture:
            start, end = capture.position, capture.reach(capture.position).end
        return [SpanPartition(Shard(each, shards), start.encode(), end.encode()) for each in range(shards)]


class OutboxStreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What comes into the outbox, batch by batch."""

    def __init__(self, settings: Settings, max_rows: int) -> None:
        super().__init__(settings)
        self._max_rows = max_rows
        self._until: Snapshot | None = None
        self._checked = False

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where the stream of this name was last, if it has been there before; otherwise before the first row."""
        saved = self._registry.saved()
        nowhere = Committed(0, self._capture(0).position.encode())
        return {str(each): _offset(saved.get(each, nowhere)) for each in range(self._shards)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadMaxRows(self._max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._until = self._registry.now().lo

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        if len(start) != self._shards:
            raise SettingsInvalid(
                [f"shards: the checkpoint has {len(start)}, stream {self._settings.name} has {self._shards}"]
            )
        bound = -(-limit.max_rows // len(start)) if isinstance(limit, ReadMaxRows) else NO_BOUND
        reaches = {
            shard: self._capture(int(shard)).reach(Position.decode(at["position"]), bound, within=self._until)
            for shard, at in start.items()
        }
        # All shards move where one of them does: one that rests would hold back the purge of the others' rows.
        return _moved(start, reaches) if any(reach.records for reach in reaches.values()) else start

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        self._check(start)
        return [
            SpanPartition(Shard(int(shard), len(start)), start[shard]["position"], at["position"])
            for shard, at in end.items()
            if at != start[shard]
        ]

    def commit(self, end: Offset) -> None:
        self._registry.save({int(shard): _committed(at) for shard, at in end.items()})

    def stop(self) -> None:
        for capture in self._captures.values():
            capture.close()

    def _check(self, start: Offset) -> None:
        """Raise where rows that a checkpoint still wants may be gone: the stream was further already."""
        if self._checked:
            return
        for shard, saved in self._registry.saved().items():
            if start[str(shard)]["records"] < saved.published:
                raise PositionForeign(
                    f"the checkpoint of stream {self._settings.name} is older than what was purged behind it"
                    ": give it another name and a new checkpoint, or restore the outbox's rows"
                )
        self._checked = True

    @cached_property
    def _captures(self) -> dict[int, SpanCapture]:
        return {}

    @cached_property
    def _registry(self) -> Registry:
        """The stream's row, entered by now."""
        registry = Registry(self._settings)
        with connect(self._settings.data_source) as connection:
            check(connection, registry.tables)
            registry.enter(connection, self._settings.shards or default_shards())
        return registry

    @cached_property
    def _shards(self) -> int:
        """As many as the stream was entered with."""
        return self._registry.shards()

    def _capture(self, shard: int) -> SpanCapture:
        if shard not in self._captures:
            self._captures[shard] = SpanCapture.at(self._settings, Shard(shard, self._shards), None)
        return self._captures[shard]


def _offset(at: Committed) -> dict[str, Any]:
    return {"position": at.position, "records": at.published}


def _committed(at: Mapping[str, Any]) -> Committed:
    return Committed(at["records"], at["position"])


def _moved(start: Offset, reaches: Mapping[str, Reach]) -> Offset:
    return {
        shard: _offset(Committed(start[shard]["records"] + reach.records, reach.end.encode()))
        for shard, reach in reaches.items()
    }


def _max_rows(options: Mapping[str, str]) -> int:
    given = options.get(_MAX_ROWS, str(_DEFAULT_MAX_ROWS))
    if not given.isdigit() or int(given) < 1:
        raise SettingsInvalid([f"{_MAX_ROWS}: give a whole number from 1 on, not {given!r}"])
    return int(given)
