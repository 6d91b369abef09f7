"""Settings: parsed once, at the edge, into one frozen and validated value.

They come from a YAML file, from environment variables and from keyword arguments, the later ones winning. A key is
written in camel case in the file (`outboxTable`), in capitals in the environment (`WINDROW_OUTBOX_TABLE`) and in snake
case in Python (`outbox_table`). Every mistake is reported at once, each with its remedy; no secret is ever printed.
"""

import dataclasses
import logging
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

from windrow.errors import SettingsInvalid
from windrow.goharvest import adapted, unwrapped
from windrow.parse import (
    Address,
    Check,
    Size,
    bounds,
    camel,
    out_of_bounds,
    read,
    setting,
    shown,
    values_of,
    without_secrets,
)
from windrow.sources import gathered
from windrow.table import Dialect, column_remedies, remedies

log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,180}")
_OURS: Final = ("transactional.id", "enable.idempotence", "group.id", "delivery.report.only.error")
_COLUMNS_NEEDED: Final = ("id", "createTime", "topic", "value")
_COLUMNS: Final = (
    *_COLUMNS_NEEDED,
    *("key", "headers", "headerKeys", "headerValues", "partition", "timestamp", "processed", "mark"),
)
_FUNCTION: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_MYSQL: Final = re.compile(r"\s*(mysql|mariadb)://", re.IGNORECASE)
_POSITIVE: Final = bounds(timedelta.resolution, timedelta.max, "more than 0")


def dialect_of(data_source: str) -> Dialect:
    """Whose SQL a database speaks: postgresql, or mysql, which MariaDB does too."""
    return "mysql" if _MYSQL.match(data_source) else "postgresql"


def _named(value: str) -> Iterator[str]:
    if not _NAME.fullmatch(value):
        yield f"give 1 to 180 letters, digits, dots, underscores and hyphens, not {value!r}"


def _database(value: str) -> Iterator[str]:
    if not value.strip():
        yield "give the database, for example postgresql://user@host:5432/database"


def _kafka(config: Mapping[str, str]) -> Iterator[str]:
    for key in _OURS:
        if key in config:
            yield f"{key} is set by windrow itself, because exactly once depends on it: leave it out"


def _kafka_with_brokers(config: Mapping[str, str]) -> Iterator[str]:
    if not config.get("bootstrap.servers"):
        yield "bootstrap.servers is missing: name the brokers, for example host:9092"
    yield from _kafka(config)


def _one_of(*choices: str) -> Check:
    def check(value: str) -> Iterator[str]:
        if value not in choices:
            yield f"give {', '.join(choices[:-1])} or {choices[-1]}, not {value!r}"

    return check


def _provider(value: str) -> Iterator[str]:
    if value not in {"", "environment"} and not _FUNCTION.fullmatch(value):
        yield f"give environment, or a function as module:function, not {value!r}"


def _spark(config: Mapping[str, str]) -> Iterator[str]:
    for key in config:
        if not key.startswith("spark.") and key not in {"master", "remote"}:
            yield f"{without_secrets(key)} is not a setting of Spark's: give master, remote, or spark.…"


