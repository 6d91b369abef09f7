"""Python and SQL on the pages run, on servers that the pages' names are replaced by.

All Python of a page shares one namespace, as a reader's session would, with what the page takes for granted. What would
run until somebody ends it is ended by the page's stage.
"""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import psycopg
import pytest
import yaml
from confluent_kafka import Producer
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.sql import SparkSession

from fix_habits import Database
from fix_pipeline import received, wait_for
from fix_snippets import PLAYED, Snippet, code, snippets
from windrow import Message, Outbox, embedded
from windrow.database.migrations import migrate
from windrow.database.ring import Ring
from windrow.embedded.ports import free_port
from windrow.inbox import ConsumerSettings, Inbox, InboxConsumer
from windrow.kafka.clients import create_topic
from windrow.queue import QueueSettings
from windrow.queue.topics import create_topics
from windrow.relay.setup import prepare
from windrow.settings import Settings

TABLES = """
CREATE TABLE basket (customer text, amount integer);
CREATE TABLE account (owner text, balance integer);
CREATE TABLE deposit (owner bytea, cents integer);
CREATE TABLE total (customer text PRIMARY KEY, last text);
INSERT INTO account VALUES ('alice', 100);
"""


class Stage:
    """A database, a broker and a folder with a settings file, in the places that pages name."""

    def __init__(self, database: Database, kafka: embedded.Kafka, folder: Path) -> None:
        self.database, self.folder, self.servers = database, folder, kafka.client_config["bootstrap.servers"]
        self.names: dict[str, Any] = {"__name__": "page"}
        self.settings = self.configured(name=database.name)

    def configured(self, **given: Any) -> Settings:
        """Settings with these servers, which are then also in relay.yaml."""
        here = {"dataSource": self.database.url, "baseKafkaConfig": {"bootstrap.servers": self.servers}}
        (self.folder / "relay.yaml").write_text(yaml.safe_dump(given | here))
        return Settings.load(self.folder / "relay.yaml", environment={})

    def run(self, text: str) -> None:
        text = re.sub(r"postgresql://app@[a-z]+/[a-z]+", self.database.url, text)
        text = text.replace("localhost:9092", self.servers).replace("/checkpoints", str(self.folder / "checkpoints"))
        text = text.replace('"relay.yaml"', repr(str(self.folder / "relay.yaml")))  # Spark's workers are elsewhere
        exec(compile(text, "snippet", "exec"), self.names)  # noqa: S102 - our own

    def run_page(self, page: str) -> None:
        for text in code(page):
            self.run(text)

    @contextmanager
    def until(self, name: str, done: Callable[[Any], object], end: Callable[[Any], object]) -> Iterator[None]:
        """Meanwhile another thread waits until what the page has by this name is done, and ends it."""

        def watch() -> None:
            try:
                wait_for(lambda: name in self.names and done(self.names[name]), f"{name} to be done")
            finally:
                end(self.names[name])

        thread = threading.Thread(target=watch)
        thread.start()
        yield
        thread.join(90)
        assert not thread.is_alive()


