"""Messages are written in the service's own transaction, byte for byte, whatever its habit is."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import asyncpg
import psycopg
import pytest
from google.type.money_pb2 import Money
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from fix_habits import Database, Service, written
from windrow import AsyncOutbox, Message, Outbox
from windrow.drivers import COPY_FROM
from windrow.errors import ConnectionUnknown, MessageInvalid
from windrow.outbox import AsyncProtobufOutbox, ProtobufOutbox, protobuf_message

pytestmark = pytest.mark.timeout(180)

HEADERS: list[tuple[str, bytes | str | None]] = [
    ("b", b"\x00\xff\\'\""),
    ("a", "ключ 鍵 🔑"),
    ("b", b""),
    ("c", None),
    ("naïve 名 'quoted' %s {}", "\\ \" ' %s \0 \x1a \n\t,{}NULL"),
]
AT = datetime(2026, 3, 4, 5, 6, 7, 891_234, tzinfo=timezone(timedelta(hours=-5)))
CONTENTS = [
    Message("orders"),
    Message("orders", value=b"", key=b""),
    Message("orders", value=bytes(range(256)), key=bytes(range(255, -1, -1)), headers=HEADERS),
    Message("orders", value="значение 值 🌾 \\N \t %s ' \" `", key="ключ 鍵 🔑", headers=HEADERS[::-1]),
    Message("orders", headers={"only": None}, value_type="shop.v1.Größe"),
    Message("a.b_c-9", value="\\.", partition=2**31 - 1, timestamp=AT),
    Message("x" * 249, key="\\\\x00", partition=0, timestamp=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    Message("orders", timestamp=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
]


def as_row(message: Message) -> tuple[Any, ...]:
    names, contents = [name for name, _ in message.headers], [content for _, content in message.headers]
    timestamp = message.timestamp and message.timestamp.astimezone(UTC)
    return (message.topic, message.key, message.value, names, contents, message.partition, timestamp)


@pytest.mark.parametrize("message", CONTENTS, ids=range(len(CONTENTS)))
def test_a_message_stands_in_the_outbox_as_it_was_given(postgres_outbox: Database, message: Message) -> None:
    with psycopg.connect(postgres_outbox.url) as connection:
        Outbox().write(connection, message)
    assert written(postgres_outbox.rows()) == [as_row(message)]


def test_every_habit_writes_the_same_and_returns_the_ids(service: Service) -> None:
    ids = [service.place(lambda outbox, connection, each=each: outbox.write(connection, each)) for each in CONTENTS]
    rows = service.database.rows()
    assert ids == [row[0] for row in rows]
    assert written(rows) == [as_row(message) for message in CONTENTS]


@pytest.mark.parametrize("times", [1, COPY_FROM], ids=["few", "many"])
def test_many_are_written_as_one_by_one_and_in_their_order(service: Service, times: int) -> None:
    messages = [Message("orders", str(number)) for number in range(COPY_FROM)] + CONTENTS * times
    given = messages[-COPY_FROM + 1 :] if times == 1 else messages
    assert service.place(lambda outbox, connection: outbox.write_many(connection, iter(given))) == len(given)
    assert written(service.database.rows()) == [as_row(message) for message in given]


def test_thousands_keep_their_order(service: Service) -> None:
    messages = [Message("orders", str(number), headers={"number": str(number)}) for number in range(2_345)]
    assert service.place(lambda outbox, connection: outbox.write_many(connection, messages)) == 2_345
    assert written(service.database.rows()) == [as_row(message) for message in messages]


def test_what_is_rolled_back_was_never_written(service: Service) -> None:
    few, many = CONTENTS[:2], CONTENTS * 10
    service.place_and_undo(lambda outbox, connection: outbox.write(connection, CONTENTS[0]))
    service.place_and_undo(lambda outbox, connection: outbox.write_many(connection, few))
    service.place_and_undo(lambda outbox, connection: outbox.write_many(connection, many))
    assert (service.database.rows(), service.database.orders()) == ([], 0)
    service.place(lambda outbox, connection: outbox.write(connection, CONTENTS[0]))
    assert (len(service.database.rows()), service.database.orders() > 0) == (1, True)


def test_no_messages_are_none(service: Service) -> None:
    assert service.place(lambda outbox, connection: outbox.write_many(connection, [])) == 0
    assert service.database.rows() == []


def test_one_bad_message_keeps_all_out_and_the_transaction_goes_on(service: Service) -> None:
    messages = [*CONTENTS * 10, Message("orders", bytes(1_000_001))]

    def attempt(outbox: Any, connection: Any) -> Any:
        if isinstance(outbox, Outbox):
            with pytest.raises(MessageInvalid, match=r"^value"):
                outbox.write_many(connection, messages)
            return outbox.write(connection, CONTENTS[0])
        return attempt_later(outbox, connection)

    async def attempt_later(outbox: AsyncOutbox, connection: Any) -> int:
        with pytest.raises(MessageInvalid, match=r"^value"):
            await outbox.write_many(connection, messages)
        return await outbox.write(connection, CONTENTS[0])

    service.place(attempt)
    assert written(service.database.rows()) == [as_row(CONTENTS[0])]


def test_a_writer_needs_no_more_rights_than_to_insert(postgres_outbox: Database) -> None:
    user = f"{postgres_outbox.name}_writer"
    postgres_outbox.execute(f"CREATE ROLE {user} LOGIN")
    try:
        postgres_outbox.execute(f"GRANT INSERT, SELECT (id) ON outbox TO {user}")
        url = postgres_outbox.url.replace("postgres@", f"{user}@")
        with psycopg.connect(url) as connection:
            Outbox().write(connection, CONTENTS[0])
            Outbox().write_many(connection, CONTENTS * 10)

        async def with_asyncpg() -> None:
            other = await asyncpg.connect(url)
            await AsyncOutbox().write(other, CONTENTS[0])
            await AsyncOutbox().write_many(other, CONTENTS * 10)
            await other.close()

        asyncio.run(with_asyncpg())
    finally:
        postgres_outbox.execute(f"DROP OWNED BY {user}")
        postgres_outbox.execute(f"DROP ROLE {user}")
    assert len(postgres_outbox.rows()) == 2 + 2 * 10 * len(CONTENTS)


def test_a_schema_is_written_to_by_every_way(postgres_outbox: Database) -> None:
    postgres_outbox.execute('CREATE SCHEMA "Shop"')
    postgres_outbox.execute('ALTER TABLE outbox SET SCHEMA "Shop"')

    async def with_asyncpg() -> None:
        connection = await asyncpg.connect(postgres_outbox.url)
        await AsyncOutbox("Shop.outbox").write(connection, CONTENTS[0])
        await AsyncOutbox("Shop.outbox").write_many(connection, CONTENTS * 10)
        await connection.close()

    with psycopg.connect(postgres_outbox.url) as connection:
        Outbox("Shop.outbox").write(connection, CONTENTS[0])
        Outbox("Shop.outbox").write_many(connection, CONTENTS * 10)
    asyncio.run(with_asyncpg())
    count = postgres_outbox.execute('SELECT count(*) FROM "Shop".outbox')[0][0]
    assert count == 2 + 2 * 10 * len(CONTENTS)


class Base(DeclarativeBase):
    pass


class Order(Base):
    """A row of the orders, as an object."""

    __tablename__ = "orders"
    number: Mapped[int] = mapped_column(primary_key=True)


def test_what_a_session_holds_back_is_flushed_before_the_message(postgres_outbox: Database) -> None:
    engine = create_engine(postgres_outbox.sqlalchemy("psycopg"))
    with Session(engine) as session, session.begin():
        session.add(Order(number=7))
        Outbox().write(session, CONTENTS[0])
        assert not session.new
    with Session(engine) as session, session.begin(), session.no_autoflush:
        session.add(Order(number=8))
        Outbox().write(session, CONTENTS[0])
        assert session.new
    engine.dispose()
    assert (postgres_outbox.orders(), len(postgres_outbox.rows())) == (2, 2)


def test_connections_to_other_databases_and_of_the_other_kind_are_refused(postgres_outbox: Database) -> None:
    with create_engine("sqlite://").connect() as lite, pytest.raises(ConnectionUnknown, match="no outbox on sqlite"):
        Outbox().write(lite, CONTENTS[0])

    async def mistaken() -> None:
        async with await psycopg.AsyncConnection.connect(postgres_outbox.url) as connection:
            with pytest.raises(ConnectionUnknown, match=r"psycopg\.AsyncConnection.* to AsyncOutbox"):
                Outbox().write(connection, CONTENTS[0])
        refused = pytest.raises(ConnectionUnknown, match=r"psycopg\.Connection.* to Outbox")
        with psycopg.connect(postgres_outbox.url) as other, refused:
            await AsyncOutbox().write(other, CONTENTS[0])

    asyncio.run(mistaken())


def test_protobuf_messages_are_written_with_the_name_of_their_type(postgres_outbox: Database) -> None:
    async def later() -> int:
        async with await psycopg.AsyncConnection.connect(postgres_outbox.url) as connection:
            return await AsyncProtobufOutbox().write(connection, "payments", Money(units=8), key="k")

    with psycopg.connect(postgres_outbox.url) as connection:
        assert ProtobufOutbox().write(connection, "payments", Money(units=7), key="k") == 1
    assert asyncio.run(later()) == 2
    expected = [protobuf_message("payments", Money(units=units), key="k") for units in (7, 8)]
    assert written(postgres_outbox.rows()) == [as_row(message) for message in expected]
