"""A record that Kafka refuses for good neither blocks the others nor lets them overtake each other."""

import dataclasses
from collections.abc import Callable

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession

from fix_pipeline import DELIVERIES, DELIVERIES_AND_LOG, Pipeline, limit_message_size, pipeline_on, wait_for
from windrow import Message, embedded
from windrow.errors import PublishFailed
from windrow.publish.dead_letter import DeadLetters
from windrow.relay import Relay
from windrow.settings import Settings

TOO_LARGE = b"x" * 20_000


def test_too_large_record_between_good_ones_of_its_key_becomes_a_dead_letter(pipeline: Pipeline) -> None:
    limit_message_size(pipeline, 10_000)
    good = [f"{number}" for number in range(50)]
    pipeline.write(
        *map(pipeline.message, good[:20]),
        pipeline.message(TOO_LARGE),
        *map(pipeline.message, good[20:40]),
        pipeline.message(TOO_LARGE),
        *map(pipeline.message, good[40:]),
    )
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 50)
        pipeline.write(pipeline.message("later"))
        pipeline.wait_published(relay, 51)
    assert pipeline.values() == [*(value.encode() for value in good), b"later"]
    letters = DeadLetters(pipeline.settings).list(10)
    assert [letter.id for letter in letters] == [21, 42]
    assert all("too large" in letter.reason for letter in letters)


@DELIVERIES_AND_LOG
def test_poison_in_the_middle_of_a_backlog(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(limits={"pageRecords": 30})
    limit_message_size(pipeline, 10_000)
    values = [TOO_LARGE if number % 40 == 7 else f"{number}".encode() for number in range(200)]
    pipeline.write(*map(pipeline.message, values))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 195)
    assert pipeline.values() == [value for value in values if value is not TOO_LARGE]
    assert len(DeadLetters(pipeline.settings).list(10)) == 5


