"""What the outbox's writers send to the database; share the statement, not the await."""

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from importlib.metadata import requires
from typing import Any

import pytest

from windrow import Message, Outbox
from windrow.errors import ConnectionUnknown, MessageInvalid, SettingsInvalid
from windrow.outbox.statement import batches

COLUMNS = '("topic", "key", "value", "header_keys", "header_values", "partition", "timestamp")'
PLACES = "(%s, %s, %s, %s, %s, %s, %s)"
AT = datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=1)))
HEADERS = [("trace", "1"), ("none", None), ("trace", b"\xff")]
MESSAGE = Message("orders", value="v", key="k", headers=HEADERS, partition=3, timestamp=AT)


def test_a_message_is_a_statement_and_its_parameters() -> None:
    statement, parameters = Outbox().statement(MESSAGE)
    assert statement == f'INSERT INTO "outbox" {COLUMNS} VALUES {PLACES} RETURNING id'
    assert parameters == ("orders", b"k", b"v", ["trace", "none", "trace"], [b"1", None, b"\xff"], 3, AT)


def test_without_arrays_headers_are_json_and_times_are_utc() -> None:
    statement, parameters = Outbox("shop.outbox").statement(MESSAGE, "mysql")
    assert statement == f"INSERT INTO `shop`.`outbox` {COLUMNS} VALUES {PLACES}".replace('"', "`")
    names, contents = '["trace", "none", "trace"]', '["1", null, {"base64": "/w=="}]'
    assert parameters == ("orders", b"k", b"v", names, contents, 3, datetime(2026, 1, 2, 2))  # noqa: DTZ001 - as stored


def test_several_messages_are_one_statement_whose_places_may_be_numbered() -> None:
    statement, parameters = Outbox().statement([Message("a"), Message("b")], style="$1")
    rows = "($1, $2, $3, $4, $5, $6, $7), ($8, $9, $10, $11, $12, $13, $14)"
    assert statement == f'INSERT INTO "outbox" {COLUMNS} VALUES {rows} RETURNING id'
    assert parameters == ("a", None, None, [], [], None, None, "b", None, None, [], [], None, None)


def test_the_table_and_its_schema_are_quoted() -> None:
    assert Outbox('billing.out"box').statement(MESSAGE)[0].startswith('INSERT INTO "billing"."out""box" (')
    assert Outbox("billing.out`box").statement(MESSAGE, "mysql")[0].startswith("INSERT INTO `billing`.`out``box` (")
    assert Outbox("billing.outbox").copy == f'COPY "billing"."outbox" {COLUMNS} FROM STDIN (FORMAT BINARY)'


def test_a_value_over_the_limit_is_refused_and_its_field_named() -> None:
    Outbox().statement(Message("orders", b"x" * 1_000_000))
    with pytest.raises(MessageInvalid, match=r"^value: 1,000,001 bytes are more than max_value_bytes, 1,000,000;"):
        Outbox().statement(Message("orders", b"x" * 1_000_001))
    with pytest.raises(MessageInvalid, match=r"^value"):
        Outbox(max_value_bytes=3).statement([Message("orders"), Message("orders", "four")])
    with pytest.raises(SettingsInvalid, match=r"^max_value_bytes"):
        Outbox(max_value_bytes=0)


def test_what_is_no_message_is_refused() -> None:
    message: Any = {"topic": "orders"}
    with pytest.raises(MessageInvalid, match=r"^message: give a Message, not str"):
        Outbox().statement(message)


def test_what_is_no_connection_is_refused() -> None:
    with pytest.raises(
        ConnectionUnknown, match=r"^no way is known to write on a builtins\.object; give a connection of"
    ):
        Outbox().write(object(), MESSAGE)


def test_a_statement_holds_a_thousand_messages_or_four_megabytes() -> None:
    assert [len(batch) for batch in batches([MESSAGE] * 2_500)] == [1_000, 1_000, 500]
    megabytes = [Message("orders", bytes(size * 1_000_000)) for size in (1, 2, 1, 1, 5, 1)]
    assert [len(batch) for batch in batches(megabytes)] == [3, 1, 1, 1]
    assert list(batches([])) == []


@pytest.mark.parametrize("module", ["windrow", "windrow.outbox", "windrow.inbox"])
def test_the_client_side_loads_no_library_of_others(module: str) -> None:
    program = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(run.stdout)}
    others = {
        "pyspark",
        "confluent_kafka",
        "psycopg",
        "psycopg2",
        "asyncpg",
        "sqlalchemy",
        "django",
        "pymysql",
        "mysql",
    }
    assert loaded & (others | {"asyncmy", "aiomysql", "google", "pydantic", "msgspec", "cloudevents"}) == set()


def test_the_client_side_is_installed_without_any_other_package() -> None:
    assert [each for each in requires("windrow") or [] if "extra ==" not in each] == []
