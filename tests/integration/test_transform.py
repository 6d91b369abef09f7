"""`transform`: messages through a query on the way, each once, in order, and under the rule of the election."""

import dataclasses
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition

from fix_command import relay_config, windrow_apart
from fix_load import Load
from fix_pipeline import Pipeline, limit_message_size, wait_for
from windrow.errors import TransformInvalid
from windrow.kafka.clients import client_config, create_topic, position_reader
from windrow.publish.dead_letter import DeadLetters
from windrow.relay import Relay
from windrow.relay.registry import Registry
from windrow.relay.tally import ShardFigures
from windrow.relay.watch import Watch

pytestmark = pytest.mark.timeout(300)


def transformed(pipeline: Pipeline, query: str) -> Pipeline:
    """The same pipeline with a query in it."""
    return Pipeline(dataclasses.replace(pipeline.settings, transform=query), pipeline.topic, pipeline.spark)


def test_messages_are_filtered_routed_and_enriched_and_go_on_after_a_restart(
    make_pipeline: Callable[..., Pipeline], tmp_path: Path
) -> None:
    plain = make_pipeline(shards=2)
    other = f"{plain.topic}.large"
    create_topic(plain.settings, other, 1)
    (tmp_path / "cities.json").write_text("".join(json.dumps({"id": n, "city": f"city {n}"}) + "\n" for n in range(3)))
    pipeline = transformed(
        plain,
        f"""
        SELECT o.id, IF(o.amount >= 150, '{other}', o.topic) AS topic, o.key,
               to_json(named_struct('amount', o.amount, 'city', c.city)) AS value,
               array(named_struct('key', 'via', 'value', CAST('sql' AS binary))) AS headers
        FROM (SELECT *, CAST(CAST(value AS string) AS int) AS amount FROM outbox) AS o
        JOIN json.`{tmp_path}/cities.json` AS c ON c.id = o.amount % 4
        """,
    )
    wanted = [number for number in range(200) if number % 4 < 3]
    for start in (0, 100):
        pipeline.write(*(pipeline.message(f"{number}", "key") for number in range(start, start + 100)))
        with pipeline.relay() as relay:
            pipeline.wait_published(relay, (start + 100) * 3 // 4, 120)
    small, large = pipeline.received(), Pipeline(pipeline.settings, other, pipeline.spark).received()
    contents = [json.loads(message.value() or b"") for message in (*small, *large)]
    assert contents == [{"amount": number, "city": f"city {number % 4}"} for number in wanted]
    assert {message.headers()[0] for message in small} == {("via", b"sql")}
    assert len(large) == len([number for number in wanted if number >= 150])


def test_load_is_transformed_once_and_in_order_over_epochs_and_purges(make_pipeline: Callable[..., Pipeline]) -> None:
    plain = make_pipeline(shards=2, epoch="2s", purge={"interval": "100ms"}, limits={"pageRecords": 200})
    pipeline = transformed(plain, "SELECT id, topic, key, value FROM outbox ORDER BY id DESC")
    load = Load(pipeline)
    with pipeline.relay() as relay:
        with load.running():
            wait_for(lambda: relay.epochs >= 3, "three epochs")
        pipeline.wait_published(relay, load.committed * 5, 120)
    load.judge()


def test_reading_that_is_broken_off_is_tried_again(make_pipeline: Callable[..., Pipeline]) -> None:
    many, size = 20_000, 1_000
    pipeline = transformed(make_pipeline(shards=1), "SELECT id, topic, key, value FROM outbox")
    pipeline.write(*(pipeline.message(f"{number:0{size}}") for number in range(many)))
    with pipeline.relay() as relay:
        wait_for(pipeline.break_off_reading, "a page to be read")
        pipeline.wait_published(relay, many, 120)
    assert [int(value or 0) for value in pipeline.values()] == [*range(many)]


def test_successor_goes_on_though_the_predecessor_left_a_transaction_open(
    make_pipeline: Callable[..., Pipeline],
) -> None:
    pipeline = transformed(make_pipeline(), "SELECT id, topic, key, value FROM outbox")
    settings = pipeline.settings
    own = {"transactional.id": f"windrow.{settings.name}.0.a", "transaction.timeout.ms": 600_000}
    dead = Producer(client_config(settings, own))
    dead.init_transactions(30)
    dead.begin_transaction()
    with closing(position_reader(settings)) as reader:
        position = TopicPartition(settings.position_topic, 0, 1)
        dead.send_offsets_to_transaction([position], reader.consumer_group_metadata(), 30)
    pipeline.write(pipeline.message("one"))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1, 120)
    assert pipeline.values() == [b"one"]


