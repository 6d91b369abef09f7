"""A record that Kafka refuses for good neither blocks the others nor lets them overtake each other."""

import dataclasses
from collections.abc import Callable

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession

from fix_pipeline import Pipeline, pipeline_on
from windrow import Message, embedded
from windrow.errors import PublishFailed
from windrow.kafka.clients import client_config
from windrow.publish.dead_letter import DeadLetters
from windrow.relay import Relay
from windrow.settings import Settings

TOO_LARGE = b"x" * 20_000


def test_too_large_record_between_good_ones_of_its_key_becomes_a_dead_letter(pipeline: Pipeline) -> None:
    _limit_message_size(pipeline, 10_000)
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


def test_poison_in_the_middle_of_a_backlog(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(limits={"pageRecords": 30})
    _limit_message_size(pipeline, 10_000)
    values = [TOO_LARGE if number % 40 == 7 else f"{number}".encode() for number in range(200)]
    pipeline.write(*map(pipeline.message, values))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 195)
    assert pipeline.values() == [value for value in values if value is not TOO_LARGE]
    assert len(DeadLetters(pipeline.settings).list(10)) == 5


def test_retried_dead_letter_is_published_once_the_cause_is_mended(pipeline: Pipeline) -> None:
    _limit_message_size(pipeline, 10_000)
    pipeline.write(pipeline.message(TOO_LARGE, headers={"a": "1"}), pipeline.message("good"))
    letters = DeadLetters(pipeline.settings)
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
        _limit_message_size(pipeline, 100_000)
        assert letters.retry([1]) == 1
        pipeline.wait_published(relay, 2)
    assert pipeline.values() == [b"good", TOO_LARGE]
    assert letters.list(10) == []


def test_discarded_dead_letter_is_gone(pipeline: Pipeline) -> None:
    _limit_message_size(pipeline, 10_000)
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
    _limit_message_size(pipeline, 10_000)
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
        pipeline = pipeline_on(postgres.url, {"bootstrap.servers": kafka.bootstrap_servers}, spark)
        _permit(kafka, pipeline)
        secured = pipeline_settings(pipeline, kafka)
        pipeline.write(
            pipeline.message("a"),
            Message("nowhere", "lost", "key"),
            pipeline.message("b"),
            Message("forbidden", "kept", "key"),
            pipeline.message("c"),
        )
        with Relay(secured, spark) as relay:
            pipeline.wait_published(relay, 3, seconds=120)
        assert pipeline.values() == [b"a", b"b", b"c"]
        assert [letter.topic for letter in DeadLetters(pipeline.settings).list(10)] == ["nowhere", "forbidden"]


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


def _limit_message_size(pipeline: Pipeline, size: int) -> None:
    admin = AdminClient(client_config(pipeline.settings))
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, pipeline.topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)
