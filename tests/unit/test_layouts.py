"""Table layouts: told by their columns, read in windrow's names, and at no cost for windrow's own."""

import dataclasses

import pytest
from psycopg.sql import SQL

from windrow.capture.protocol import selected
from windrow.capture.shards import predicate
from windrow.database import layouts, mysql_layouts
from windrow.database.additions import Index, Table, additions
from windrow.database.adoption import adopted, fit
from windrow.database.custom import CONVERSIONS, custom
from windrow.database.layouts import GOHARVEST, OWN, Family, Layout
from windrow.errors import OutboxTableMissing, SettingsInvalid
from windrow.record import Record, Shard
from windrow.settings import _COLUMNS, Settings
from windrow.table import unquoted

OUTBOX = Settings("postgresql://", {"bootstrap.servers": "-"}, outbox_table="some.table")


FAMILIES = {"postgresql": layouts.FAMILY, "mysql": mysql_layouts.FAMILY}
LAYOUTS = pytest.mark.parametrize(
    ("family", "layout"),
    [(family, layout) for family in FAMILIES.values() for layout in family.named.values()],
    ids=lambda each: each.name if isinstance(each, Layout) else each.own.dialect,
)


@LAYOUTS
@pytest.mark.parametrize("more", [set(), {"tx"}, {"tx", "leader_id", "colour"}])
def test_a_layout_is_told_by_its_columns_whatever_else_there_is(family: Family, layout: Layout, more: set[str]) -> None:
    found = family.told(dict.fromkeys(layout.told_by | more, "text"))
    assert found
    assert (found.name, found.dialect) == (layout.name, layout.dialect)


@LAYOUTS
def test_a_table_that_lacks_a_column_has_no_layout_and_the_error_names_it(family: Family, layout: Layout) -> None:
    settings = Settings(f"{layout.dialect}://", {"bootstrap.servers": "-"}, outbox_table="some.table")
    for missing in layout.told_by:
        assert family.told(dict.fromkeys(layout.told_by - {missing}, "text")) is None
        with pytest.raises(OutboxTableMissing, match=rf'"some"\."table" .* {layout.name} layout it lacks {missing}\b'):
            fit(dict.fromkeys(layout.told_by - {missing}, "text"), settings)


def test_the_own_layout_reads_plain_columns() -> None:
    assert ", ".join(selected(OWN)) == (
        "id, topic, key, value, header_keys, header_values, partition,"
        ' CASE WHEN isfinite(timestamp) THEN (extract(epoch FROM timestamp) * 1000)::bigint END AS "timestamp"'
    )
    hashed = "sha256(coalesce(key, convert_to(topic, 'UTF8')))"
    assert predicate(Shard(1, 3), OWN).as_string() == (
        f"mod((get_byte({hashed}, 0) << 8) | get_byte({hashed}, 1), 3) = 1"
    )


@LAYOUTS
def test_every_layout_gives_every_part_of_a_record(family: Family, layout: Layout) -> None:
    assert layout in family.named.values()
    names = [each.rpartition(" ")[2].strip('"') for each in selected(layout, Record._fields)]
    assert names == list(Record._fields)
    assert {unquoted(each) for each in layout.written} <= layout.told_by
    SQL("{id} {create_time} {size} {written} {content}").format(**layout.fragments())


def test_goharvests_text_becomes_bytes_and_text_again() -> None:
    assert GOHARVEST.columns.key == "convert_to(kafka_key, 'UTF8')"
    assert GOHARVEST.written["kafka_key"] == "convert_from(key, 'UTF8')"


MINE = {"id": "no", "createTime": "at", "topic": "To", "value": "body"}
KINDS_OF_MINE = {"no": "bigint", "at": "timestamp with time zone", "To": "text", "body": "jsonb"}


def my_own(columns: dict[str, str], dialect: str = "postgresql", **more: str) -> Settings:
    given = {"outbox_table": "some.table", "layout": "custom", "columns": columns, **more}
    return Settings(f"{dialect}://", {"bootstrap.servers": "-"}, **given)


