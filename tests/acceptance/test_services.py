"""The example services, as they stand: an order and its message are there together, or neither is."""

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import Producer
from fastapi.testclient import TestClient
from google.protobuf.struct_pb2 import Struct
from psycopg.conninfo import conninfo_to_dict

from fix_habits import Database
from fix_pipeline import wait_for
from windrow import embedded
from windrow.inbox import ConsumerSettings
from windrow.kafka.clients import client_config, create_topic

SERVICES = Path(__file__).parents[2] / "examples" / "services"
Row = tuple[str, bytes | None, bytes | None]


@pytest.fixture
def messages(postgres_outbox: Database) -> Callable[[], list[Row]]:
    def read() -> list[Row]:
        rows = postgres_outbox.execute("SELECT topic, key, value FROM outbox ORDER BY id")
        return [(topic, key and bytes(key), value and bytes(value)) for topic, key, value in rows]

    return read


def imported(name: str, monkeypatch: pytest.MonkeyPatch, **environment: str) -> ModuleType:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    spec = importlib.util.spec_from_file_location(name, SERVICES / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_fastapi_service_places_orders(
    postgres_outbox: Database, messages: Callable[[], list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres_outbox.execute("DROP TABLE orders")
    url = postgres_outbox.url.replace("postgresql://", "postgresql+psycopg://")
    service = imported("fastapi_orders", monkeypatch, ORDERS_DATABASE=url)
    with TestClient(service.app) as client:
        placed = client.post("/orders", json={"customer": "alice", "total": 12})
        refused = client.post("/orders", json={"customer": "alice", "total": 0})
        assert (placed.status_code, refused.status_code) == (201, 422)
        assert client.post("/orders", json={"customer": "bob", "total": 7}).json()["customer"] == "bob"
    assert postgres_outbox.execute("SELECT customer, total FROM orders ORDER BY id") == [("alice", 12), ("bob", 7)]
    told = [(topic, key, json.loads(value or b"")) for topic, key, value in messages()]
    assert [(topic, key, value["total"]) for topic, key, value in told] == [
        ("orders", b"alice", 12),
        ("orders", b"bob", 7),
    ]


_DJANGO = """
import json, django_orders
from django.test import Client
django_orders.create_tables()
client = Client(raise_request_exception=False)
orders = [json.dumps({"customer": "alice", "total": total}) for total in (12, 0, 7)]
print([client.post("/orders", order, content_type="application/json").status_code for order in orders])
"""


def test_django_service_places_orders(postgres_outbox: Database, messages: Callable[[], list[Row]]) -> None:
    given = conninfo_to_dict(postgres_outbox.url)
    environment = {
        "DATABASE_NAME": str(given["dbname"]),
        "DATABASE_HOST": str(given["host"]),
        "DATABASE_PORT": str(given["port"]),
        "DATABASE_USER": str(given["user"]),
    }
    run = subprocess.run(  # Django can be configured once in a process
        [sys.executable, "-c", _DJANGO],
        cwd=SERVICES,
        env={**os.environ, **environment, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "[201, 500, 201]\n", run.stderr
    assert postgres_outbox.execute("SELECT customer, total FROM django_orders ORDER BY id") == [
        ("alice", 12),
        ("alice", 7),
    ]
    assert [json.loads(value or b"")["total"] for _, _, value in messages()] == [12, 7]


def test_asyncpg_worker_tells_what_is_done(
    postgres_outbox: Database, messages: Callable[[], list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres_outbox.execute("CREATE TABLE jobs (id bigserial PRIMARY KEY, task text)")
    postgres_outbox.execute("INSERT INTO jobs (task) VALUES ('wash'), (NULL), ('dry')")
    worker = imported("asyncpg_worker", monkeypatch, DATABASE=postgres_outbox.url)
    with pytest.raises(AttributeError):
        asyncio.run(worker.main())
    assert postgres_outbox.execute("SELECT id FROM jobs ORDER BY id") == [(2,), (3,)], "the job that failed is there"
    postgres_outbox.execute("DELETE FROM jobs WHERE task IS NULL")
    asyncio.run(worker.main())
    assert [(topic, json.loads(value or b"")) for topic, _, value in messages()] == [
        ("jobs.done", {"job": 1, "result": "WASH"}),
        ("jobs.done", {"job": 3, "result": "DRY"}),
    ]


def test_payments_are_told_in_protobuf(
    postgres_outbox: Database, messages: Callable[[], list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = imported("protobuf_payments", monkeypatch, DATABASE=postgres_outbox.url)
    service.main()
    with psycopg.connect(postgres_outbox.url) as connection:
        service.pay(connection, "bob", 5)
        connection.rollback()
    ((topic, key, value),) = messages()
    assert (topic, key) == ("payments", b"alice")
    assert dict(Struct.FromString(value or b"")) == {"account": "alice", "cents": 1200.0}
    ((names,),) = postgres_outbox.execute("SELECT header_keys FROM outbox")
    assert names == ["x-value-type"]


@contextmanager
def ledger(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """The example's process; killed at the end, wherever it is by then."""
    with subprocess.Popen(
        [sys.executable, SERVICES / "inbox_ledger.py"],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_ledger_killed_in_the_middle_of_a_payment_moves_money_once(
    postgres_outbox: Database, kafka: embedded.Kafka
) -> None:
    name = f"ledger_{uuid4().hex[:8]}"
    settings = ConsumerSettings(base_kafka_config=kafka.client_config, group=name, topics=(name,))
    create_topic(settings, name, 1)
    producer = Producer(client_config(settings))
    for number in range(6):
        payment = {"number": number, "from": "alice", "to": "bob", "cents": 100 + number}
        producer.produce(name, json.dumps(payment))
    assert producer.flush(30) == 0
    environment = {
        "KAFKA": kafka.client_config["bootstrap.servers"],
        "DATABASE": postgres_outbox.url,
        "GROUP": name,
        "TOPIC": name,
    }
    for last in (0, 3):
        with ledger({**environment, "SLOW_STEP": "0.2" if last else "60"}) as process:
            assert process.stdout
            assert f"half done: {last}\n" in iter(process.stdout.readline, "")
            process.send_signal(signal.SIGKILL)
    with ledger({**environment, "SLOW_STEP": "0"}) as process:
        wait_for(lambda: balances(postgres_outbox) == {"alice": -615, "bob": 615}, "all payments")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert balances(postgres_outbox) == {"alice": -615, "bob": 615}


def balances(database: Database) -> dict[str, int]:
    return dict(database.execute("SELECT account, cents FROM ledger"))  # type: ignore[arg-type]
