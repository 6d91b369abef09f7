"""A goharvest table is taken over with its rows, and goharvest's applications go on writing to it."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

from fix_pipeline import Foreign, wait_for
from windrow import embedded
from windrow.cli.init import init
from windrow.election.neli import Neli
from windrow.errors import OutboxTableMissing
from windrow.kafka.clients import client_config, create_topic
from windrow.publish.dead_letter import DeadLetters
from windrow.relay.setup import prepare, takeover
from windrow.relay.status import status
from windrow.settings import Settings

TABLE = """
CREATE TABLE {table} (
  id                  BIGSERIAL PRIMARY KEY,
  create_time         TIMESTAMP WITH TIME ZONE NOT NULL,
  kafka_topic         VARCHAR(249) NOT NULL,
  kafka_key           VARCHAR(100) NOT NULL,
  kafka_value         VARCHAR(10000),
  kafka_header_keys   TEXT[] NOT NULL,
  kafka_header_values TEXT[] NOT NULL,
  leader_id           UUID
)
"""
STASH = """
INSERT INTO {table} (create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values)
VALUES (now(), %s, %s, %s, %s, %s)
"""


class Goharvest(Foreign):
    """A pipeline whose application writes as goharvest's do."""

    def stash(
        self,
        key: str,
        value: str | None,
        names: list[str] | None = None,
        contents: list[str | None] | None = None,
    ) -> None:
        with self.connect() as connection:
            connection.execute(
                STASH.format(table=self.settings.outbox_table),
                (self.topic, key, value, names or [], contents or []),
            )

    def rows(self) -> list[tuple[object, ...]]:
        with self.connect() as connection:
            return connection.execute(
                "SELECT kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values, leader_id"
                f" FROM {self.settings.outbox_table} ORDER BY id"
            ).fetchall()


@pytest.fixture
def make(
    postgres: embedded.Postgres, kafka: embedded.Kafka, spark: SparkSession, tmp_path: Path
) -> Callable[..., Goharvest]:
    def make(**more: object) -> Goharvest:
        """A goharvest file and table that windrow has not been initialised on."""
        name = f"goharvest_{uuid4().hex[:8]}"
        file = tmp_path / "goharvest.yaml"
        file.write_text(f"""
baseKafkaConfig:
  bootstrap.servers: {kafka.client_config["bootstrap.servers"]}
producerKafkaConfig:
  compression.type: lz4
  delivery.timeout.ms: 10000
leaderTopic: {name}
leaderGroupID: {name}
dataSource: host=127.0.0.1 port={postgres.port} user=postgres password= dbname=postgres sslmode=disable
outboxTable: {name}
limits:
  minPollInterval: 1s
  sendConcurrency: 4
  sendBuffer: 10
""")
        pipeline = Goharvest(Settings.load(file, {}, **more), f"{name}.messages", spark)
        create_topic(pipeline.settings, pipeline.topic, 2)
        with pipeline.connect() as connection:
            connection.execute(TABLE.format(table=name))
        return pipeline

    return make


@pytest.mark.parametrize("capture", ["snapshot", "mark"])
def test_rows_of_before_and_after_the_takeover_are_relayed_as_they_are(
    make: Callable[..., Goharvest], capture: str
) -> None:
    pipeline = make(shards=2, limits={"pageRecords": 1}, source="shop", purge={"interval": "100ms"}, capture=capture)
    pipeline.stash("ключ", "значение 🌾", ["b", "a", "b"], ["1", "", None])
    pipeline.stash("tombstone", None)
    rewritten = "goharvest's layout" in str(takeover(pipeline.settings))
    assert rewritten == (capture == "snapshot"), "goharvest's own column of marks is taken as it is"
    prepare(pipeline.settings)
    assert takeover(pipeline.settings) is None
    pipeline.stash("more names", "", ["one", "two"], ["1"])
    assert status(pipeline.settings).backlog == 3
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 3)
        pipeline.stash("later", "value")
        pipeline.wait_published(relay, 4)
        wait_for(lambda: not pipeline.rows(), "the rows to be purged")
    received = {(each.key() or b"").decode(): (each.value(), each.headers()) for each in pipeline.received()}
    source = ("x-source", b"shop")
    assert received == {
        "ключ": ("значение 🌾".encode(), [("b", b"1"), ("a", b""), ("b", None), ("x-sequence", b"1"), source]),
        "tombstone": (None, [("x-sequence", b"2"), source]),
        "more names": (b"", [("one", b"1"), ("two", None), ("x-sequence", b"3"), source]),
        "later": (b"value", [("x-sequence", b"4"), source]),
    }


def test_dead_letter_is_kept_as_bytes_and_written_back_as_goharvest_has_it(make: Callable[..., Goharvest]) -> None:
    pipeline = make()
    prepare(pipeline.settings)
    pipeline.stash("key", "grüße", ["a", "b"], ["ü", None])
    pipeline.bury(1)
    content = DeadLetters(pipeline.settings).show(1)
    assert content is not None
    assert (content.key, content.value, content.header_values) == (b"key", "grüße".encode(), ["ü".encode(), None])
    pipeline.write_back()
    first, second = pipeline.rows()
    assert second == first == (pipeline.topic, "key", "grüße", ["a", "b"], ["ü", None], None)


def test_relay_waits_while_a_goharvest_is_in_its_group(
    make: Callable[..., Goharvest], caplog: pytest.LogCaptureFixture
) -> None:
    settings = make().settings
    prepare(settings)
    goharvest = Consumer(client_config(settings, {"group.id": settings.leader_group_id}))
    goharvest.subscribe([settings.leader_topic])
    wait_for(lambda: goharvest.poll(0.1) or goharvest.assignment(), "goharvest to lead")
    with Neli(settings) as candidate:
        wait_for(lambda: goharvest.poll(0.1) or "election on topic" in caplog.text, "the refusal")
        assert candidate.term is None
        goharvest.close()
        wait_for(lambda: candidate.term, "the relay to lead")


def test_printed_sql_takes_the_table_over_as_well(make: Callable[..., Goharvest]) -> None:
    from click.testing import CliRunner  # noqa: PLC0415 - this test alone

    pipeline = make()
    name = pipeline.settings.outbox_table
    pipeline.stash("key", "value")
    printed = CliRunner().invoke(init, ["--outbox-table", name, "--name", name, "--shards", "2", "--sql"])
    with psycopg.connect(pipeline.settings.data_source, autocommit=True) as connection:
        connection.execute(printed.stdout.encode())
    assert prepare(pipeline.settings).migrations == []
    assert status(pipeline.settings).backlog == 1


def test_table_of_no_known_layout_is_refused_untouched(make: Callable[..., Goharvest]) -> None:
    pipeline = make()
    with pipeline.connect() as connection:
        connection.execute(f"ALTER TABLE {pipeline.settings.outbox_table} DROP COLUMN kafka_header_keys")
    with pytest.raises(OutboxTableMissing, match="goharvest's layout it lacks kafka_header_keys;"):
        prepare(pipeline.settings)
    with pipeline.connect() as connection:
        found = connection.execute("SELECT to_regclass(%s)", (f"{pipeline.settings.outbox_table}_relay",)).fetchone()
    assert found == (None,)
