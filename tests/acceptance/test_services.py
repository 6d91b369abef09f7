"""The example services, as they stand: an order and its message are there together, or neither is."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import psycopg
import pytest
from fastapi.testclient import TestClient
from google.protobuf.struct_pb2 import Struct
from psycopg.conninfo import conninfo_to_dict

from fix_habits import Database

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