@DELIVERIES_AND_LOG
def test_poison_amid_live_load_takes_no_other_message_with_it(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline()
    limit_message_size(pipeline, 10_000)
    values = [TOO_LARGE if number % 9 == 7 else f"{number}".encode() for number in range(120)]
    good = [value for value in values if value is not TOO_LARGE]
    with pipeline.relay() as relay:
        for value in values:
            pipeline.write(pipeline.message(value))
        pipeline.wait_published(relay, len(good))
    assert pipeline.values() == good
    assert len(DeadLetters(pipeline.settings).list(100)) == len(values) - len(good)


@pytest.mark.parametrize(
    ("column", "content", "reason"),
    [
        ("header_keys", "'{a,b}'::text[]", "2 header keys and 0 header values"),
        ("partition", "-1", "partition -1 is less than 0"),
    ],
)
def test_row_that_is_no_message_becomes_a_dead_letter(
    pipeline: Pipeline, column: str, content: str, reason: str
) -> None:
    pipeline.write(*map(pipeline.message, ("1", "2", "3")))
    with pipeline.connect() as connection:
        connection.execute(f"UPDATE {pipeline.settings.outbox_table} SET {column} = {content} WHERE id = 2")
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
        wait_for(lambda: DeadLetters(pipeline.settings).list(10), "the dead letter")
    assert pipeline.values() == [b"1", b"3"]
    assert [(letter.id, letter.reason.endswith(reason)) for letter in DeadLetters(pipeline.settings).list(10)] == [
        (2, True)
    ]


def test_retried_dead_letter_is_published_once_the_cause_is_mended(pipeline: Pipeline) -> None:
    limit_message_size(pipeline, 10_000)
    pipeline.write(pipeline.message(TOO_LARGE, headers={"a": "1"}), pipeline.message("good"))
    letters = DeadLetters(pipeline.settings)
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
        assert letters.retry([1]) == 1
        wait_for(lambda: _released(pipeline) == [None], "the letter to be refused again")
        limit_message_size(pipeline, 100_000)
        assert (letters.retry([1]), letters.retry([1])) == (1, 0)
        pipeline.wait_published(relay, 2)
        wait_for(lambda: letters.list(10) == [], "the letter to go")
    good, retried = pipeline.received()
    assert (good.value(), retried.value()) == (b"good", TOO_LARGE)
    assert dict(retried.headers() or [])["x-sequence"] == b"1"
    assert dict(retried.headers() or [])["a"] == b"1"


def test_key_stays_blocked_behind_its_refused_message_and_goes_on_in_order(
    make_pipeline: Callable[..., Pipeline],
) -> None:
    pipeline = make_pipeline(partitions=1, poison="block-key", limits={"pageRecords": 5})
    letters = DeadLetters(pipeline.settings)
    limit_message_size(pipeline, 10_000)

    def write(*values: bytes | str, key: str = "blocked") -> None:
        pipeline.write(*(pipeline.message(value, key) for value in values))

    write("1", TOO_LARGE, "3", "4")
    write("free 1", key="free")
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
        write("6")
        write(*(f"free {number}" for number in range(2, 20)), key="free")
        pipeline.wait_published(relay, 20)
        assert [(letter.id, letter.behind) for letter in letters.list(10)] == [(2, None), (3, 2), (4, 2), (6, 2)]
        assert letters.list(10)[1].reason == "waits behind id 2"
        assert letters.retry([4]) == 1
        wait_for(lambda: _released(pipeline) == [None] * 4, "the key to be blocked again")
        limit_message_size(pipeline, 100_000)
        assert letters.retry([2]) == 1
        pipeline.wait_published(relay, 24)
        wait_for(lambda: letters.list(10) == [], "the letters to go")
        limit_message_size(pipeline, 10_000)
        write("25", TOO_LARGE, "27")
        pipeline.wait_published(relay, 25)
        wait_for(lambda: len(letters.list(10)) == 2, "a refused message and one behind it")
        assert letters.discard([26]) == 1
        pipeline.wait_published(relay, 26)
        write("28", TOO_LARGE)
        wait_for(lambda: len(letters.list(10)) == 1, "a refused message alone")
        assert letters.discard(None) == 1
        write("30")
        pipeline.wait_published(relay, 28)
    received = pipeline.received()
    blocked = [message.value() for message in received if message.key() == b"blocked"]
    assert blocked == [b"1", TOO_LARGE, b"3", b"4", b"6", b"25", b"27", b"28", b"30"]
    free = [message.value() for message in received if message.key() == b"free"]
    assert free == [f"free {number}".encode() for number in range(1, 20)]


@DELIVERIES
def test_letter_that_a_task_left_behind_when_it_died_is_published_once(pipeline: Pipeline) -> None:
    letters, table = DeadLetters(pipeline.settings), pipeline.settings.outbox_table
    copy = f"""
        INSERT INTO {table}_dead_letter
        (relay, id, create_time, topic, "key", value, header_keys, header_values, reason, "release")
        SELECT %s, id, create_time, topic, "key", value, header_keys, header_values, 'refused', %s FROM {table}"""
    pipeline.write(pipeline.message("buried, but the position did not move"))
    with pipeline.connect() as connection:
        connection.execute(copy, (pipeline.settings.name, None))
    assert letters.retry(None) == 1
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
        wait_for(lambda: relay.positions()[0].released == 1, "the release to be dealt with")
        assert letters.list(10) == []
    with pipeline.connect() as connection:
        connection.execute(copy, (pipeline.settings.name, 1))  # published, but not deleted
    pipeline.write(pipeline.message("next"))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
        assert letters.list(10) == []
    assert pipeline.values() == [b"buried, but the position did not move", b"next"]


def test_discarded_dead_letter_is_gone(pipeline: Pipeline) -> None:
    limit_message_size(pipeline, 10_000)
    pipeline.write(pipeline.message(TOO_LARGE), pipeline.message("good"))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
    letters = DeadLetters(pipeline.settings)
    content = letters.show(1)
    assert content is not None
    assert content.value == TOO_LARGE
    assert (letters.discard([2]), letters.discard(None), letters.list(10)) == (0, 1, [])


def test_policy_stop_ends_the_relay_and_publishes_nothing_of_the_page(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(poison="stop")
    limit_message_size(pipeline, 10_000)
    pipeline.write(pipeline.message("before"), pipeline.message(TOO_LARGE), pipeline.message("after"))
    with (
        Relay(pipeline.settings, pipeline.spark) as relay,
        pytest.raises(PublishFailed, match=f"topic {pipeline.topic}: .*too large"),
    ):
        relay.wait(30)
    assert pipeline.values() == []


def test_partition_that_is_not_there_is_refused(pipeline: Pipeline) -> None:
    pipeline.write(pipeline.message("a"), pipeline.message("b", partition=77), pipeline.message("c"))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
    assert pipeline.values() == [b"a", b"c"]
    assert [letter.id for letter in DeadLetters(pipeline.settings).list(10)] == [2]


@pytest.mark.timeout(240)
def test_unknown_topic_and_topic_without_permission(postgres: embedded.Postgres, spark: SparkSession) -> None:
    security = embedded.Security(users={"relay": "hush"})
    with embedded.Kafka(settings={"auto.create.topics.enable": "false"}, security=security) as kafka:
        pipeline = pipeline_on(postgres.url, {"bootstrap.servers": kafka.bootstrap_servers}, spark, poison="block-key")
        _permit(kafka, pipeline)
        secured = pipeline_settings(pipeline, kafka)
        pipeline.write(
            pipeline.message("a"),
            Message("nowhere", "kept", "key"),
            Message("nowhere", "kept behind it", "key"),
            Message("nowhere", "kept", "another key"),
            pipeline.message("b"),
            Message("forbidden", "kept", "key"),
            pipeline.message("c"),
        )
        with Relay(secured, spark) as relay:
            pipeline.wait_published(relay, 3, seconds=120)
        assert pipeline.values() == [b"a", b"b", b"c"]
        letters = DeadLetters(pipeline.settings).list(10)
        assert [letter.topic for letter in letters] == ["nowhere"] * 3 + ["forbidden"]
        assert [letter.behind for letter in letters] == [None, 2, None, None]


def pipeline_settings(pipeline: Pipeline, kafka: embedded.Kafka) -> Settings:
    """The pipeline's settings, on the broker's secured listener."""
    return dataclasses.replace(pipeline.settings, base_kafka_config=kafka.client_config)


def _permit(kafka: embedded.Kafka, pipeline: Pipeline) -> None:
    """Let the user do what a relay does, but not write to the topic `forbidden`."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic("forbidden", 1)])["forbidden"].result(30)
    resources = [
        (ResourceType.TOPIC, pipeline.topic, ResourcePatternType.LITERAL),
        (ResourceType.TOPIC, "windrow.", ResourcePatternType.PREFIXED),
        (ResourceType.TOPIC, "nowhere", ResourcePatternType.LITERAL),
        (ResourceType.GROUP, "windrow.", ResourcePatternType.PREFIXED),
        (ResourceType.TRANSACTIONAL_ID, "windrow.", ResourcePatternType.PREFIXED),
    ]
    bindings = [
        AclBinding(kind, name, pattern, "User:relay", "*", AclOperation.ALL, AclPermissionType.ALLOW)
        for kind, name, pattern in resources
    ]
    denied = AclBinding(
        ResourceType.TOPIC,
        "forbidden",
        ResourcePatternType.LITERAL,
        "User:relay",
        "*",
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )
    for future in admin.create_acls([*bindings, denied]).values():
        future.result(30)


def _released(pipeline: Pipeline) -> list[int | None]:
    return [letter.release for letter in DeadLetters(pipeline.settings).list(10)]
