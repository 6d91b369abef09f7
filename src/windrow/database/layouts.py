"""Table layouts: how the columns of a message are found in an outbox, be it windrow's own or one of another system.

A layout maps windrow's names to SQL expressions over the table, so that every statement is written once, in windrow's
names. Which layout a table has is told by the columns that are there; nobody has to say it, unless it is one of
their own (`database/custom.py`). What a layout lacks, `windrow init` adds (`database/adoption.py`).

A layout either has its rows deleted once they are published, or keeps them and notes when that was: then a row is to be
published as long as nothing is noted in it.

Invariant: under windrow's own layout every expression is the plain column, so that it costs nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final

from psycopg.sql import SQL, Composable

from windrow.database.postgres_conversions import (
    AS_JSON,
    as_bytes,
    as_topic,
    from_bytes,
    json_contents,
    json_names,
    length_of,
)

TX: Final = "tx"
ROUTED_TO: Final = "outbox.event."
"""What Debezium's default routing puts before the aggregate's type."""
BY_TRANSACTION: Final = frozenset({"snapshot", "tail"})
"""Captures that tell what is published by the transactions that wrote it; the others by marks on the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A message's columns as SQL expressions over the table, in the types of windrow's own outbox."""

    id: str = "id"
    create_time: str = "create_time"
    topic: str = "topic"
    key: str = "key"
    value: str = "value"
    header_keys: str = "header_keys"
    header_values: str = "header_values"
    partition: str = "partition"
    timestamp: str = "timestamp"
    mark: str = "mark"
    """Where `capture: mark` writes its marks; a plain column under every layout."""
    size: str = "coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0) + pg_column_size(header_values)"
    """Bytes of key, value and headers, near enough to bound a page by."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A table layout by its name: what tells it, how to read it, and how a message is written to it."""

    name: str
    told_by: frozenset[str]
    columns: Columns
    written: Mapping[str, str] = field(hash=False)
    """The columns that a message is written to, as expressions over windrow's own."""
    processed: str | None = None
    """The column that notes when a row was published, where published rows are kept; None where they are deleted."""
    added: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Columns that windrow adds to the table, with their definitions, for what the layout has nothing of."""
    dialect: str = "postgresql"
    """Whose SQL the expressions are."""

    @property
    def own(self) -> bool:
        """Whether it is one of windrow's own tables."""
        return self.told_by >= _OWN_COLUMNS

    def found_by(self, capture: str) -> str:
        """The column by which a capture finds rows."""
        return TX if capture in BY_TRANSACTION else self.columns.mark

    def fragments(self) -> dict[str, Composable]:
        """The expressions by windrow's names, and the two lists of an INSERT, for named queries."""
        named = {each.name: SQL(getattr(self.columns, each.name)) for each in fields(self.columns)}
        return {
            **named,
            "written": SQL(", ".join(self.written)),
            "content": SQL(", ".join(self.written.values())),
            "processed": SQL(self.processed or "NULL"),
            "unprocessed": SQL(f"{self.processed} IS NULL" if self.processed else "true"),
        }


@dataclass(frozen=True, slots=True)
class Family:
    """The layouts that windrow knows on one kind of database."""

    dispatched: Layout
    named: Mapping[str, Layout]
    """By what the setting layout says."""
    debezium: Callable[[Mapping[str, str]], Layout]
    """Debezium's, for a table with columns of these types."""

    @property
    def own(self) -> Layout:
        return self.named["windrow"]

    def told(self, kinds: Mapping[str, str], among: Iterable[str] | None = None) -> Layout | None:
        """The layout that a table with these columns and types has; None where it is none of these, or of all."""
        names = among or self.named
        name = next((each for each in names if self.named[each].told_by <= kinds.keys()), None)
        if name == "windrow" and self.dispatched.told_by <= kinds.keys():
            return self.dispatched
        if name == "debezium":
            return self.debezium(kinds)
        return self.named[name] if name else None


_CONTENT: Final = ("topic", "key", "value", "header_keys", "header_values", "partition", "timestamp")

_OWN_COLUMNS: Final = frozenset({"id", "create_time", *_CONTENT})

