"""An outbox of Debezium's event router is taken over as docs/how-to/come-from-debezium.md says."""

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Producer

from fix_pipeline import CAPTURES, Foreign, wait_for
from windrow.database.migrations import migrations
from windrow.kafka.clients import client_config
from windrow.relay.republish import Selection, find, republish
from windrow.relay.setup import prepare, takeover
from windrow.relay.status import status

TABLE = """
CREATE TABLE {{table}} (
  id {number} PRIMARY KEY,
  aggregatetype varchar(255) NOT NULL,
  aggregateid varchar(255) NOT NULL,
  type varchar(255) NOT NULL,
  payload {payload}
)
"""
ON_MARIADB = pytest.mark.parametrize("strategy", [{"database": "mariadb", "capture": "mark"}], ids=["mariadb"])
Make = Callable[..., "Debezium"]


class Debezium(Foreign):
    """A pipeline whose application writes as those do whose table Debezium captures."""

    def save(self, key: str, payload: str | bytes | None, number: UUID | bytes | None = None) -> UUID | bytes:
        number = number or uuid4()
        insert = "INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload) VALUES (%s, %s, %s, 'Made', %s)"
        given = number if isinstance(number, bytes) else str(number)
        self.execute(insert, given, self.topic.removeprefix("outbox.event."), key, payload)
        return number

    def publish_as_theirs(self, key: str, payload: str, number: object) -> None:
        """What the connector does; the row stays where it is."""
        producer = Producer(client_config(self.settings))
        producer.produce(self.topic, payload, key, headers=[("id", str(number).encode())])
        assert producer.flush(30) == 0

    def in_topic(self) -> list[str]:
        """The header `id` of all that is in the topic."""
        return [dict(each.headers() or [])["id"].decode() for each in self.received()]


@pytest.fixture
def make(make_foreign: Callable[..., Debezium], strategy: dict[str, str]) -> Make:
    default = ("char(36)", "json") if strategy.get("database") == "mariadb" else ("uuid", "jsonb")

    def make(payload: str = default[1], number: str = default[0], **settings: object) -> Debezium:
        table = TABLE.format(number=number, payload=payload)
        return make_foreign(Debezium, table, "outbox.event.{name}", **settings)

    return make


@CAPTURES
def test_what_theirs_has_not_published_is_relayed_once(make: Make) -> None:
    pipeline = make(shards=2, limits={"pageRecords": 2}, purge={"interval": "100ms"})
    payloads = {f"{key}": f'{{"number": {key}}}' for key in range(1, 6)}
    numbers = [pipeline.save(key, payload) for key, payload in payloads.items()]
    for (key, payload), number in [*zip(payloads.items(), numbers, strict=True)][:3]:
        pipeline.publish_as_theirs(key, payload, number)
    for published in pipeline.in_topic():
        pipeline.execute("DELETE FROM {table} WHERE id = %s", published)
    plan = str(takeover(pipeline.settings))
    assert "Debezium's layout" in plan
    assert (
        "it gets columns windrow_id and windrow_time (its rows' order and age), for which it is rewritten once" in plan
    )
    prepare(pipeline.settings)
    assert takeover(pipeline.settings) is None
    assert status(pipeline.settings).backlog == 2
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
        numbers.append(pipeline.save("6", None))
        pipeline.wait_published(relay, 3)
        wait_for(lambda: not pipeline.count(), "published rows to be deleted")
    assert sorted(pipeline.in_topic()) == sorted(map(str, numbers))
    received = {each.key(): (each.value(), (each.headers() or [])[0]) for each in pipeline.received()}
    assert received[b"5"] == (b'{"number": 5}', ("id", str(numbers[4]).encode()))
    assert received[b"6"] == (None, ("id", str(numbers[5]).encode()))


def _published(pipeline: Debezium, payload: str | bytes) -> None:
    pipeline.save("key", payload)
    prepare(pipeline.settings)
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
    assert pipeline.values() == [payload if isinstance(payload, bytes) else payload.encode()]


@pytest.mark.parametrize(
    ("kind", "payload"),
    [("json", '{"b":  "ü", "a": 1}'), ("text", "плуг"), ("varchar(100)", ""), ("bytea", b"\x00\xff")],
)
def test_payload_is_published_as_it_is_in_the_table(make: Make, kind: str, payload: str | bytes) -> None:
    _published(make(kind), payload)


