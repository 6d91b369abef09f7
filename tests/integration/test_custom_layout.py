"""A table of one's own is relayed as it is, by the columns that the settings name."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from psycopg.sql import SQL
from pyspark.sql import SparkSession

from fix_pipeline import Pipeline, wait_for
from windrow import embedded
from windrow.database.migrations import script
from windrow.errors import OutboxTableMissing
from windrow.kafka.clients import create_topic
from windrow.publish.dead_letter import DeadLetters, LetterTable
from windrow.relay.setup import prepare, takeover
from windrow.relay.status import status
from windrow.settings import Settings

ODD = """
CREATE TABLE {table} (
  "My ""No"" here" integer GENERATED ALWAYS AS IDENTITY,
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  "from" timestamp NOT NULL DEFAULT now(),
  "To.Topic" text,
  "who" uuid,
  content json,
  "name" jsonb,
  "Done" timestamptz
)
"""
ODD_COLUMNS = {
    "id": 'My "No" here',
    "createTime": "from",
    "topic": "To.Topic",
    "key": "who",
    "value": "content",
    "headers": "name",
}
ARRAYS = """
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
"""
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


class Own(Pipeline):
    def execute(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            cursor = connection.execute(statement.format(table=self.settings.outbox_table), parameters)
            return cursor.fetchall() if cursor.description else []

    def count(self) -> int:
        return int(self.execute("SELECT count(*) FROM {table}")[0][0])


@pytest.fixture
def make(postgres: embedded.Postgres, kafka: embedded.Kafka, spark: SparkSession) -> Callable[..., Own]:
    def make(table: str, columns: dict[str, str], **more: object) -> Own:
        name = f"own_{uuid4().hex[:8]}"
        settings = Settings.load(
            environment={},
            name=name,
            outbox_table=name,
            data_source=postgres.url,
            base_kafka_config=kafka.client_config,
            layout="custom",
            columns=columns,
            **{"shards": 2, "source": "own", "purge": {"interval": "100ms"}, **more},
        )
        pipeline = Own(settings, f"{name}.messages", spark)
        create_topic(settings, pipeline.topic, 2)
        with pipeline.connect() as connection:
            connection.execute(table.format(table=name).encode())
        return pipeline

    return make


@pytest.mark.parametrize(
    ("capture", "more"),
    [("snapshot", {}), ("mark", {"mark": "My Mark"}), ("mark", {"processed": "Done"})],
    ids=["snapshot", "mark", "processed"],
)
def test_columns_of_any_name_are_relayed(make: Callable[..., Own], capture: str, more: dict[str, str]) -> None:
    pipeline = make(ODD, {**ODD_COLUMNS, **more}, capture=capture)
    key = uuid4()
    insert = 'INSERT INTO {table} ("To.Topic", who, content, name) VALUES (%s, %s, %s, %s)'
    pipeline.execute(insert, pipeline.topic, key, '{"b":  1}', '{"h": "ü"}')
    assert 'a unique index on "My ""No"" here"' in str(takeover(pipeline.settings))
    prepare(pipeline.settings)
    assert takeover(pipeline.settings) is None
    pipeline.execute(insert, pipeline.topic, None, None, None)
    pipeline.execute(insert, None, key, None, None)
    assert status(pipeline.settings).backlog == 3
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
        if "processed" in more:
            waiting = 'SELECT count(*) FROM {table} WHERE "Done" IS NULL'
            wait_for(lambda: pipeline.execute(waiting) == [(0,)], "the rows to be over")
            assert pipeline.count() == 3
        else:
            wait_for(lambda: not pipeline.count(), "the rows to be deleted")
    received = {each.key(): (each.value(), each.headers()) for each in pipeline.received()}
    source = ("x-source", b"own")
    assert received == {
        str(key).encode(): (b'{"b":  1}', [("h", "ü".encode()), ("x-sequence", b"1"), source]),
        None: (None, [("x-sequence", b"2"), source]),
    }
    assert [letter.id for letter in DeadLetters(pipeline.settings).list(10)] == [3], "a row without a topic"


@pytest.mark.parametrize("capture", ["snapshot", "mark"])
def test_arrays_partition_and_timestamp_are_relayed_and_written_back(make: Callable[..., Own], capture: str) -> None:
    pipeline = make(ARRAYS, ARRAYS_COLUMNS, capture=capture)
    insert = "INSERT INTO {table} (topic, body, names, contents, part, sent_at) VALUES (%s, %s, %s, %s, %s, %s)"
    pipeline.execute(insert, pipeline.topic, b"\xff", ["a", "b"], ["ä", None], 1, "2026-01-02 03:04:05")
    pipeline.execute(insert, pipeline.topic, b"", None, None, None, None)
    prepare(pipeline.settings)
    letters = DeadLetters(pipeline.settings)
    with pipeline.connect() as connection:
        LetterTable(pipeline.settings, connection).execute("bury", ids=[1], behind=[None], reason="of no use")
    assert (letters.retry(None), letters.write_back(SQL("true"))) == (1, 1)
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


def test_printed_sql_is_for_the_layout_that_is_named(make: Callable[..., Own]) -> None:
    pipeline = make(ARRAYS, {**ARRAYS_COLUMNS, "mark": "My Mark"}, capture="mark")
    with pipeline.connect() as connection:
        connection.execute(script(pipeline.settings, 2).encode())
    assert prepare(pipeline.settings).migrations == []
    assert status(pipeline.settings).backlog == 0


def test_table_that_does_not_fit_is_refused_untouched(make: Callable[..., Own]) -> None:
    pipeline = make(ARRAYS, {**ARRAYS_COLUMNS, "id": "body", "value": "nothing"})
    with pytest.raises(OutboxTableMissing, match=r"body \(id\) is bytea; .*nothing \(value\) is missing"):
        prepare(pipeline.settings)
    assert pipeline.execute("SELECT to_regclass(%s)", f"{pipeline.settings.outbox_table}_relay") == [(None,)]