@pytest.mark.parametrize("dialect", FAMILIES)
def test_settings_and_the_check_of_types_know_the_same_columns(dialect: str) -> None:
    assert tuple(CONVERSIONS[dialect].KINDS) == _COLUMNS


def test_columns_of_ones_own_are_read_by_their_names_quoted() -> None:
    layout = fit(KINDS_OF_MINE, my_own(MINE))
    assert [*selected(layout)][:4] == [
        '"no" AS "id"',
        """left(coalesce("To", ''), 249) AS "topic\"""",
        'NULL::bytea AS "key"',
        """convert_to("body"::text, 'UTF8') AS "value\"""",
    ]
    assert layout.written == {
        '"at"': "create_time",
        '"To"': "topic",
        '"body"': "convert_from(value, 'UTF8')::jsonb",
    }


def test_every_column_that_is_missing_or_of_the_wrong_type_is_told() -> None:
    columns = {**MINE, "key": "who", "processed": "done", "mark": "mine"}
    kinds = {**KINDS_OF_MINE, "no": "uuid", "done": "boolean", "mine": "text"}
    with pytest.raises(OutboxTableMissing) as raised:
        fit(kinds, my_own(columns))
    assert str(raised.value).splitlines()[0] == (
        'outboxTable "some"."table" is not as the setting columns says: no (id) is uuid; it has to be bigint or'
        " integer; who (key) is missing; it has to be text or character varying or bytea or uuid or bigint or integer;"
        " done (processed) is boolean; it has to be timestamp with time zone or timestamp without time zone;"
        " mine (mark) is text; it has to be uuid"
    )


def test_a_layout_that_is_named_is_not_guessed() -> None:
    kinds = dict.fromkeys(GOHARVEST.told_by, "text")
    named = dataclasses.replace(OUTBOX, layout="tomorrow-one")
    with pytest.raises(OutboxTableMissing, match="can read: for tomorrow-one's layout it lacks created, headers, key"):
        fit(kinds, named)
    with pytest.raises(
        OutboxTableMissing, match="is not there: with layout: tomorrow-one it is made by those who write"
    ):
        adopted(Table({}, frozenset()), named)


def test_what_a_table_has_is_not_added() -> None:
    layout = custom({**MINE, "processed": "Done"}, KINDS_OF_MINE, "postgresql")
    there = Table({"no": "bigint", "mark": "uuid"}, {Index("no"), Index("no", "(Done IS NULL)"), Index("Done")})
    assert [*additions(layout, "mark", there)] == []
    added = [each.statements.as_string() for each in additions(layout, "mark", Table({"no": "bigint"}, frozenset()))]
    assert added == [
        'CREATE UNIQUE INDEX ON {outbox} ("no")',
        "ALTER TABLE {outbox} ADD COLUMN IF NOT EXISTS mark uuid",
        'CREATE INDEX ON {outbox} ("no") WHERE ("Done" IS NULL)',
        'CREATE INDEX ON {outbox} ("Done")',
    ]


ON_MYSQL = {"no": "bigint", "at": "datetime", "To": "varchar", "body": "json", "who": "binary", "head": "longtext"}


def test_on_mysql_text_becomes_utf8_bytes_stay_and_json_is_not_trusted() -> None:
    layout = fit(ON_MYSQL, my_own({**MINE, "key": "who", "headers": "head"}, "mysql"))
    head = 'convert("head" USING utf8mb4)'
    assert [*selected(layout)] == [
        '"no" AS "id"',
        """left(coalesce(convert("To" USING utf8mb4), ''), 249) AS "topic\"""",
        '"who" AS "key"',
        'cast(convert("body" USING utf8mb4) AS binary) AS "value"',
        'NULL AS "header_keys"',
        f'if(json_valid({head}) = 0, json_quote({head}), {head}) AS "header_values"',
        'NULL AS "partition"',
        """timestampdiff(MICROSECOND, '1970-01-01', NULL) DIV 1000 AS "timestamp\"""",
    ]
    assert layout.written == {
        '"at"': "create_time",
        '"To"': "topic",
        '"who"': '"key"',
        '"body"': "convert(value USING utf8mb4)",
        '"head"': "header_values",
    }


