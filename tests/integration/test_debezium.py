"""An outbox of Debezium's event router is taken over as docs/how-to/come-from-debezium.md says."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Producer
from psycopg.sql import SQL
from pyspark.sql import SparkSession

from fix_pipeline import Pipeline, wait_for
from windrow import embedded
from windrow.kafka.clients import client_config, create_topic
from windrow.publish.dead_letter import DeadLetters, LetterTable
from windrow.relay.republish import Selection, find, republish
from windrow.relay.setup import prepare, takeover
from windrow.relay.status import status
from windrow.settings import Settings

TABLE = """
CREATE TABLE {table} (
  id uuid PRIMARY KEY,
  aggregatetype varchar(255) NOT NULL,
  aggregateid varchar(255) NOT NULL,
  type varchar(255) NOT NULL,
  payload {payload}
)
"""


class Debezium(Pipeline):
    """A pipeline whose application writes as those do whose table Debezium captures."""

    def save(self, key: str, payload: str | bytes | None) -> UUID:
        number = uuid4()
        aggregate = self.topic.removeprefix("outbox.event.")
        self.execute("INSERT INTO {table} VALUES (%s, %s, %s, 'OrderCreated', %s)", number, aggregate, key, payload)
        return number

    def execute(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            cursor = connection.execute(statement.format(table=self.settings.outbox_table), parameters)
            return cursor.fetchall() if cursor.description else []

    def publish_as_theirs(self, number: UUID) -> None:
        """What the connector does; the row stays where it is."""
        ((key, payload),) = self.execute("SELECT aggregateid, payload::text FROM {table} WHERE id = %s", number)
        producer = Producer(client_config(self.settings))
        producer.produce(self.topic, payload, key, headers=[("id", str(number).encode())])
        assert producer.flush(30) == 0

    def in_topic(self) -> list[str]:
        """The header `id` of all that is in the topic."""
        return [dict(each.headers() or [])["id"].decode() for each in self.received()]

    def rows(self) -> int:
        return int(self.execute("SELECT count(*) FROM {table}")[0][0])


@pytest.fixture
def make(postgres: embedded.Postgres, kafka: embedded.Kafka, spark: SparkSession) -> Callable[..., Debezium]:
    def make(payload: str = "jsonb", **more: object) -> Debezium:
        """Such a table, which windrow has not been initialised on."""
        name = f"debezium_{uuid4().hex[:8]}"
        settings = Settings.load(
            environment={},
            name=name,
            outbox_table=name,
            data_source=postgres.url,
            base_kafka_config=kafka.client_config,
            **more,
        )
        pipeline = Debezium(settings, f"outbox.event.{name}", spark)
        create_topic(settings, pipeline.topic, 2)
        with pipeline.connect() as connection:
            connection.execute(TABLE.format(table=name, payload=payload).encode())
        return pipeline

    return make


@pytest.mark.parametrize("capture", ["snapshot", "mark"])
def test_what_theirs_has_not_published_is_relayed_once(make: Callable[..., Debezium], capture: str) -> None:
    pipeline = make(capture=capture, shards=2, limits={"pageRecords": 2}, purge={"interval": "100ms"})
    numbers = [pipeline.save(f"{key}", f'{{"number": {key}}}') for key in range(1, 6)]
    for number in numbers[:3]:
        pipeline.publish_as_theirs(number)
    pipeline.execute("DELETE FROM {table} WHERE id = ANY (%s::uuid[])", pipeline.in_topic())
    plan = str(takeover(pipeline.settings))
    assert "Debezium's layout" in plan
    assert (
        "it gets columns windrow_id and windrow_time (its rows' order and age), for which it is rewritten once" in plan
    )
    prepare(pipeline.settings)
    assert takeover(pipeline.settings) is None
    assert status(pipeline.settings).backlog == 2
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
        numbers.append(pipeline.save("6", None))
        pipeline.wait_published(relay, 3)
        wait_for(lambda: not pipeline.rows(), "published rows to be deleted")
    assert sorted(pipeline.in_topic()) == sorted(map(str, numbers))
    received = {each.key(): (each.value(), (each.headers() or [])[0]) for each in pipeline.received()}
    assert received[b"5"] == (b'{"number": 5}', ("id", str(numbers[4]).encode()))
    assert received[b"6"] == (None, ("id", str(numbers[5]).encode()))


@pytest.mark.parametrize(
    ("kind", "payload"),
    [("json", '{"b":  "ü", "a": 1}'), ("text", "плуг"), ("varchar(100)", ""), ("bytea", b"\x00\xff")],
)
def test_payload_is_published_as_it_is_in_the_table(
    make: Callable[..., Debezium], kind: str, payload: str | bytes
) -> None:
    pipeline = make(kind)
    pipeline.save("key", payload)
    prepare(pipeline.settings)
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
    assert pipeline.values() == [payload if isinstance(payload, bytes) else payload.encode()]


def test_rows_are_published_in_the_order_in_which_they_were_written(make: Callable[..., Debezium]) -> None:
    pipeline = make(limits={"pageRecords": 7})
    for number in range(30):
        pipeline.save("key", f"{number}")
    prepare(pipeline.settings)
    for number in range(30, 60):
        pipeline.save("key", f"{number}")
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 60)
    assert pipeline.values() == [f"{number}".encode() for number in range(60)]


def test_dead_letters_and_republished_messages_are_written_in_their_columns(make: Callable[..., Debezium]) -> None:
    pipeline = make(purge={"retention": "1h"}, shards=1)
    prepare(pipeline.settings)
    number = pipeline.save("key", '{"a": 1}')
    letters = DeadLetters(pipeline.settings)
    with pipeline.connect() as connection:
        LetterTable(pipeline.settings, connection).execute("bury", ids=[1], behind=[None], reason="of no use")
    assert (letters.retry(None), letters.write_back(SQL("true"))) == (1, 1)
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
    found = find(pipeline.settings, Selection())
    assert (found.messages, sum(each.messages for each in republish(pipeline.settings, found))) == (2, 2)
    rows = pipeline.execute("SELECT DISTINCT aggregatetype, aggregateid, payload FROM {table}")
    assert rows == [(pipeline.settings.outbox_table, "key", {"a": 1})]
    assert pipeline.execute("SELECT count(*), count(DISTINCT id) FROM {table}") == [(4, 4)]
    assert str(number) in pipeline.in_topic()
