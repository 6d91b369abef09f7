"""The application sends by itself, right after its commit; what it could not send or note is the relay's."""

import asyncio
import dataclasses
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg
import pytest

from fix_pipeline import Pipeline, wait_for
from windrow import AsyncOutbox
from windrow.dispatch import Dispatcher
from windrow.errors import SettingsInvalid
from windrow.settings import Settings


@pytest.fixture(params=["postgres", "mariadb"])
def strategy(request: pytest.FixtureRequest) -> dict[str, str]:
    return {"capture": "sweep", "database": request.param}


def waiting(pipeline: Pipeline) -> list[int]:
    """The rows that are not noted as dispatched."""
    with pipeline.connect() as connection:
        table = pipeline.settings.outbox_table
        rows = connection.execute(f"SELECT id FROM {table} WHERE dispatched IS NULL ORDER BY id").fetchall()
    return [number for (number,) in rows]


def sequences(pipeline: Pipeline) -> list[bytes]:
    return [dict(message.headers() or ())["x-sequence"] for message in pipeline.received()]


def test_what_is_committed_arrives_without_a_relay_and_is_noted(pipeline: Pipeline) -> None:
    with Dispatcher(pipeline.settings) as dispatcher:
        for number in range(50):
            with dispatcher.writing() as outbox, pipeline.connect() as connection:
                outbox.write(connection, pipeline.message(f"{number}", headers={"n": f"{number}"}))
        wait_for(lambda: waiting(pipeline) == [], "all to be noted")
    received = pipeline.received()
    assert [message.value() for message in received] == [f"{number}".encode() for number in range(50)]
    assert received[7].headers() == [
        ("n", b"7"),
        ("x-sequence", b"8"),
        ("x-source", pipeline.settings.source.encode()),
    ]


@pytest.mark.parametrize("strategy", [{"capture": "sweep"}], ids=["postgres"])
def test_arrivals_are_noted_many_at_a_time(pipeline: Pipeline) -> None:
    with Dispatcher(pipeline.settings) as dispatcher, pipeline.connect() as connection:

        def write(numbers: range) -> None:
            for number in numbers:
                with dispatcher.writing() as outbox, connection.transaction():
                    outbox.write(connection, pipeline.message(f"{number}"))
            wait_for(lambda: waiting(pipeline) == [], "all to be noted")

        write(range(1))  # the producer is up
        began = time.monotonic()
        write(range(1, 500))
        most = (time.monotonic() - began) / 0.05 + 2
    with pipeline.connect() as connection:
        table = pipeline.settings.outbox_table
        (statements,) = connection.execute(f"SELECT count(DISTINCT dispatched) FROM {table}").fetchone() or (0,)
    assert 1 < statements <= most


def test_what_is_rolled_back_is_not_sent(pipeline: Pipeline) -> None:
    with Dispatcher(pipeline.settings) as dispatcher:
        with suppress(ZeroDivisionError), dispatcher.writing() as outbox, pipeline.connect() as connection:
            outbox.write(connection, pipeline.message("never"))
            raise ZeroDivisionError
        with dispatcher.writing() as outbox, pipeline.connect() as connection:
            outbox.write(connection, pipeline.message("sent"))
    assert pipeline.values() == [b"sent"]
    assert waiting(pipeline) == []


def test_what_kafka_does_not_take_is_left_to_the_relay(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(limits={"sweepAfter": "1s"})
    nowhere = dataclasses.replace(
        pipeline.settings, base_kafka_config={"bootstrap.servers": "127.0.0.1:1"}, producer_kafka_config={}
    )
    with Dispatcher(nowhere) as dispatcher, dispatcher.writing() as outbox, pipeline.connect() as connection:
        outbox.write(connection, pipeline.message("left"))
    assert waiting(pipeline) == [1]
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
        wait_for(lambda: waiting(pipeline) == [], "it to be noted")
    assert (pipeline.values(), sequences(pipeline)) == ([b"left"], [b"1"])


_SERVICE = """
import json, os, signal, sys
import psycopg, pymysql
from windrow import Message
from windrow.dispatch import Dispatcher
from windrow.settings import Settings
settings = Settings.load(environment={}, **json.loads(sys.argv[1]))
with Dispatcher(settings) as dispatcher, dispatcher.writing() as outbox:
    with psycopg.connect(settings.data_source) as connection:
        outbox.write(connection, Message(sys.argv[2], "committed", "key"))
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("strategy", [{"capture": "sweep"}], ids=["postgres"])
def test_crash_between_commit_and_dispatch_leaves_it_to_the_relay(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(limits={"sweepAfter": "500ms"})
    given = {
        "data_source": pipeline.settings.data_source,
        "base_kafka_config": dict(pipeline.settings.base_kafka_config),
        "outbox_table": pipeline.settings.outbox_table,
        "name": pipeline.settings.name,
        "capture": "sweep",
    }
    service = subprocess.run([sys.executable, "-c", _SERVICE, json.dumps(given), pipeline.topic], check=False)
    assert service.returncode == -signal.SIGKILL
    assert (waiting(pipeline), pipeline.values()) == ([1], [])
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
    assert pipeline.values() == [b"committed"]


@pytest.mark.parametrize("strategy", [{"capture": "sweep"}], ids=["postgres"])
def test_asynchronous_writers_dispatch_too(pipeline: Pipeline) -> None:
    async def write(dispatcher: Dispatcher) -> int:
        connection = await psycopg.AsyncConnection.connect(pipeline.settings.data_source)
        with dispatcher.writing() as outbox:
            async with connection:
                number: int = await outbox.write(connection, pipeline.message("later"))
        return number

    with Dispatcher(pipeline.settings, AsyncOutbox(pipeline.settings.outbox_table)) as dispatcher:
        assert asyncio.run(write(dispatcher)) == 1
    assert (pipeline.values(), waiting(pipeline)) == ([b"later"], [])


@pytest.mark.parametrize("strategy", [{"capture": "sweep"}], ids=["postgres"])
def test_arrivals_are_noted_once_the_connection_is_back(pipeline: Pipeline) -> None:
    with Dispatcher(pipeline.settings) as dispatcher:
        with dispatcher.writing() as outbox, pipeline.connect() as connection:
            outbox.write(connection, pipeline.message("first"))
        wait_for(lambda: waiting(pipeline) == [], "the first to be noted")
        with pipeline.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'windrow dispatch'"
            )
        with dispatcher.writing() as outbox, pipeline.connect() as connection:
            outbox.write(connection, pipeline.message("second"))
        wait_for(lambda: waiting(pipeline) == [], "the second to be noted")
    assert pipeline.values() == [b"first", b"second"]


def test_relay_that_does_not_sweep_is_refused() -> None:
    with pytest.raises(SettingsInvalid, match="give sweep"):
        Dispatcher(Settings("postgresql://", {"bootstrap.servers": "-"}))