def test_on_mysql_every_column_that_is_missing_or_of_the_wrong_type_is_told() -> None:
    columns = {**MINE, "key": "nobody", "headers": "who", "mark": "head"}
    with pytest.raises(OutboxTableMissing) as raised:
        fit({**ON_MYSQL, "no": "decimal"}, my_own(columns, "mysql"))
    assert str(raised.value).splitlines()[0] == (
        'outboxTable "some"."table" is not as the setting columns says: no (id) is decimal; it has to be bigint or int;'
        " nobody (key) is missing; it has to be varchar or char or text or mediumtext or longtext or tinytext or"
        " varbinary or binary or blob or mediumblob or longblob or tinyblob or uuid or bigint or int;"
        " who (headers) is binary; it has to be json or longtext; head (mark) is longtext; it has to be binary"
    )


def test_on_mysql_what_is_lacking_is_added_step_by_step() -> None:
    def added(layout: Layout, table: Table) -> list[str]:
        return [each.statements.as_string() for each in additions(layout, "mark", table)]

    unless_there = "/*M! IF NOT EXISTS */"
    mine = custom({**MINE, "processed": "Done", "mark": "Order"}, ON_MYSQL, "mysql")
    assert added(mine, Table({"no": "bigint"}, frozenset())) == [
        'CREATE UNIQUE INDEX windrow_id ON {outbox} ("no")',
        f'ALTER TABLE {{outbox}} ADD COLUMN {unless_there} "Order" binary(16)',
        f'CREATE INDEX {unless_there} windrow_processed ON {{outbox}} ("Done", "no")',
    ]
    there = {"no": "bigint", "Order": "binary"}
    assert added(mine, Table(there, {Index("no")})) == [
        f'CREATE INDEX {unless_there} windrow_processed ON {{outbox}} ("Done", "no")'
    ]
    assert added(mine, Table(there, {Index("no"), Index("Done")})) == []
    theirs = mysql_layouts.debezium({})
    time = f"ADD COLUMN {unless_there} windrow_time datetime(6) NOT NULL DEFAULT (utc_timestamp(6))"
    mark = f"ALTER TABLE {{outbox}} ADD COLUMN {unless_there} mark binary(16)"
    half = {**dict.fromkeys(theirs.told_by, "text"), "windrow_id": "bigint"}
    assert added(theirs, Table(half, frozenset())) == [f"ALTER TABLE {{outbox}} {time}", mark]
    assert added(theirs, Table({**half, "windrow_time": "datetime", "mark": "binary"}, frozenset())) == []
    assert added(mysql_layouts.OWN, Table({}, frozenset())) == []


@pytest.mark.parametrize("layout", ["goharvest", "tomorrow-one"])
def test_layouts_that_are_postgresqls_alone_are_a_mistake_on_mysql(layout: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"layout: {layout} is of tables on PostgreSQL: on MySQL give windrow,"):
        Settings("mysql://", {"bootstrap.servers": "-"}, layout=layout)


@pytest.mark.parametrize(
    ("columns", "mistake"),
    [
        ({"id": "no"}, "columns: name the columns of createTime, topic, value"),
        (
            {**MINE, "colour": "red"},
            "columns: colour is none of id, createTime, topic, value, key, headers, headerKeys,",
        ),
        ({**MINE, "key": "a%"}, "columns: key: give a name without %"),
        ({**MINE, "key": "body"}, "columns: give each name a column of its own"),
        ({**MINE, "headerKeys": "h"}, "columns: give headerKeys and headerValues together"),
        ({**MINE, "headers": "a", "headerKeys": "b", "headerValues": "c"}, "columns: give headers, a JSON object, or"),
        ({}, "columns: name the outbox's columns with layout: custom, and only with it"),
    ],
)
def test_columns_that_cannot_be_are_mistakes_in_the_settings(columns: dict[str, str], mistake: str) -> None:
    with pytest.raises(SettingsInvalid) as raised:
        my_own(columns)
    assert raised.value.mistakes[0].startswith(mistake)


def test_columns_without_the_custom_layout_are_a_mistake() -> None:
    with pytest.raises(SettingsInvalid, match="only with it"):
        my_own(MINE, layout="auto")
