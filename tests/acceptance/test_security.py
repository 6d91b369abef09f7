"""A relay as docs/how-to/secure.md has it: with those rights and no others, over TLS, and with no secret to be seen."""

import argparse
import re
import shlex
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psutil
import psycopg
import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from fix_command import marked, windrow, windrow_running
from fix_pipeline import wait_for
from fix_tls import TlsProxy, tls_proxy
from windrow import Message, Outbox, embedded
from windrow.embedded.ports import free_port
from windrow.errors import Interrupted
from windrow.kafka.clients import create_topic, position_reader
from windrow.publish.transaction import transactor
from windrow.record import Record
from windrow.relay.setup import prepare
from windrow.settings import Settings

pytestmark = pytest.mark.timeout(240)
PAGE = (Path(__file__).parents[2] / "docs/how-to/secure.md").read_text(encoding="utf-8")
OWNER, APP, RELAY, BROKER, BILLING = (f"secret-{uuid4().hex}" for _ in range(5))
SECRETS = (OWNER, APP, RELAY, BROKER, BILLING)
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}


@dataclass
class Shop:
    """The servers, and the relay's settings file without its passwords."""

    postgres: embedded.Postgres
    kafka: embedded.Kafka
    proxy: TlsProxy
    config: Path

    def database(self, user: str, password: str = "") -> str:
        who = f"{user}:{password}" if password else user
        checked = f"sslmode=verify-full&sslrootcert={self.proxy.ca_file}"
        return f"postgresql://{who}@127.0.0.1:{self.proxy.port}/postgres?{checked}"

    def broker(self, user: str, password: str) -> dict[str, str]:
        return {**self.kafka.client_config, "sasl.username": user, "sasl.password": password, "log_level": "0"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    users = embedded.Security({"shop_relay": BROKER, "billing": BILLING})
    closed = {"allow.everyone.if.no.acl.found": "false", "auto.create.topics.enable": "false"}
    with (
        embedded.Postgres(password=OWNER) as postgres,
        embedded.Kafka(security=users, settings=closed) as kafka,
        tls_proxy(folder, postgres.port) as proxy,
    ):
        shop = Shop(postgres, kafka, proxy, folder / "relay.yaml")
        deploy(shop)
        yield shop


def deploy(shop: Shop) -> None:
    """What the owner does, and then what the page says."""
    as_owner = {"bootstrap.servers": shop.kafka.bootstrap_servers}
    owners = {"name": "shop", "data_source": shop.postgres.url, "base_kafka_config": as_owner, "shards": 1}
    settings = Settings.load(environment={}, **owners)
    prepare(settings)
    for topic in ("orders", "payroll"):
        create_topic(settings, topic, 1)
    with psycopg.connect(shop.postgres.url, autocommit=True) as connection:
        connection.execute(block("sql").encode())
        for role, password in (("shop_app", APP), ("shop_relay", RELAY)):
            connection.execute(f"ALTER ROLE {role} PASSWORD '{password}'".encode())
    admin = AdminClient(as_owner)
    for future in admin.create_acls([*acls()]).values():
        future.result(30)
    given = yaml.safe_load(block("yaml"))
    given["dataSource"] = shop.database("shop_relay")
    servers = {"bootstrap.servers": shop.kafka.secure_bootstrap_servers, "ssl.ca.location": str(shop.kafka.ca_file)}
    given["baseKafkaConfig"] |= servers
    shop.config.write_text(yaml.safe_dump(given))


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found, language
    return found[1]


def acls() -> Iterator[AclBinding]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--allow-principal")
    parser.add_argument("--operation", action="append")
    parser.add_argument("--resource-pattern-type", default="literal")
    for resource in RESOURCES:
        parser.add_argument(f"--{resource.replace('_', '-')}", dest=resource)
    for line in block("console").splitlines():
        given = parser.parse_args(shlex.split(line.removeprefix("$ kafka-acls ")))
        (resource,) = [each for each in RESOURCES if getattr(given, each)]
        pattern = ResourcePatternType[given.resource_pattern_type.upper()]
        for operation in given.operation:
            allowed = (AclOperation[operation.upper()], AclPermissionType.ALLOW)
            yield AclBinding(
                RESOURCES[resource], getattr(given, resource), pattern, given.allow_principal, "*", *allowed
            )


@pytest.fixture
def passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", RELAY)
    monkeypatch.setenv("WINDROW_KAFKA_SASL_PASSWORD", BROKER)


@pytest.mark.usefixtures("passwords")
def test_relay_works_with_these_rights_over_tls_and_shows_no_secret(shop: Shop, tmp_path: Path) -> None:
    mark, talk, port = uuid4().hex, tmp_path / "talk", free_port()
    served = ("--dashboard", "--metrics-address", f"127.0.0.1:{port}")
    with windrow_running("relay", "--config", shop.config, *served, mark=mark, talk=talk) as process:
        with psycopg.connect(shop.database("shop_app", APP)) as connection:
            for topic in ("orders", "payroll", "orders"):
                Outbox().write(connection, Message(topic, topic, "key"))
        assert values(shop, 2) == [b"orders", b"orders"]
        with psycopg.connect(shop.postgres.url, autocommit=True) as owner:
            wait_for(lambda: count(owner, "outbox") == 0, "the purge")
            assert count(owner, "outbox_dead_letter") == 1
        told = [windrow(command, "--config", shop.config) for command in ("status", "doctor")]
        commands = [psutil.Process(each).cmdline() for each in marked(mark)]
        pages = [page(port, path) for path in ("/", "/api/overview", "/metrics", "/readyz", "/api/letters")]
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0, talk.read_text()
    assert told[0].returncode == 0, told[0].stderr
    assert len(commands) > 1
    assert "shop" in pages[1]
    assert "windrow_" in pages[2]
    seen = [talk.read_text(), str(commands), *pages, *(each.stdout + each.stderr for each in told)]
    assert not [secret for secret in SECRETS if any(secret in each for each in seen)]
    assert shop.proxy.refused == 0


@pytest.mark.parametrize("variable", ["PGPASSWORD", "WINDROW_KAFKA_SASL_PASSWORD"])
@pytest.mark.usefixtures("passwords")
def test_refused_password_is_told_without_it(shop: Shop, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    wrong = f"wrong-{uuid4().hex}"
    monkeypatch.setenv(variable, wrong)
    run = windrow("doctor", "--config", shop.config)
    assert run.returncode != 0
    assert re.search("(?i)failed .*(password|credentials)", run.stdout), run.stdout
    assert not [each for each in (*SECRETS, wrong) if each in run.stdout + run.stderr]


@pytest.mark.parametrize("user", ["shop_app", "shop_relay"])
def test_nobody_can_do_more_than_they_need(shop: Shop, user: str) -> None:
    forbidden = {
        "shop_app": ("SELECT value FROM outbox", "UPDATE outbox SET topic = 'a'", "DELETE FROM outbox"),
        "shop_relay": ("INSERT INTO outbox (topic) VALUES ('a')", "UPDATE outbox SET topic = 'a'", "TRUNCATE outbox"),
    }
    passwords = {"shop_app": APP, "shop_relay": RELAY}
    with psycopg.connect(shop.database(user, passwords[user]), autocommit=True) as connection:
        for statement in (*forbidden[user], "CREATE TABLE mine ()", "DROP TABLE outbox"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def test_relay_writes_to_no_other_topic_and_the_consumer_to_none(shop: Shop) -> None:
    for user, password, topic in (("shop_relay", BROKER, "payroll"), ("billing", BILLING, "orders")):
        errors: list[KafkaError | None] = []
        producer = Producer(shop.broker(user, password))
        producer.produce(topic, b"", on_delivery=lambda error, _, errors=errors: errors.append(error))
        producer.flush(30)
        assert [each and each.code() for each in errors] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_no_record_is_to_blame_where_a_position_is_refused(shop: Shop) -> None:
    given = {"name": "shop", "data_source": shop.postgres.url, "base_kafka_config": shop.broker("shop_relay", BROKER)}
    settings = Settings.load(environment={}, **given)
    with closing(position_reader(settings)) as member, closing(transactor(settings, "0.a")) as by:

        def publish() -> None:
            with by.transaction():
                by.send(b"source", [Record(1, "orders", b"key", b"value", [], [], None, None)])
                by.finish([TopicPartition("payroll", 0, 1, metadata="")], member.consumer_group_metadata())

        by.connect()
        by.init()
        with pytest.raises(Interrupted, match=r"(?i)authorization"):
            publish()


def test_database_is_not_spoken_to_without_tls_nor_to_a_stranger(shop: Shop, tmp_path: Path) -> None:
    refused = shop.proxy.refused
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(shop.database("shop_app", APP).replace("verify-full", "disable"))
    assert shop.proxy.refused == refused + 1
    shop.proxy.refused = refused
    with (
        tls_proxy(tmp_path, shop.postgres.port) as stranger,
        pytest.raises(psycopg.OperationalError, match="SSL error"),
    ):
        psycopg.connect(shop.database("shop_app", APP).replace(f":{shop.proxy.port}", f":{stranger.port}"))


def page(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as refused:
        return refused.read().decode()


def count(connection: psycopg.Connection[tuple[int]], table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
    assert row
    return row[0]


def values(shop: Shop, expected: int) -> list[bytes | None]:
    """What `billing` gets."""
    config = {**shop.broker("billing", BILLING), "group.id": "billing", "auto.offset.reset": "earliest"}
    found: list[bytes | None] = []
    with closing(Consumer(config)) as consumer:
        consumer.subscribe(["orders"])

        def come() -> bool:
            message = consumer.poll(0.2)
            if message is not None and (error := message.error()):
                raise KafkaException(error)
            if message is not None:
                found.append(message.value())
            return len(found) >= expected

        wait_for(come, "the messages", 120)
    return found
