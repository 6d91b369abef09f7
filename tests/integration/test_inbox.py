"""Each message is accepted once, in the handler's own transaction, whatever its habit is."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pymysql
import pytest

from fix_habits import Database, Service
from fix_pipeline import wait_for
from windrow import AsyncOutbox
from windrow.inbox import AsyncInbox, Inbox, Received

pytestmark = pytest.mark.timeout(180)

WAITING = {
    "postgresql": "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'INSERT IGNORE%'",
}


def message(offset: int) -> Received:
    return Received("orders", 0, offset)


def call(outbox: Any, method: str, connection: Any, *arguments: Any, name: str = "billing") -> Any:
    """Call a method of the inbox that goes with the habit."""
    inbox = AsyncInbox(name) if isinstance(outbox, AsyncOutbox) else Inbox(name)
    return getattr(inbox, method)(connection, *arguments)


def test_every_habit_accepts_a_message_once(service: Service) -> None:
    def do(method: str, *arguments: Any, **name: str) -> Any:
        return service.place(lambda outbox, connection: call(outbox, method, connection, *arguments, **name))

    do("create")
    do("create")
    service.place_and_undo(lambda outbox, connection: call(outbox, "accept", connection, message(1)))
    assert [do("accept", message(1)), do("accept", message(1)), do("accept", message(2))] == [True, False, True]
    assert do("accept", message(1), name="shipping")
    some = [message(offset) for offset in (9, 2, 4, 3, 1, 4)]
    assert do("accept_many", iter(some)) == [message(9), message(4), message(3)]
    assert do("accept_many", some) == []
    assert do("accept_many", []) == []
    many = [message(offset) for offset in range(1_234)]
    assert do("accept_many", many) == [each for each in many if each.offset not in {1, 2, 3, 4, 9}]
    assert do("purge", timedelta(hours=1)) == 0
    assert [do("purge", timedelta(), 1_000) for _ in range(3)] == [1_000, 234, 0]
    assert do("accept", message(1))
    assert not do("accept", message(1), name="shipping")


def connect(database: Database) -> Any:
    return psycopg.connect(database.url) if database.dialect == "postgresql" else pymysql.connect(**database.given())


@pytest.mark.parametrize("fixture", ["postgres_outbox", "maria_outbox"])
@pytest.mark.parametrize("way", ["accept", "accept_many"])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_who_comes_second_waits_for_the_end_of_the_first(
    request: pytest.FixtureRequest, fixture: str, way: str, end: str
) -> None:
    database: Database = request.getfixturevalue(fixture)
    inbox = Inbox("billing")
    given: Any = message(1) if way == "accept" else [message(1), message(2)]
    with closing(connect(database)) as first, closing(connect(database)) as second, ThreadPoolExecutor(1) as threads:
        inbox.create(first)
        first.commit()
        assert getattr(inbox, way)(first, given)
        waiting = threads.submit(getattr(inbox, way), second, given)
        wait_for(lambda: database.execute(WAITING[database.dialect])[0][0] == 1, "the second waits")
        assert not waiting.done()
        getattr(first, end)()
        assert bool(waiting.result(30)) is (end == "rollback")
        second.commit()


def test_many_at_once_accept_each_message_once(postgres_outbox: Database) -> None:
    inbox = AsyncInbox("billing")

    async def handler() -> int:
        async with await psycopg.AsyncConnection.connect(postgres_outbox.url) as connection:
            accepted = 0
            for offset in range(50):
                accepted += await inbox.accept(connection, message(offset))
                await connection.commit()
            return accepted

    async def all_of_them() -> list[int]:
        return await asyncio.gather(*(handler() for _ in range(5)))

    with psycopg.connect(postgres_outbox.url) as connection:
        Inbox("billing").create(connection)
    assert sum(asyncio.run(all_of_them())) == 50