@ON_MARIADB
@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("json", '{"a": 1, "b": "ü"}'),
        ("varchar(100) CHARACTER SET latin1", "Größe"),
        ("blob", b"\x00\xff"),
    ],
    ids=["json", "latin1", "blob"],
)
def test_payload_on_mariadb_is_published_as_it_is_text_in_utf8(make: Make, kind: str, payload: str | bytes) -> None:
    _published(make(kind), payload)


def test_rows_are_published_in_the_order_in_which_they_were_written(make: Make) -> None:
    pipeline = make(limits={"pageRecords": 7})
    for number in range(30):
        pipeline.save("key", f"{number}")
    prepare(pipeline.settings)
    for number in range(30, 60):
        pipeline.save("key", f"{number}")
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 60)
    assert pipeline.values() == [f"{number}".encode() for number in range(60)]


@ON_MARIADB
def test_rows_written_since_the_takeover_are_published_in_their_order_behind_the_others(make: Make) -> None:
    """Those before it lie in the table as their primary keys do, which are random."""
    pipeline = make(limits={"pageRecords": 7})
    for number in range(10):
        pipeline.save("key", f"{number}")
    prepare(pipeline.settings)
    for number in range(10, 40):
        pipeline.save("key", f"{number}")
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 40)
    values = [int(value or b"") for value in pipeline.values()]
    assert (sorted(values[:10]), values[10:]) == ([*range(10)], [*range(10, 40)])


@ON_MARIADB
@pytest.mark.parametrize(
    "kind",
    ["char(36)", "varchar(255)", "binary(16)", "/*M! uuid *//*!80000 char(36) */"],
    ids=["char", "varchar", "binary", "uuid"],
)
def test_ids_of_any_type_are_published_as_text_and_letters_get_new_ones(make: Make, kind: str) -> None:
    pipeline = make(number=kind, shards=1)
    prepare(pipeline.settings)
    number = uuid4()
    pipeline.save("key", '{"a": 1}', number.bytes if kind == "binary(16)" else number)
    pipeline.bury(1)
    pipeline.write_back()
    rows = pipeline.execute("SELECT DISTINCT aggregatetype, aggregateid, payload FROM {table}")
    assert rows == [(pipeline.settings.outbox_table, "key", '{"a": 1}')]
    assert pipeline.execute("SELECT count(*), count(DISTINCT id) FROM {table}") == [(2, 2)]
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
    first, second = pipeline.in_topic()
    assert first == str(number)
    assert str(UUID(second)) == second


@ON_MARIADB
def test_takeover_that_was_broken_off_goes_on_where_it_was(make: Make) -> None:
    pipeline = make()
    pipeline.save("key", "{}")
    pipeline.execute("ALTER TABLE {table} ADD COLUMN windrow_id bigint NOT NULL AUTO_INCREMENT UNIQUE")
    assert "it gets columns windrow_time (" in str(takeover(pipeline.settings))
    prepare(pipeline.settings)
    pipeline.execute("DROP TABLE {table}_in_flight")
    pipeline.execute("DELETE FROM {table}_migration")
    assert prepare(pipeline.settings).migrations == migrations("mysql")
    assert (takeover(pipeline.settings), status(pipeline.settings).backlog) == (None, 1)


def test_dead_letters_and_republished_messages_are_written_in_their_columns(make: Make) -> None:
    pipeline = make(purge={"retention": "1h"}, shards=1)
    prepare(pipeline.settings)
    number = pipeline.save("key", '{"a": 1}')
    pipeline.bury(1)
    pipeline.write_back()
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
    found = find(pipeline.settings, Selection())
    assert (found.messages, sum(each.messages for each in republish(pipeline.settings, found))) == (2, 2)
    rows = pipeline.execute("SELECT DISTINCT aggregatetype, aggregateid, payload FROM {table}")
    assert rows == [(pipeline.settings.outbox_table, "key", {"a": 1})]
    assert pipeline.execute("SELECT count(*), count(DISTINCT id) FROM {table}") == [(4, 4)]
    assert str(number) in pipeline.in_topic()
