"""A table of one's own is relayed as it is, by the columns that the settings name."""

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from fix_pipeline import CAPTURES, Foreign, wait_for
from windrow.database.connections import connect
from windrow.database.migrations import script
from windrow.errors import OutboxTableMissing
from windrow.publish.dead_letter import DeadLetters
from windrow.relay.purge import Purger
from windrow.relay.setup import prepare, takeover
from windrow.relay.status import status
from windrow.settings import Purge

ODD = {
    "postgres": """
CREATE TABLE {table} (
  "My ""No"" here" integer GENERATED ALWAYS AS IDENTITY,
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  "from" timestamp NOT NULL DEFAULT now(),
  "To.Topic" text,
  "order" uuid,
  content json,
  "name" jsonb,
  "Done" timestamptz
)
""",
    "mariadb": """
CREATE TABLE {table} (
  "My ""No"" here" integer AUTO_INCREMENT UNIQUE,
  id /*M! uuid *//*!80000 char(36) */ NOT NULL DEFAULT (uuid()),
  "from" timestamp(6) NOT NULL DEFAULT now(6),
  "To.Topic" text,
  "order" /*M! uuid *//*!80000 char(36) */,
  content json,
  "name" json,
  "Done" datetime
)
""",
}
ODD_COLUMNS = {
    "id": 'My "No" here',
    "createTime": "from",
    "topic": "To.Topic",
    "key": "order",
    "value": "content",
    "headers": "name",
}
ARRAYS = {
    "postgres": """
CREATE TABLE {table} (
  no bigserial PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT now(),
  topic varchar(100),
  body bytea,
  names varchar[],
  contents text[],
  part smallint,
  sent_at timestamp
)
""",
    "mariadb": """
CREATE TABLE {table} (
  no bigint AUTO_INCREMENT PRIMARY KEY,
  at timestamp NOT NULL DEFAULT now(),
  topic varchar(100),
  body blob,
  names json,
  contents json,
  part smallint,
  sent_at datetime
)
""",
}
ARRAYS_COLUMNS = {
    "id": "no",
    "createTime": "at",
    "topic": "topic",
    "value": "body",
    "headerKeys": "names",
    "headerValues": "contents",
    "partition": "part",
    "timestamp": "sent_at",
}
CONFUSED = """
CREATE TABLE {table} (
  "size" bigint NOT NULL,
  "timestamp" timestamp NOT NULL DEFAULT now(),
  "value" varchar(100),
  "key" varchar(100),
  "id" varchar(100)
)
"""
CONFUSED_COLUMNS = {"id": "size", "createTime": "timestamp", "topic": "value", "value": "key", "key": "id"}
LOOSE = """
CREATE TABLE {table} (
  no bigint AUTO_INCREMENT PRIMARY KEY,
  at datetime NOT NULL DEFAULT (utc_timestamp()),
  topic varchar(100) CHARACTER SET utf16,
  who varchar(100) CHARACTER SET latin1,
  body mediumtext CHARACTER SET latin1,
  meta longtext,
  done timestamp NULL
)
"""
LOOSE_COLUMNS = {
    "id": "no",
    "createTime": "at",
    "topic": "topic",
    "key": "who",
    "value": "body",
    "headers": "meta",
    "processed": "done",
}
ON_MARIADB = pytest.mark.parametrize("strategy", [{"database": "mariadb", "capture": "mark"}], ids=["mariadb"])
MARKS = pytest.mark.parametrize(
    "strategy", [{"capture": "mark", "database": each} for each in ODD], ids=["postgres", "mariadb"]
)
Make = Callable[..., Foreign]


@pytest.fixture
def make(make_foreign: Callable[..., Foreign], strategy: dict[str, str]) -> Make:
    def make(tables: dict[str, str] | str, columns: dict[str, str], **more: object) -> Foreign:
        table = tables if isinstance(tables, str) else tables[strategy.get("database", "postgres")]
        settings = {"shards": 2, "source": "own", "purge": {"interval": "100ms"}, **more}
        return make_foreign(Foreign, table, layout="custom", columns=columns, **settings)

    return make


def headers_of(pipeline: Foreign) -> dict[str, list[tuple[str, bytes | None]]]:
    """Of all messages, by their values, without those that windrow adds."""
    return {(each.value() or b"").decode(): (each.headers() or [])[:-2] for each in pipeline.received()}


