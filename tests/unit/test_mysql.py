"""Data sources of MySQL and MariaDB: what they say is read, and nothing that is shown of them is a secret."""

import socket
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.database.mysql import _parsed, _sent, connect, where
from windrow.errors import DatabaseUnreachable


@pytest.mark.parametrize(
    ("data_source", "server", "options", "shown"),
    [
        ("mysql://db/shop", ("db", 3306, None, "", "shop"), {}, "db:3306/shop"),
        ("mysql:///shop", ("localhost", 3306, None, "", "shop"), {}, "localhost:3306/shop"),
        ("mariadb://relay:pw@db:3307/shop", ("db", 3307, "relay", "pw", "shop"), {}, "db:3307/shop"),
        (
            "mysql://relay:pw@[2001:db8::1]/shop",
            ("2001:db8::1", 3306, "relay", "pw", "shop"),
            {},
            "[2001:db8::1]:3306/shop",
        ),
        ("mysql://r%40x:p%2F%3A%40%3F%25@db/sh%20op", ("db", 3306, "r@x", "p/:@?%", "sh op"), {}, "db:3306/sh op"),
        ("mysql://relay:p@w@db/shop", ("db", 3306, "relay", "p@w", "shop"), {}, "db:3306/shop"),
        (
            "mysql://relay@/shop?unix_socket=%2Frun%2Fmysqld.sock&connect_timeout=3&ssl_disabled=true",
            ("localhost", 3306, "relay", "", "shop"),
            {"unix_socket": "/run/mysqld.sock", "connect_timeout": 3, "ssl_disabled": True},
            "/run/mysqld.sock/shop",
        ),
    ],
)
def test_a_data_source_is_read_and_shown_without_user_and_password(
    data_source: str, server: tuple[Any, ...], options: dict[str, Any], shown: str
) -> None:
    names = ("host", "port", "user", "password", "database")
    assert _parsed(data_source) == (dict(zip(names, server, strict=True)), options)
    assert where(data_source) == shown


@pytest.mark.parametrize(
    "data_source",
    [
        "mysql://relay:secret@db:port/shop",
        "mysql://relay:sec/ret@db/shop",
        "mysql://relay:12/secret@db/shop",
        "mysql://relay:12?secret@db/shop",
        "mysql://relay:12#secret@db/shop",
        "mysql://relay:secret@[::1/shop",
        "mysql://relay:secret@db/shop?colour=secret",
        "mysql://relay:secret@db/shop?password=secret",
        "mysql://relay:secret@db/shop?connect_timeout=secret",
        "mysql://relay:secret@db/shop?secret",
        "mysql://relay:secret@db",
        "mysql://relay:secret@db/",
    ],
)
def test_one_that_cannot_be_read_is_refused_with_the_remedy_and_without_its_secrets(data_source: str) -> None:
    with pytest.raises(DatabaseUnreachable, match=r"^dataSource .*: give mysql://") as raised:
        _parsed(data_source)
    told = [str(raised.value), repr(raised.value.__cause__), where(data_source)]
    assert not [each for each in told if "secret" in each or "ret@" in each]
    assert where(data_source) == "(unreadable)"


def test_an_option_that_there_is_not_is_answered_with_those_there_are() -> None:
    with pytest.raises(DatabaseUnreachable, match=r"with any of ssl_ca, .*unix_socket, .*connect_timeout"):
        _parsed("mysql://db/shop?charset=latin1")


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_no_password_is_shown_whatever_it_is(password: str) -> None:
    shown = where(f"mysql://relay:{password}@db.example/shop")
    assert shown in {"db.example:3306/shop", "(unreadable)"} or password not in shown


def test_server_that_takes_connections_and_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(DatabaseUnreachable, match=rf"dataSource 127\.0\.0\.1:{port}/shop: .*timed out"):
            connect(f"mysql://relay@127.0.0.1:{port}/shop?connect_timeout=1")


def test_values_travel_in_windrows_types() -> None:
    number = UUID(int=5)
    noon = datetime(2026, 1, 2, 12, tzinfo=timezone(timedelta(hours=2)))
    assert _sent(number) == number.bytes
    assert _sent(timedelta(seconds=1.5)) == 1_500_000
    assert _sent(noon) == datetime(2026, 1, 2, 10)  # noqa: DTZ001 - as the server has it
    assert _sent(noon.astimezone(UTC)) == _sent(noon)
    assert _sent([number, 1]) == (number.bytes, 1)
    assert _sent([]) == (None,), "IN () is no SQL"
    assert [_sent(each) for each in ("a", b"a", 1, None, True)] == ["a", b"a", 1, None, True]
