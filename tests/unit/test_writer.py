"""What the outbox's writers send to the database; share the statement, not the await."""

from datetime import UTC, datetime

from windrow import Message, Outbox


def test_insert_gives_the_statement_and_its_parameters() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    headers = [("trace", "1"), ("none", None), ("trace", "2")]
    message = Message("orders", value="v", key="k", headers=headers, partition=3, timestamp=at)
    statement, parameters = Outbox().insert(message)
    assert statement == (
        'INSERT INTO "outbox" (topic, key, value, header_keys, header_values, partition, timestamp)'
        " VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING id"
    )
    assert parameters == ("orders", b"k", b"v", ["trace", "none", "trace"], [b"1", None, b"2"], 3, at)


def test_insert_of_a_tombstone_has_nulls_and_no_headers() -> None:
    _, parameters = Outbox().insert(Message("orders"))
    assert parameters == ("orders", None, None, [], [], None, None)


def test_insert_names_the_table_and_its_schema_quoted() -> None:
    statement, _ = Outbox('billing.out"box').insert(Message("orders"))
    assert statement.startswith('INSERT INTO "billing"."out""box" (')