@pytest.mark.parametrize(
    ("strategy", "more"),
    [
        ({"capture": "snapshot"}, {}),
        *(
            ({"capture": "mark", "database": database}, more)
            for database in ODD
            for more in ({"mark": "My Mark"}, {"processed": "Done"})
        ),
    ],
    ids=["snapshot", "mark", "processed", "mark on mariadb", "processed on mariadb"],
)
def test_columns_of_any_name_are_relayed(make: Make, more: dict[str, str]) -> None:
    pipeline = make(ODD, {**ODD_COLUMNS, **more})
    key = str(uuid4())
    insert = 'INSERT INTO {table} ("To.Topic", "order", content, name) VALUES (%s, %s, %s, %s)'
    pipeline.execute(insert, pipeline.topic, key, '{"b": 1}', '{"h": "ü"}')
    assert takeover(pipeline.settings)
    prepare(pipeline.settings)
    assert takeover(pipeline.settings) is None
    pipeline.execute(insert, pipeline.topic, None, None, None)
    pipeline.execute(insert, None, key, None, None)
    assert status(pipeline.settings).backlog == 3
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
        if "processed" in more:
            wait_for(lambda: not pipeline.count('"Done" IS NULL'), "the rows to be over")
            assert pipeline.count() == 3
        else:
            wait_for(lambda: not pipeline.count(), "the rows to be deleted")
    received = {each.key(): (each.value(), each.headers()) for each in pipeline.received()}
    source = ("x-source", b"own")
    assert received == {
        key.encode(): (b'{"b": 1}', [("h", "ü".encode()), ("x-sequence", b"1"), source]),
        None: (None, [("x-sequence", b"2"), source]),
    }
    assert [letter.id for letter in DeadLetters(pipeline.settings).list(10)] == [3], "a row without a topic"


@CAPTURES
def test_columns_called_as_other_parts_of_a_message_are_not_confused_with_them(make: Make) -> None:
    pipeline = make(CONFUSED, CONFUSED_COLUMNS, limits={"pageRecords": 3}, shards=1)
    values = ["x" * (10 - number) for number in range(9)]
    for number, value in enumerate(values, -4):
        pipeline.execute(
            'INSERT INTO {table} ("size", "value", "key", "id") VALUES (%s, %s, %s, %s)',
            *(number, pipeline.topic, value, "customer"),
        )
    assert 'a unique index on "size"' in str(takeover(pipeline.settings))
    prepare(pipeline.settings)
    assert takeover(pipeline.settings) is None
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 9)
    assert [(each.key(), each.value()) for each in pipeline.received()] == [
        (b"customer", value.encode()) for value in values
    ]


@CAPTURES
def test_arrays_partition_and_timestamp_are_relayed_and_written_back(make: Make, strategy: dict[str, str]) -> None:
    pipeline = make(ARRAYS, ARRAYS_COLUMNS)
    headers: list[Any] = [["a", "b"], ["ä", None]]
    if strategy.get("database") == "mariadb":
        headers = ['["a", "b"]', '["ä", null]']
    insert = "INSERT INTO {table} (topic, body, names, contents, part, sent_at) VALUES (%s, %s, %s, %s, %s, %s)"
    pipeline.execute(insert, pipeline.topic, b"\xff", *headers, 1, "2026-01-02 03:04:05")
    pipeline.execute(insert, pipeline.topic, b"", None, None, None, None)
    prepare(pipeline.settings)
    pipeline.bury(1)
    pipeline.write_back()
    rows = pipeline.execute("SELECT topic, body, names, contents, part, sent_at FROM {table} ORDER BY no")
    assert rows[2] == rows[0]
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 3)
    received = {int(dict(each.headers() or [])["x-sequence"]): each for each in pipeline.received()}
    assert len(received) == 3
    for number in (1, 3):
        assert (received[number].headers() or [])[:2] == [("a", "ä".encode()), ("b", None)]
        assert (received[number].value(), received[number].partition()) == (b"\xff", 1)
    assert received[1].timestamp()[1] == received[3].timestamp()[1] < received[2].timestamp()[1]


@MARKS
def test_header_that_is_no_text_is_published_as_its_json_and_written_back_as_it_was(make: Make) -> None:
    pipeline = make(ODD, ODD_COLUMNS)
    insert = 'INSERT INTO {table} ("To.Topic", content, name) VALUES (%s, %s, %s)'
    pipeline.execute(insert, pipeline.topic, "1", '{"n": 7, "t": true, "z": null}')
    pipeline.execute(insert, pipeline.topic, "2", "null")
    prepare(pipeline.settings)
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
    assert headers_of(pipeline) == {"1": [("n", b"7"), ("t", b"true"), ("z", None)], "2": []}