OWN: Final = Layout(
    "windrow's own",
    _OWN_COLUMNS,
    Columns(),
    {name: name for name in ("create_time", *_CONTENT)},
)
DISPATCHED: Final = replace(
    OWN,
    name="windrow's own, with a time of dispatch,",
    told_by=OWN.told_by | {"dispatched"},
    processed="dispatched",
)
"""windrow's own table for `capture: sweep`: the application notes there what it has dispatched by itself."""
GOHARVEST: Final = Layout(
    "goharvest's",
    frozenset(
        {
            "id",
            "create_time",
            "kafka_topic",
            "kafka_key",
            "kafka_value",
            "kafka_header_keys",
            "kafka_header_values",
        }
    ),
    Columns(
        topic="kafka_topic",
        key="convert_to(kafka_key, 'UTF8')",
        value="convert_to(kafka_value, 'UTF8')",
        header_keys="kafka_header_keys",
        # By the names' subscripts: the table does not hold that there are as many contents as names.
        header_values=(
            "ARRAY(SELECT convert_to(kafka_header_values[place], 'UTF8')"
            " FROM generate_subscripts(kafka_header_keys, 1) AS place)"
        ),
        mark="leader_id",
        partition="NULL::integer",
        timestamp="NULL::timestamptz",
        size=(
            "coalesce(octet_length(kafka_value), 0) + coalesce(octet_length(kafka_key), 0)"
            " + pg_column_size(kafka_header_values)"
        ),
    ),
    {
        "create_time": "create_time",
        "kafka_topic": "topic",
        "kafka_key": "convert_from(key, 'UTF8')",
        "kafka_value": "convert_from(value, 'UTF8')",
        "kafka_header_keys": "header_keys",
        "kafka_header_values": "ARRAY(SELECT convert_from(content, 'UTF8') FROM unnest(header_values) AS content)",
    },
)
TOMORROW_ONE: Final = Layout(
    "tomorrow-one's",
    frozenset({"id", "created", "processed", "topic", "key", "value", "headers"}),
    Columns(
        create_time="created::timestamptz",
        key="convert_to(key, 'UTF8')",
        header_keys=json_names("headers"),
        header_values=json_contents("headers"),
        partition="NULL::integer",
        timestamp="NULL::timestamptz",
        size="octet_length(value) + coalesce(octet_length(key), 0) + coalesce(pg_column_size(headers), 0)",
    ),
    {
        "created": "create_time",
        "topic": "topic",
        "key": "convert_from(key, 'UTF8')",
        "value": "value",
        "headers": AS_JSON,
    },
    processed="processed",
)


def debezium(kinds: Mapping[str, str]) -> Layout:
    """The layout of Debezium's outbox event router, by its default routing; the columns have these types.

    Its rows have no order and no time: windrow adds both.
    """
    key, payload = kinds.get("aggregateid", "text"), kinds.get("payload", "jsonb")
    return Layout(
        "Debezium's",
        frozenset({"id", "aggregatetype", "aggregateid", "type", "payload"}),
        Columns(
            id="windrow_id",
            create_time="windrow_time",
            topic=as_topic(f"'{ROUTED_TO}' || aggregatetype"),
            key=as_bytes("aggregateid", key),
            value=as_bytes("payload", payload),
            header_keys="ARRAY['id']",
            header_values="ARRAY[convert_to(id::text, 'UTF8')]",
            partition="NULL::integer",
            timestamp="NULL::timestamptz",
            size=f"{length_of('payload', payload)} + {length_of('aggregateid', key)}",
        ),
        {
            "id": "gen_random_uuid()",
            "aggregatetype": f"substr(topic, {len(ROUTED_TO) + 1})",
            "aggregateid": from_bytes("key", key),
            "type": "''",
            "payload": from_bytes("value", payload),
        },
        added={
            "windrow_id": "bigint GENERATED ALWAYS AS IDENTITY UNIQUE",
            "windrow_time": "timestamptz NOT NULL DEFAULT clock_timestamp()",
        },
    )


DEBEZIUM: Final = debezium({})
FAMILY: Final = Family(
    DISPATCHED,
    {"windrow": OWN, "goharvest": GOHARVEST, "tomorrow-one": TOMORROW_ONE, "debezium": DEBEZIUM},
    debezium,
)