def test_page_of_a_membership_that_is_over_is_published_in_the_next_one(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = transformed(make_pipeline(), "SELECT id, topic, key, value FROM outbox")
    registry = Registry(pipeline.settings)
    pipeline.write(pipeline.message("one"))
    with Relay(pipeline.settings, pipeline.spark) as relay:
        pipeline.wait_published(relay, 1, 120)
        term = relay._election.term
        assert term
        past = term.membership[:7] + bytes(4) + term.membership[11:]  # of generation 0
        registry.renew_membership(term.id, past)
        pipeline.write(pipeline.message("two"))
        wait_for(lambda: _fencings(pipeline), "the page to be refused", 120)
        registry.renew_membership(term.id, term.membership)
        pipeline.wait_published(relay, 2, 120)
    relay.wait()
    assert pipeline.values() == [b"one", b"two"]


def _fencings(pipeline: Pipeline) -> int:
    query = Registry(pipeline.settings).tables.query("relay", "shard_figures")
    with pipeline.connect() as connection:
        row = connection.execute(query, {"name": pipeline.settings.name, "shard": 0}).fetchone()
    return ShardFigures.decode(row[0] if row else None).counts["fencings"]


def test_message_that_kafka_refuses_becomes_a_dead_letter(make_pipeline: Callable[..., Pipeline]) -> None:
    query = """
        SELECT id, topic, key, IF(value = 'large', repeat('x', 30000), value) AS value
        FROM (SELECT id, topic, key, CAST(value AS string) AS value FROM outbox)
    """
    pipeline = transformed(make_pipeline(), query)
    limit_message_size(pipeline, 10_000)
    pipeline.write(*(pipeline.message(text) for text in ("one", "large", "two")))
    with pipeline.relay() as relay, Watch(pipeline.settings) as watch:
        pipeline.wait_published(relay, 2, 120)
        wait_for(lambda: watch.view.figures().counts["dead_lettered"] == 1, "the figures to tell of it")
        assert watch.view.figures().times["latency"].count == 3
    assert pipeline.values() == [b"one", b"two"]
    assert [letter.id for letter in DeadLetters(pipeline.settings).list(10)] == [2]


def test_content_that_the_query_fails_on_ends_the_relay(make_pipeline: Callable[..., Pipeline]) -> None:
    query = "SELECT id, topic, CAST(CAST(CAST(value AS string) AS int) AS string) AS value FROM outbox"
    pipeline = transformed(make_pipeline(), query)
    pipeline.write(pipeline.message("not a number"))
    with Relay(pipeline.settings, pipeline.spark) as relay, pytest.raises(TransformInvalid, match="CAST_INVALID_INPUT"):
        wait_for(lambda: relay.wait(0.1), "the end", 120)
    assert pipeline.values() == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELEC id FROM outbox", "PARSE_SYNTAX_ERROR"),
        ("SELECT id, topic, worth AS value FROM outbox", "UNRESOLVED_COLUMN"),
        ("SELECT topic, value FROM outbox", "column id: is missing"),
        ("SELECT * FROM outbox", "column create_time: not one of"),
    ],
)
def test_query_that_cannot_be_run_is_refused_before_anything_runs(pipeline: Pipeline, query: str, said: str) -> None:
    with pytest.raises(TransformInvalid, match=said):
        Relay(transformed(pipeline, query).settings, pipeline.spark).start()


def test_command_refuses_a_wrong_query_with_its_remedy(pipeline: Pipeline, tmp_path: Path) -> None:
    config = relay_config(tmp_path, pipeline.settings)
    (tmp_path / "query.sql").write_text("SELECT id, topic, worth AS value FROM outbox")
    refused = windrow_apart("relay", "--config", config, "--transform", tmp_path / "query.sql")
    assert refused.returncode == 2, refused.stderr
    assert "transform: [UNRESOLVED_COLUMN" in refused.stderr
    assert "Correct the query. It reads from outbox" in refused.stderr
    assert "Traceback" not in refused.stderr