@ON_MARIADB
def test_any_character_set_becomes_utf8_and_headers_that_are_no_json_make_a_dead_letter(make: Make) -> None:
    pipeline = make(LOOSE, LOOSE_COLUMNS)
    insert = "INSERT INTO {table} (topic, who, body, meta) VALUES (%s, %s, %s, %s)"
    for content, headers in [("Größe", '{"ä": "ö"}'), ("no JSON", "{ä"), ("an array", "[1]"), ("text", '"a"')]:
        pipeline.execute(insert, pipeline.topic, "Müller", content, headers)
    pipeline.execute(insert, pipeline.topic, None, "no key", None)
    prepare(pipeline.settings)
    letters = DeadLetters(pipeline.settings)
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
        wait_for(lambda: len(letters.list(10)) == 3, "the others to be dead letters")
        wait_for(lambda: not pipeline.count("done IS NULL"), "the rows to be over")
        letters.retry(None)
        wait_for(lambda: [each.release for each in letters.list(10)] == [None] * 3, "the letters to be refused again")
    received = {each.key(): each.value() for each in pipeline.received()}
    assert received == {"Müller".encode(): "Größe".encode(), None: b"no key"}
    assert headers_of(pipeline) == {"Größe": [("ä", "ö".encode())], "no key": []}
    shown = letters.show(2)
    assert shown
    assert (shown.key, shown.value, shown.topic) == ("Müller".encode(), b"no JSON", pipeline.topic)


@ON_MARIADB
def test_letters_with_headers_in_an_object_are_written_back_as_they_were(make: Make) -> None:
    pipeline = make(LOOSE, LOOSE_COLUMNS)
    insert = "INSERT INTO {table} (topic, who, body, meta) VALUES (%s, %s, %s, %s)"
    pipeline.execute(insert, pipeline.topic, "Müller", "Größe", '{"ä": "ö", "n": 1}')
    prepare(pipeline.settings)
    pipeline.bury(1)
    pipeline.write_back()
    rows = pipeline.execute("SELECT topic, who, body, meta, done FROM {table} ORDER BY no")
    assert rows == [(pipeline.topic, "Müller", "Größe", '{"ä": "ö", "n": 1}', None)] * 2


@ON_MARIADB
def test_rows_are_deleted_in_chunks_when_their_retention_is_over(make: Make) -> None:
    pipeline = make(LOOSE, LOOSE_COLUMNS)
    prepare(pipeline.settings)
    for age in (3, 3, 3, 1, 0):
        pipeline.execute("INSERT INTO {table} (topic, done) VALUES ('t', now() - INTERVAL %s HOUR)", age)
    pipeline.execute("INSERT INTO {table} (topic) VALUES ('t')")

    def purged(retention: timedelta) -> list[int]:
        return list(Purger(dataclasses.replace(pipeline.settings, purge=Purge(retention=retention, chunk=2))).purge())

    assert purged(timedelta()) == []
    assert purged(timedelta(hours=2)) == [2, 1]
    assert purged(timedelta(minutes=30)) == [1]
    assert pipeline.count() == 2
    assert purged(timedelta(microseconds=1)) == [1]
    assert pipeline.count("done IS NULL") == 1, "what is not published stays"


@MARKS
def test_printed_sql_is_for_the_layout_that_is_named(make: Make) -> None:
    pipeline = make(ARRAYS, {**ARRAYS_COLUMNS, "mark": "My Mark"})
    printed = script(pipeline.settings, 2).encode()
    with connect(pipeline.settings.data_source) as connection:
        connection.execute(printed)
        if "MariaDB" in str(connection.execute(b"SELECT version()").fetchone()):
            connection.execute(printed)  # PostgreSQL does all of it or nothing; MySQL says what is there
    assert prepare(pipeline.settings).migrations == []
    assert status(pipeline.settings).backlog == 0


@CAPTURES
def test_table_that_does_not_fit_is_refused_untouched(make: Make) -> None:
    pipeline = make(ARRAYS, {**ARRAYS_COLUMNS, "id": "body", "value": "nothing"})
    with pytest.raises(OutboxTableMissing, match=r"body \(id\) is (bytea|blob); .*nothing \(value\) is missing"):
        prepare(pipeline.settings)
    beside = "SELECT count(*) FROM information_schema.tables WHERE table_name = %s"
    assert pipeline.execute(beside, f"{pipeline.settings.outbox_table}_relay") == [(0,)]