def _columns(columns: Mapping[str, str]) -> Iterator[str]:
    for name, column in columns.items():
        if name not in _COLUMNS:
            yield f"{without_secrets(name)} is none of {', '.join(_COLUMNS)}: leave it out"
        for remedy in column_remedies(column):
            yield f"{name}: {remedy}"
    if columns and (missing := [name for name in _COLUMNS_NEEDED if name not in columns]):
        yield f"name the columns of {', '.join(missing)}"
    if ("headerKeys" in columns) != ("headerValues" in columns):
        yield "give headerKeys and headerValues together"
    if "headers" in columns and "headerKeys" in columns:
        yield "give headers, a JSON object, or headerKeys and headerValues, not both"
    if len(set(columns.values())) < len(columns):
        yield "give each name a column of its own"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds and paces of the relay."""

    page_records: int = setting("records in one Kafka transaction", bounds(1, 100_000, "1 to 100000"), default=10_000)
    page_bytes: Size = setting(
        "bytes in one Kafka transaction; one record at least",
        bounds(1, math.inf, "1 or more"),
        default=Size(16_000_000),
    )
    max_in_flight_records: int | None = setting(
        "records that a shard has read and not yet committed; without it two pages",
        bounds(1, 200_000, "1 to 200000"),
        default=None,
    )
    mark_backoff: timedelta = setting(
        "pause after a look at the outbox that found nothing", _POSITIVE, default=timedelta(milliseconds=2)
    )
    max_mark_backoff: timedelta = setting(
        "what that pause grows to while the outbox is idle", _POSITIVE, default=timedelta(milliseconds=60)
    )
    heartbeat_timeout: timedelta = setting(
        "how long a leader goes on that does not hear itself", _POSITIVE, default=timedelta(seconds=5)
    )
    session_timeout: timedelta = setting(
        "how long Kafka waits for a leader that died; brokers refuse less than 6s unless told otherwise",
        bounds(timedelta(seconds=1), timedelta(minutes=5), "1s to 5m"),
        default=timedelta(seconds=6),
    )
    sweep_after: timedelta = setting(
        "with capture: sweep, how old a row is that the application was to dispatch by itself and has not",
        _POSITIVE,
        default=timedelta(seconds=5),
    )
    max_slot_wal: Size = setting(
        "with capture: tail, how much of the database's log the slot may hold back before the relay warns",
        bounds(1, math.inf, "1 or more"),
        default=Size(1_000_000_000),
    )
    lease_timeout: timedelta = setting(
        "how long a leader chosen by lease may be silent before another takes over",
        bounds(timedelta(milliseconds=500), timedelta(minutes=5), "500ms to 5m"),
        default=timedelta(seconds=5),
    )
    io_error_backoff: timedelta = setting(
        "first pause after the database or Kafka failed; it doubles up to 1 s",
        _POSITIVE,
        default=timedelta(milliseconds=500),
    )
    min_metrics_interval: timedelta = setting(
        "time between two readings of the meter", _POSITIVE, default=timedelta(seconds=5)
    )

    @property
    def records_at_once(self) -> int:
        """Records in one page: half of what may be in flight, since the next page is read while one is published."""
        if self.max_in_flight_records is None:
            return self.page_records
        return min(self.page_records, max(self.max_in_flight_records // 2, 1))

    @property
    def reads_ahead(self) -> bool:
        """Whether a page may be read while another is being published."""
        return self.max_in_flight_records != 1

    def __post_init__(self) -> None:
        if mistakes := [*out_of_bounds(Limits, values_of(self), "limits.")]:
            raise SettingsInvalid(mistakes)


@dataclass(frozen=True, slots=True)
class Purge:
    """What becomes of published rows."""

    interval: timedelta = setting("time between two purges", _POSITIVE, default=timedelta(seconds=5))
    retention: timedelta = setting(
        "how long published rows are kept, counted from their creation, or from processed where the layout notes it",
        bounds(timedelta(), timedelta.max, "0s or more"),
        default=timedelta(),
    )
    chunk: int = setting("rows deleted in one transaction", bounds(1, 1_000_000, "1 to 1000000"), default=10_000)

    def __post_init__(self) -> None:
        if mistakes := [*out_of_bounds(Purge, values_of(self), "purge.")]:
            raise SettingsInvalid(mistakes)


@dataclass(frozen=True, slots=True)
class Observe:
    """Who may see how the relay is, and from when on it is not well."""

    address: Address | None = setting(
        "where /metrics, /livez and /readyz are served, for example 127.0.0.1:9464; a port alone is this machine's own;"
        " without it nowhere",
        default=None,
    )
    stalled_after: timedelta = setting(
        "not ready: nobody leads, nothing is published while messages wait, or a server is silent for so long",
        _POSITIVE,
        default=timedelta(seconds=30),
    )
    max_oldest_age: timedelta = setting(
        "not ready: the oldest message waits for longer", _POSITIVE, default=timedelta(minutes=5)
    )
    otlp: str = setting(
        "who sends the metrics by OpenTelemetry: environment, by its own variables; or module:function, which sets or"
        " returns a meter provider; without it nobody",
        _provider,
        default="",
    )

    def __post_init__(self) -> None:
        if mistakes := [*out_of_bounds(Observe, values_of(self), "observe.")]:
            raise SettingsInvalid(mistakes)


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """What a relay needs to know; `Settings.load` reads them."""

    data_source: str = setting(
        "the database: postgresql://… or key=value pairs; or mysql://…, for MySQL and MariaDB",
        _database,
        "give the database, for example postgresql://user@host:5432/database, or set WINDROW_DATA_SOURCE",
    )
    base_kafka_config: Mapping[str, str] = setting(
        "settings of every Kafka client, bootstrap.servers among them",
        _kafka_with_brokers,
        "give the brokers, for example bootstrap.servers: host:9092, or set WINDROW_KAFKA_BOOTSTRAP_SERVERS",
    )
    producer_kafka_config: Mapping[str, str] = setting(
        "further settings of the producers", _kafka, default_factory=dict
    )
    name: str = setting(
        "the relay's name; one relay at a time publishes under it; without it leaderGroupID, or windrow",
        _named,
        default="",
    )
    outbox_table: str = setting("the outbox, as table or schema.table", remedies, default="outbox")
    layout: str = setting(
        "what the outbox's columns are: auto, told by the columns; windrow, goharvest, tomorrow-one or debezium; or"
        " custom, as columns says",
        _one_of("auto", "windrow", "goharvest", "tomorrow-one", "debezium", "custom"),
        default="auto",
    )
    columns: Mapping[str, str] = setting(
        "with layout: custom, the outbox's columns by windrow's names", _columns, default_factory=dict
    )
    poison: str = setting(
        "what becomes of a message that Kafka refuses for good: dead-letter keeps it in a table, block-key also what"
        " comes after it of its key, stop ends the relay",
        _one_of("dead-letter", "block-key", "stop"),
        default="dead-letter",
    )
    capture: str = setting(
        "how new rows are found: snapshot, by what transactions see; mark, by writing to the rows; sweep, as mark, but"
        " only those that the application has not dispatched by itself in time; tail, in PostgreSQL's log; without it"
        " snapshot, on MySQL mark",
        _one_of("snapshot", "mark", "sweep", "tail"),
        default="",
    )
    delivery: str = setting(
        "exactly-once, in Kafka transactions; or at-least-once, for brokers without them",
        _one_of("exactly-once", "at-least-once"),
        default="exactly-once",
    )
    election: str = setting(
        "how the leader is chosen: neli, by a Kafka consumer group; or lease, by a row in the database",
        _one_of("neli", "lease"),
        default="neli",
    )
    source: str = setting("content of the x-source header; without it the relay's name", default="")
    tracing: str = setting(
        "who makes the spans of traces, in Spark's tasks: environment, by OpenTelemetry's own variables; or"
        " module:function, which sets or returns a tracer provider; without it there are none",
        _provider,
        default="",
    )
    transform: str = setting("a query in SQL that messages go through on the way", default="")
    leader_topic: str = setting("topic that the leader is elected on; without it windrow.<name>.leader", default="")
    position_topic: str = setting("topic that positions are kept for; without it windrow.<name>.positions", default="")
    leader_group_id: str = setting("consumer group that elects and keeps them; without it windrow.<name>", default="")
    shards: int | None = setting(
        "parallel shards, fixed when the relay is initialised", bounds(1, 1024, "1 to 1024"), default=None
    )
    epoch: timedelta = setting(
        "how long one Spark job of resident tasks runs",
        bounds(timedelta(seconds=1), timedelta.max, "1s or more"),
        default=timedelta(minutes=5),
    )
    spark: Mapping[str, str] = setting("Spark's own settings, and master or remote", _spark, default_factory=dict)
    limits: Limits = setting("bounds and paces", default_factory=Limits)
    purge: Purge = setting("what becomes of published rows", default_factory=Purge)
    observe: Observe = setting("metrics and health", default_factory=Observe)

    def __post_init__(self) -> None:
        # The group is what keeps goharvest's relays apart, which have no name in common: so it names ours.
        object.__setattr__(self, "name", self.name or self.leader_group_id or "windrow")
        derived = {
            "capture": "snapshot" if self.dialect == "postgresql" else "mark",
            "source": self.name,
            "leader_topic": f"windrow.{self.name}.leader",
            "position_topic": f"windrow.{self.name}.positions",
            "leader_group_id": f"windrow.{self.name}",
        }
        for each, default in derived.items():
            object.__setattr__(self, each, getattr(self, each) or default)
        if mistakes := [*out_of_bounds(Settings, values_of(self)), *self._at_odds(), *self._not_on_mysql()]:
            raise SettingsInvalid(mistakes)

    def _at_odds(self) -> Iterator[str]:
        """Settings that are right by themselves, and not together."""
        if self.transform and self.poison == "block-key":
            yield "poison: block-key knows the keys before a transform, not after it: give dead-letter or stop"
        if (self.layout == "custom") != bool(self.columns):
            yield "columns: name the outbox's columns with layout: custom, and only with it"
        if self.capture != "snapshot" and self.transform:
            yield "transform: is for capture: snapshot, whose positions a query's batches can be told by"
        if self.tails and self.shards not in {None, 1}:
            yield "shards: a log has one reader: with capture: tail give 1, or leave it out"
        if self.delivery == "at-least-once" and not self.marks:
            yield "delivery: at-least-once notes in the rows what has arrived: give capture: mark with it"

    def _not_on_mysql(self) -> Iterator[str]:
        if self.dialect != "mysql":
            return
        if self.capture == "snapshot":
            yield "capture: snapshot goes by what PostgreSQL's transactions see: on MySQL give mark or sweep"
        if self.tails:
            yield "capture: tail reads PostgreSQL's log: on MySQL give mark or sweep"
        if self.layout in {"goharvest", "tomorrow-one"}:
            yield f"layout: {self.layout} is of tables on PostgreSQL: on MySQL give windrow, debezium or custom"

    @property
    def dialect(self) -> Dialect:
        """Whose SQL the database speaks."""
        return dialect_of(self.data_source)

    @property
    def marks(self) -> bool:
        """Whether rows are taken by writing a mark to them."""
        return self.capture in {"mark", "sweep"}

    @property
    def tails(self) -> bool:
        """Whether messages are read from the database's log."""
        return self.capture == "tail"

    @property
    def position_group_id(self) -> str:
        """The consumer group that keeps what shards commit. Outside transactions it must be one without members: from
        others, Kafka takes commits of members only.
        """
        return self.leader_group_id if self.delivery == "exactly-once" else f"{self.leader_group_id}.published"

    @classmethod
    def load(cls, file: Path | None = None, environment: Mapping[str, str] | None = None, **overrides: Any) -> Self:
        """Settings from a YAML file, then the environment, then those keyword arguments that are not None."""
        given, warnings = adapted(gathered(cls, file, environment, overrides, unwrapped))
        for warning in warnings:
            log.warning("%s", without_secrets(warning))
        return read(cls, given)

    def __str__(self) -> str:
        """All settings, with secrets hidden."""
        return "\n".join(_lines(self, ""))

    __repr__ = __str__


def _lines(section: Any, prefix: str) -> Iterator[str]:
    for name, value in values_of(section).items():
        key = prefix + camel(name)
        if dataclasses.is_dataclass(value):
            yield from _lines(value, f"{key}.")
        elif isinstance(value, Mapping):
            for each, content in value.items():
                yield f"{key}.{shown(each, content)}"
        else:
            yield shown(key, value)
