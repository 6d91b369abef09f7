"""This windrow goes on where a released one stopped: its tables, its rows, its positions."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import SparkSession

from fix_pipeline import Pipeline
from windrow import embedded
from windrow.database.migrations import migrations
from windrow.kafka.clients import create_topic, position_reader
from windrow.publish.dead_letter import DeadLetters
from windrow.relay.setup import prepare
from windrow.relay.status import status
from windrow.settings import Settings

RELEASES = sorted((Path(__file__).parents[1] / "releases").iterdir())
SHARDS = 2
POSITION = '{{"v":1,"db":"{cluster}","lo":"{published_before}:0:"}}'


def commit(settings: Settings, position: str) -> None:
    """Leave a position in Kafka as a relay does that has stopped, behind the number of the latest released letter."""
    reader = position_reader(settings)
    places = [TopicPartition(settings.position_topic, shard, 1, f"0 {position}") for shard in range(SHARDS)]
    assert reader.commit(offsets=places, asynchronous=False)
    reader.close()


def save(settings: Settings, position: str) -> None:
    """Leave a position in the database, as one does whose positions Kafka has forgotten since."""
    with psycopg.connect(settings.data_source) as connection:
        for shard in range(SHARDS):
            connection.execute(
                f"INSERT INTO {settings.outbox_table}_position (relay, shard, published, position)"
                " VALUES (%s, %s, 1, %s)",
                (settings.name, shard, position),
            )


@pytest.mark.parametrize("release", RELEASES, ids=lambda folder: folder.name)
@pytest.mark.parametrize("leave", [commit, save], ids=["in Kafka", "in the database"])
def test_the_rest_is_published_from_old_tables_and_an_old_position(
    postgres: embedded.Postgres,
    kafka: embedded.Kafka,
    spark: SparkSession,
    release: Path,
    leave: Callable[[Settings, str], None],
) -> None:
    name = f"legacy_{uuid4().hex[:8]}"
    settings = Settings.load(
        environment={}, name=name, outbox_table=name, data_source=postgres.url, base_kafka_config=kafka.client_config
    )
    pipeline = Pipeline(settings, f"{name}.messages", spark)
    create_topic(settings, pipeline.topic, 1)
    write = f"INSERT INTO {name} (topic, key, value) VALUES (%s, %s, %s)"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute((release / "outbox.sql").read_text().replace("legacy", name).encode())
        for value in ("a", "b"):
            connection.execute(write, (pipeline.topic, value.encode(), f"published {value}".encode()))
        found = connection.execute("SELECT system_identifier, pg_current_xact_id() FROM pg_control_system()").fetchone()
        assert found
        for value in ("a", "b"):
            connection.execute(write, (pipeline.topic, value.encode(), f"waiting {value}".encode()))
        connection.execute(
            f"INSERT INTO {name}_dead_letter (relay, id, create_time, topic, header_keys, header_values, reason)"
            " VALUES (%s, 1, now(), 'nowhere', '{}', '{}', 'of no use')",
            (name,),
        )
        old = connection.execute(f"SELECT max(version) FROM {name}_migration").fetchone()
    done = prepare(settings)
    assert old
    assert [each.version for each in done.migrations] == [
        each.version for each in migrations("postgresql") if each.version > old[0]
    ]
    leave(settings, POSITION.format(cluster=found[0], published_before=found[1]))
    assert [each.reason for each in DeadLetters(settings).list(10)] == ["of no use"]
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, SHARDS * 1 + 2)
    assert sorted(pipeline.values(), key=str) == [b"waiting a", b"waiting b"]
    assert status(settings).backlog == 0