@pytest.fixture
def stage(postgres_outbox: Database, kafka: embedded.Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    postgres_outbox.execute(TABLES)
    made = Stage(postgres_outbox, kafka, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDROW_DATA_SOURCE", postgres_outbox.url)
    monkeypatch.setenv("WINDROW_KAFKA_BOOTSTRAP_SERVERS", made.servers)
    return made


def test_readme(stage: Stage) -> None:
    write, queue = code("README.md")
    stage.run(write)
    assert stage.database.execute("SELECT * FROM basket") == [("alice", 120)]
    assert [row[1:4] for row in stage.database.rows()] == [("baskets", b"alice", b'{"amount": 120}')]

    create_topics(QueueSettings(base_kafka_config={"bootstrap.servers": stage.servers}), 1, 1)
    handled: list[bytes] = []
    with stage.until("consumer", lambda _: handled, lambda consumer: consumer.close()):
        stage.names["handled"] = handled
        stage.run(queue.replace("message.ack()", "message.ack(), handled.append(message.payload)"))
    assert handled == [b"to: ada"]


def test_first_messages(stage: Stage) -> None:
    stage.database.execute("DROP TABLE orders; CREATE TABLE orders (id text, customer text, amount integer)")
    with psycopg.connect(stage.database.url) as connection:
        given = {"order": "1", "customer": "alice", "amount": 12, "value": "{}"}
        stage.names |= {"connection": connection, "outbox": Outbox(), "Message": Message, **given}
        stage.run_page("docs/tutorial/first-messages.md")
    assert len(stage.database.rows()) == stage.database.orders() == 1


def test_capture_state_from_events(stage: Stage) -> None:
    with psycopg.connect(stage.database.url) as connection:
        Inbox("accounts").create(connection)
    create_topic(stage.settings, "account-events", 1)
    stage.run_page("docs/how-to/capture-state-from-events.md")
    stage.names["consumer"].stop()
    stage.names["events"].close()
    assert stage.database.execute("SELECT * FROM deposit") == [(b"alice", 1200)]


def test_compose_a_pipeline(stage: Stage, spark: SparkSession) -> None:
    prepare(stage.settings)
    create_topic(stage.settings, "snippet-orders", 1)
    with psycopg.connect(stage.database.url) as connection:
        for amount in (120, 80):
            Outbox().write(connection, Message("snippet-orders", f'{{"amount": {amount}}}', "alice"))
    stage.run_page("docs/how-to/compose-a-pipeline.md")
    query = stage.names["query"]
    query.processAllAvailable()
    query.stop()
    assert [each.value() for each in received(stage.settings, "snippet-orders")] == [b'{"amount": 120}']
    assert spark.range(1).count() == 1  # the page's session is the shared one, and still there


def test_consume_once(stage: Stage) -> None:
    alone, with_handler, _on_spark = code("docs/how-to/consume-once.md")
    with psycopg.connect(stage.database.url) as connection:
        Inbox("billing").create(connection)
    stage.run(alone)
    message = SimpleNamespace(topic="orders", partition=0, offset=7, headers=[])
    with psycopg.connect(stage.database.url) as connection:
        for _again in range(2):
            stage.names["handle"](connection, message)

    topic = f"{stage.database.name}-orders"
    create_topic(stage.settings, topic, 1)
    producer = Producer({"bootstrap.servers": stage.servers})
    producer.produce(topic, b"{}", b"alice")
    assert producer.flush(30) == 0

    def balance() -> object:
        return stage.database.execute("SELECT balance FROM account")[0][0]

    with stage.until("consumer", lambda _: balance() == 98, lambda consumer: consumer.stop()):
        stage.run(with_handler.replace('"orders"', repr(topic)).replace('"billing"', f'"{topic}"'))
    assert balance() == 98


def test_alert(stage: Stage) -> None:
    port, topic = free_port(), f"{stage.database.name}-told"
    create_topic(stage.settings, topic, 1)
    with psycopg.connect(stage.database.url) as connection:
        Inbox(topic).create(connection)
    (text,) = code("docs/how-to/alert.md")
    stage.run(text.replace("9464", str(port)))
    kafka = {"bootstrap.servers": stage.servers}
    settings = ConsumerSettings(data_source=stage.database.url, base_kafka_config=kafka, group=topic, topics=(topic,))
    consumer = InboxConsumer(settings, lambda *_: None)
    thread = threading.Thread(target=stage.names["consume_and_tell"], args=(consumer,))
    thread.start()

    def shown() -> bytes:
        try:
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                return bytes(answer.read())
        except URLError:
            return b""

    try:
        wait_for(lambda: f'group="{topic}"'.encode() in shown(), "the consumer's metrics")
    finally:
        consumer.stop()
        thread.join(60)
    assert not thread.is_alive()


def test_consume_once_on_spark(stage: Stage, spark: SparkSession) -> None:
    """Kafka's messages are a file's here: Spark's connector is not among the tests' packages."""
    on_spark = code("docs/how-to/consume-once.md")[-1]
    source = re.compile(r"^messages = \(\n.*?^\)\n", re.DOTALL | re.MULTILINE)
    assert len(source.findall(on_spark)) == 1
    columns = ["'orders' AS topic", "0 AS partition", "id AS offset", "current_timestamp() AS timestamp"]
    content = ["encode('alice', 'UTF-8') AS key", "encode('7', 'UTF-8') AS value"]
    headers = "CAST(array() AS array<struct<key: string, value: binary>>) AS headers"
    spark.range(3).selectExpr(*columns, *content, headers).write.parquet(str(stage.folder / "in"))
    schema = spark.read.parquet(str(stage.folder / "in")).schema
    stage.names |= {"spark": spark, "messages": spark.readStream.schema(schema).parquet(str(stage.folder / "in"))}
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    try:
        stage.run(source.sub("", on_spark))
        wait_for(lambda: stage.database.execute("SELECT 1 FROM total"), "the first batch", 200)
        stage.names["query"].stop()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
    assert stage.database.execute("SELECT * FROM total") == [("alice", "7")]


def test_dispatch_and_sweep(stage: Stage) -> None:
    page = "docs/how-to/dispatch-and-sweep.md"
    (given,) = code(page, "yaml")
    settings = stage.configured(**yaml.safe_load(given), outboxTable="swept")
    prepare(settings)
    create_topic(settings, "baskets", 1)
    stage.run_page(page)
    assert len(received(settings, "baskets")) == 1
    assert stage.database.execute("SELECT count(*) FROM swept WHERE dispatched IS NOT NULL") == [(1,)]


def test_run_a_relay(stage: Stage, spark: SparkSession) -> None:
    typed, embedded_relay, told = code("docs/how-to/run-a-relay.md")
    stage.run(typed)
    assert stage.names["message"].value_type == "google.type.Money"
    stage.run(told)
    prepare(stage.settings)
    stage.names["spark"] = spark
    with stage.until("relay", lambda relay: relay.is_leader, lambda relay: relay.stop()):
        shared = embedded_relay.replace('Path("relay.yaml")))', 'Path("relay.yaml")), spark, on_event=tell)')
        assert shared != embedded_relay
        stage.run(shared)


def test_tail_the_log(stage: Stage) -> None:
    stage.run_page("docs/how-to/tail-the-log.md")
    assert stage.database.rows() == []


def test_trace(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"
    monkeypatch.setitem(__import__("sys").modules, name, SimpleNamespace(OTLPSpanExporter=InMemorySpanExporter))
    stage.run_page("docs/how-to/trace.md")
    provider = stage.names["provider"]()
    assert provider.resource.attributes["service.name"] == "orders-relay"
    provider.shutdown()


def test_settings(stage: Stage) -> None:
    stage.run_page("docs/reference/settings.md")
    assert stage.names["settings"].name == "shop"


def test_limits_beyond_one_machine(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.run_page("docs/explanation/limits-beyond-one-machine.md")
    assert "3 shards an outbox, 24 in all, 32 slots" in capsys.readouterr().out


STAGED = {
    "README.md",
    "docs/tutorial/first-messages.md",
    "docs/how-to/alert.md",
    "docs/how-to/capture-state-from-events.md",
    "docs/how-to/compose-a-pipeline.md",
    "docs/how-to/consume-once.md",
    "docs/how-to/dispatch-and-sweep.md",
    "docs/how-to/run-a-relay.md",
    "docs/how-to/tail-the-log.md",
    "docs/how-to/trace.md",
    "docs/reference/settings.md",
    "docs/explanation/limits-beyond-one-machine.md",
}


def test_python_of_every_page_is_run_somewhere() -> None:
    assert {each.page for each in snippets("python")} == STAGED | PLAYED.keys()


GIVEN = {
    "docs/how-to/come-from-tomorrow-one.md": (
        "CREATE TABLE outbox_kafka (id bigint, processed timestamptz)",
        "CREATE TABLE outbox_kafka_lock (id text PRIMARY KEY, owner_id text, valid_until timestamptz)",
    ),
    "docs/how-to/come-from-debezium.md": ("CREATE PUBLICATION dbz_publication FOR TABLE outbox",),
    "docs/how-to/tail-the-log.md": ("CREATE ROLE relay",),
    "docs/how-to/keep-and-replay.md": ("CREATE ROLE relay",),
}
"""What the SQL of a page takes for granted, besides an outbox."""
SLOT_IN_THE_LOG = {"docs/how-to/come-from-debezium.md"}
PARTITIONED = {"docs/how-to/keep-and-replay.md"}
ON_SPARK, ON_MYSQL, A_COLUMN = (
    "docs/how-to/transform-messages.md",
    "docs/how-to/use-mysql.md",
    "docs/decisions/0015-a-ring-of-slots.md",
)
ON_POSTGRESQL = [each for each in snippets("sql") if each.page not in {ON_SPARK, ON_MYSQL}]


@pytest.mark.parametrize("snippet", ON_POSTGRESQL, ids=str)
def test_sql_runs_on_postgresql(snippet: Snippet, postgres_outbox: Database) -> None:
    settings = Settings.load(
        environment={}, data_source=postgres_outbox.url, base_kafka_config={"bootstrap.servers": "none:9092"}
    )
    text = f"CREATE TABLE ring ({snippet.text})" if snippet.page == A_COLUMN else snippet.text
    with psycopg.connect(postgres_outbox.url, autocommit=True) as connection:
        if snippet.page in SLOT_IN_THE_LOG:  # which no transaction can make that has written
            connection.execute("SELECT pg_create_logical_replication_slot('debezium', 'pgoutput')")
        with connection.transaction(force_rollback=True):
            if snippet.page in PARTITIONED:
                connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
                migrate(connection, settings, Ring(60))
            for statement in (*GIVEN.get(snippet.page, ()), text):
                connection.execute(statement.encode())


def test_sql_runs_on_mysql(maria_outbox: Database) -> None:
    (insert,) = code(ON_MYSQL, "sql")
    maria_outbox.execute(insert)
    assert [row[1:3] for row in maria_outbox.rows()] == [("orders", b"4711")]


def test_sql_runs_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    (query,) = code(ON_SPARK, "sql")
    (tmp_path / "customers.json").write_text('{"customer": "alice", "city": "Oslo"}')
    amounts = "encode(concat('{\"amount\": ', id * 600, '}'), 'UTF-8') AS value"
    rows = spark.range(3).selectExpr("id", "'orders' AS topic", "encode('alice', 'UTF-8') AS key", amounts, "1 headers")
    rows.createOrReplaceTempView("outbox")
    try:
        found = spark.sql(query.replace("/data/", f"{tmp_path}/")).collect()
    finally:
        spark.catalog.dropTempView("outbox")
    assert sorted(each.topic for each in found) == ["large-orders", "orders"]
