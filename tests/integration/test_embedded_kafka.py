"""The embedded Kafka: one broker, several, and a secured one."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from windrow import embedded

QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def kafka() -> Iterator[embedded.Kafka]:
    with embedded.Kafka(settings={"num.partitions": 3}, security=embedded.Security({"alice": 'sec"ret\\'})) as one:
        yield one


def produce(config: dict[str, str], topic: str, *values: bytes, seconds: float = 20) -> None:
    """Raises what the first bad delivery report says."""
    failures: list[KafkaError] = []
    producer = Producer({**QUIET, **config, "acks": "all", "delivery.timeout.ms": int(seconds * 1000)})
    for number, value in enumerate(values):
        report = lambda error, _: failures.append(error) if error else None  # noqa: E731 - of one line
        producer.produce(topic, value, str(number), on_delivery=report)
    assert producer.flush(seconds + 5) == 0
    if failures:
        raise KafkaException(failures[0])


def consume(config: dict[str, str], topic: str, count: int = 1) -> list[bytes]:
    offsets: dict[str, Any] = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**QUIET, **config, **offsets})
    try:
        consumer.subscribe([topic])
        return [bytes(message.value() or b"") for message in consumer.consume(count, timeout=20)]
    finally:
        consumer.close()


def plain(kafka: embedded.Kafka) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


def test_acknowledged_records_survive_a_kill(kafka: embedded.Kafka) -> None:
    produce(plain(kafka), "survivors", b"one")
    servers = kafka.bootstrap_servers
    kafka.kill()
    kafka.restart()
    assert kafka.bootstrap_servers == servers
    assert consume(plain(kafka), "survivors") == [b"one"]


def test_settings_reach_the_broker(kafka: embedded.Kafka) -> None:
    produce(plain(kafka), "wide", b"one")
    assert len(AdminClient(plain(kafka)).list_topics("wide", timeout=10).topics["wide"].partitions) == 3


def test_paused_broker_does_not_answer_until_resumed(kafka: embedded.Kafka) -> None:
    admin = AdminClient({**QUIET, **plain(kafka)})
    admin.list_topics(timeout=10)
    kafka.pause()
    try:
        with pytest.raises(KafkaException, match=r"(?i)timed out|transport failure"):
            admin.list_topics(timeout=0.5)
    finally:
        kafka.resume()
    assert admin.list_topics(timeout=20).brokers


def test_round_trip_over_tls_and_scram(kafka: embedded.Kafka) -> None:
    assert kafka.client_config["security.protocol"] == "SASL_SSL"
    produce(kafka.client_config, "secured", b"hidden")
    assert consume(kafka.client_config, "secured") == [b"hidden"]


def test_plain_mechanism_knows_the_same_users(kafka: embedded.Kafka) -> None:
    produce({**kafka.client_config, "sasl.mechanism": "PLAIN"}, "secured-plain", b"hidden")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_wrong_password_is_refused(kafka: embedded.Kafka, mechanism: str) -> None:
    errors: list[KafkaError] = []
    wrong = {"sasl.password": "wrong", "sasl.mechanism": mechanism}
    admin = AdminClient({**QUIET, **kafka.client_config, **wrong, "error_cb": errors.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    admin.poll(0)
    assert KafkaError._AUTHENTICATION in {error.code() for error in errors}


def test_unknown_authority_is_refused(kafka: embedded.Kafka) -> None:
    errors: list[KafkaError] = []
    config = {key: value for key, value in kafka.client_config.items() if key != "ssl.ca.location"}
    admin = AdminClient({**QUIET, **config, "error_cb": errors.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    admin.poll(0)
    assert KafkaError._SSL in {error.code() for error in errors}


def test_topic_given_to_somebody_else_is_closed(kafka: embedded.Kafka) -> None:
    admin = AdminClient(plain(kafka))
    admin.create_topics([NewTopic("bobs", 1, 1)])["bobs"].result(10)
    bobs = AclBinding(
        ResourceType.TOPIC,
        "bobs",
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([bobs])[bobs].result(10)
    with pytest.raises(KafkaException) as refused:
        produce(kafka.client_config, "bobs", b"one")
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    produce(plain(kafka), "bobs", b"one")


def test_cluster_of_three_goes_on_without_one() -> None:
    with embedded.Kafka(brokers=3) as cluster:
        admin = AdminClient({**QUIET, **cluster.client_config})
        admin.create_topics([NewTopic("copied", 3, 3)])["copied"].result(10)
        produce(cluster.client_config, "copied", b"before")
        cluster.brokers[0].kill()
        assert not cluster.running
        # Twelve keys fall on all partitions, so on one that the dead broker led.
        produce(cluster.client_config, "copied", *[b"after"] * 12, seconds=30)
        cluster.brokers[0].restart()
        assert cluster.running
        assert len(consume(cluster.client_config, "copied", 13)) == 13
