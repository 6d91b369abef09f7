"""The tutorial that builds an order service, followed to its end with its own code blocks."""

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from confluent_kafka.admin import AdminClient
from fastapi.testclient import TestClient
from pyspark.sql import SparkSession

from fix_habits import Database
from fix_pipeline import wait_for
from fix_snippets import code
from windrow import embedded
from windrow.relay import Relay
from windrow.relay.setup import prepare
from windrow.settings import Settings

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/services/fastapi_orders.py"
SERVICE, FIRST_PLACE, OUTBOX, PLACE, BILLING = code("docs/tutorial/order-service.md")
(CONFIG,) = code("docs/tutorial/order-service.md", "yaml")


def imported(text: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


def placed(service: ModuleType, *totals: int) -> list[int]:
    """The answers to orders of alice's."""
    with TestClient(service.app) as client:
        orders = [{"customer": "alice", "total": total} for total in totals]
        return [client.post("/orders", json=order).status_code for order in orders]


def delete_topic(kafka: embedded.Kafka, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.client_config["bootstrap.servers"]})
    if name in admin.list_topics(timeout=10).topics:
        admin.delete_topics([name])[name].result(30)
        wait_for(lambda: name not in admin.list_topics(timeout=10).topics, "the topic to be gone")


@contextmanager
def running(script: Path, **environment: str) -> Iterator[None]:
    """A script, until it is killed."""
    with subprocess.Popen([sys.executable, script], env={**os.environ, **environment}) as process:
        try:
            yield
        finally:
            process.kill()


def test_the_tutorial_leads_to_where_it_says(
    postgres_outbox: Database,
    kafka: embedded.Kafka,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    postgres_outbox.execute("DROP TABLE orders")
    delete_topic(kafka, "orders")  # which other pages have messages in, too
    environment = {
        "WINDROW_DATA_SOURCE": postgres_outbox.url,
        "WINDROW_KAFKA_BOOTSTRAP_SERVERS": kafka.client_config["bootstrap.servers"],
    }
    monkeypatch.setenv("ORDERS_DATABASE", postgres_outbox.url.replace("postgresql:", "postgresql+psycopg:"))
    config, billing = tmp_path / "relay.yaml", tmp_path / "billing.py"
    config.write_text(CONFIG)
    billing.write_text(BILLING)
    settings = Settings.load(config, environment)

    first = imported(SERVICE + FIRST_PLACE, tmp_path / "first_orders.py", monkeypatch)
    assert placed(first, 12, 0) == [201, 422]
    prepare(settings)
    service = imported(SERVICE + OUTBOX + PLACE, tmp_path / "orders.py", monkeypatch)
    assert placed(service, 20, 0) == [201, 422]
    assert postgres_outbox.execute("SELECT topic, key FROM outbox") == [("orders", b"alice")]

    def bills() -> list[object]:
        ((there,),) = postgres_outbox.execute("SELECT to_regclass('bills') IS NOT NULL")
        return [cents for (cents,) in postgres_outbox.execute("SELECT cents FROM bills")] if there else []

    known = {**environment, "WINDROW_KAFKA_GROUP_INSTANCE_ID": "billing-1"}  # who comes back is not waited for
    with Relay(settings, spark) as relay:
        wait_for(lambda: relay.positions() and relay.positions()[0].published == 1, "the message")
        with running(billing, **known):
            wait_for(lambda: bills() == [2000], "the first bill")
        assert placed(service, 7, 8) == [201, 201]
        with running(billing, **known):
            wait_for(lambda: len(bills()) >= 3, "the others")
    assert sorted(map(str, bills())) == ["2000", "700", "800"]


def test_the_tutorial_builds_the_example() -> None:
    def parts(text: str) -> list[str]:
        tree = ast.parse(text)
        return sorted(ast.dump(each) for each in tree.body if not isinstance(each, ast.Expr))

    assert parts(SERVICE + OUTBOX + PLACE) == parts(EXAMPLE.read_text())
