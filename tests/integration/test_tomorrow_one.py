"""A table of tomorrow-one's transactional-outbox is taken over as docs/how-to/come-from-tomorrow-one.md says."""

import dataclasses
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from psycopg.sql import SQL
from psycopg.types.json import Jsonb

from fix_pipeline import Foreign, Pipeline, limit_message_size, wait_for
from windrow.capture.mark import MarkCapture
from windrow.database.connections import settle_plans
from windrow.database.layouts import TOMORROW_ONE
from windrow.database.queries import query
from windrow.database.tables import Tables
from windrow.election.mandate import Term
from windrow.errors import SettingsInvalid
from windrow.kafka.clients import client_config
from windrow.publish.dead_letter import DeadLetters
from windrow.record import Shard
from windrow.relay.purge import Purger
from windrow.relay.registry import Registry
from windrow.relay.setup import prepare, takeover
from windrow.relay.status import status
from windrow.settings import Purge

CLASSIC, REACTIVE = "timestamp", "timestamptz"
TABLES = """
CREATE TABLE {{table}} (
  id bigserial PRIMARY KEY,
  created {time} NOT NULL,
  processed {time},
  topic varchar(128) NOT NULL,
  key varchar(128),
  value bytea NOT NULL,
  headers jsonb
);
CREATE INDEX ON {{table}} (id) WHERE processed IS NULL;
CREATE TABLE {{table}}_lock (id varchar(32) PRIMARY KEY, owner_id varchar(128) NOT NULL, valid_until {time} NOT NULL);
"""


class TomorrowOne(Foreign):
    """A pipeline whose application writes as the users of that library do."""

    def save(self, key: str | None, value: bytes, headers: Jsonb | None = None) -> int:
        row = self.execute(
            "INSERT INTO {table} (created, topic, key, value, headers) VALUES (now(), %s, %s, %s, %s) RETURNING id",
            self.topic,
            key,
            value,
            headers,
        )[0]
        return int(str(row[0]))

    def publish_as_theirs(self, number: int) -> None:
        """What the other library does: send, then note when."""
        ((key, value),) = self.execute("SELECT key, value FROM {table} WHERE id = %s", number)
        producer = Producer(client_config(self.settings))
        producer.produce(self.topic, value, key, headers=[("x-sequence", number.to_bytes(8, "big"))])
        assert producer.flush(30) == 0
        self.execute("UPDATE {table} SET processed = now() WHERE id = %s", number)

    def unprocessed(self) -> list[int]:
        return [int(str(row[0])) for row in self.execute("SELECT id FROM {table} WHERE processed IS NULL ORDER BY id")]


@pytest.fixture
def make(make_foreign: Callable[..., TomorrowOne]) -> Callable[..., TomorrowOne]:
    def make(time: str = CLASSIC, **more: object) -> TomorrowOne:
        return make_foreign(TomorrowOne, TABLES.format(time=time), **{"capture": "mark", "source": "shop", **more})

    return make


@pytest.mark.parametrize("time", [CLASSIC, REACTIVE])
def test_what_theirs_has_not_published_is_relayed_and_all_rows_are_kept(
    make: Callable[..., TomorrowOne], time: str
) -> None:
    pipeline = make(time, shards=2, limits={"pageRecords": 2})
    for number in (pipeline.save("a", b"1"), pipeline.save("b", b"2")):
        pipeline.publish_as_theirs(number)
    pipeline.save("ключ", b"\x00\xff", Jsonb({"b": "значение", "a": "", "n": None}))
    pipeline.save(None, b"", Jsonb({}))
    plan = str(takeover(pipeline.settings))
    assert "tomorrow-one's layout" in plan
    assert "it gets a column mark; an index on processed. Its" in plan
    prepare(pipeline.settings)
    assert takeover(pipeline.settings) is None
    assert status(pipeline.settings).backlog == 2
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
        pipeline.save("later", b"5")
        pipeline.wait_published(relay, 3)
        wait_for(lambda: not pipeline.unprocessed(), "the rows to be noted as published")
    assert status(pipeline.settings).backlog == 0
    assert pipeline.count() == 5, "nothing is deleted without a retention"
    assert pipeline.execute("SELECT count(*) FROM {table} WHERE mark IS NOT NULL") == [(0,)]
    received = {each.key(): (each.value(), each.headers()) for each in pipeline.received()}
    source = ("x-source", b"shop")
    assert len(pipeline.received()) == len(received) == 5
    assert received["ключ".encode()] == (
        b"\x00\xff",
        [("a", b""), ("b", "значение".encode()), ("n", None), ("x-sequence", b"3"), source],
    )
    assert received[None] == (b"", [("x-sequence", b"4"), source])


def test_row_whose_processed_is_cleared_is_published_again(make: Callable[..., TomorrowOne]) -> None:
    pipeline = make()
    numbers = [pipeline.save("key", b"%d" % number) for number in (1, 2, 3)]
    pipeline.publish_as_theirs(numbers[0])
    prepare(pipeline.settings)
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
        wait_for(lambda: not pipeline.unprocessed(), "the rows to be noted as published")
        for published, number in ((3, numbers[0]), (4, numbers[2])):
            pipeline.execute("UPDATE {table} SET processed = NULL WHERE id = %s", number)
            pipeline.wait_published(relay, published)
            wait_for(lambda: not pipeline.unprocessed(), "the row to be noted as published again")
    assert pipeline.values() == [b"1", b"2", b"3", b"1", b"3"]


@pytest.mark.parametrize(("published", "left"), [(0, 8), (1, 5), (2, 2), (3, 0)])
def test_successor_notes_what_is_published_and_takes_all_else(
    make: Callable[..., TomorrowOne], published: int, left: int
) -> None:
    pipeline = make(limits={"pageRecords": 3}, shards=1)
    numbers = [pipeline.save("key", b"") for _ in range(8)]
    prepare(pipeline.settings)

    def capture() -> MarkCapture:
        epoch = uuid4()
        Registry(pipeline.settings).open_epoch(epoch, Term(uuid4(), b""))
        return MarkCapture(pipeline.settings, Shard(0, 1), epoch)

    with closing(capture()) as predecessor, closing(capture()) as successor:
        predecessor.start(None)
        Registry(pipeline.settings).open_epoch(predecessor._epoch, Term(uuid4(), b""))
        positions = [None, *(predecessor.next().position.encode() for _ in range(published))]
        predecessor.next()  # taken, and never published
        Registry(pipeline.settings).open_epoch(successor._epoch, Term(uuid4(), b""))
        successor.start(positions[-1])
        assert pipeline.unprocessed() == numbers[8 - left :]
        again = [record.id for _ in range(3) for record in successor.next().records]
        assert again == numbers[8 - left :]
    assert pipeline.count() == 8


def test_rows_are_deleted_in_chunks_when_their_retention_is_over(make: Callable[..., TomorrowOne]) -> None:
    pipeline = make()
    prepare(pipeline.settings)
    for age in (3, 3, 3, 1, 0):
        number = pipeline.save("key", b"")
        pipeline.execute("UPDATE {table} SET processed = now() - %s * interval '1 hour' WHERE id = %s", age, number)
    pipeline.save("key", b"")

    def purged(retention: timedelta) -> list[int]:
        return list(Purger(dataclasses.replace(pipeline.settings, purge=Purge(retention=retention, chunk=2))).purge())

    assert purged(timedelta()) == []
    assert purged(timedelta(hours=2)) == [2, 1]
    assert purged(timedelta(minutes=30)) == [1]
    assert pipeline.count() == 2
    assert purged(timedelta(microseconds=1)) == [1]
    assert pipeline.unprocessed() == [6], "what is not published stays"


def test_running_relay_deletes_what_is_past_its_retention(make: Callable[..., TomorrowOne]) -> None:
    pipeline = make(purge={"interval": "100ms", "retention": "1ms"})
    pipeline.save("key", b"1")
    prepare(pipeline.settings)
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
        wait_for(lambda: not pipeline.count(), "the row to be deleted")
    assert pipeline.values() == [b"1"]


def test_refused_and_malformed_rows_become_dead_letters_and_stay_so(make: Callable[..., TomorrowOne]) -> None:
    pipeline = make()
    limit_message_size(pipeline, 2000)
    pipeline.save("key", b"good")
    refused = [pipeline.save("key", b"x" * 4000, Jsonb({"a": "b"})), pipeline.save("key", b"", Jsonb(["no", "object"]))]
    pipeline.save("key", b"better", Jsonb(None))
    prepare(pipeline.settings)
    letters = DeadLetters(pipeline.settings)
    for _ in range(2):  # a relay that starts finds them processed, and does not take them for rows still ahead
        with pipeline.relay() as relay:
            pipeline.wait_published(relay, 2)
            wait_for(lambda: not pipeline.unprocessed(), "the rows to be over")
        assert [letter.id for letter in letters.list(10)] == refused
    assert pipeline.values() == [b"good", b"better"]
    assert (letters.retry([refused[0]]), letters.write_back(SQL("true"))) == (1, 1)
    written = pipeline.execute("SELECT key, length(value), headers, processed FROM {table} ORDER BY id DESC LIMIT 1")
    assert written == [("key", 4000, {"a": "b"}, None)]


@pytest.mark.parametrize("analysed", [False, True])
def test_pages_are_found_by_the_index_of_what_waits(make: Callable[..., TomorrowOne], analysed: bool) -> None:  # noqa: FBT001
    pipeline = make()
    prepare(pipeline.settings)
    processed = "INSERT INTO {table} (created, processed, topic, value) SELECT now(), now(), 't', '' FROM"
    pipeline.execute(f"{processed} generate_series(1, 20000)")
    pipeline.save("key", b"")
    if analysed:
        pipeline.execute("ANALYZE {table}")
    free = query("mark", "free").format(ripe=SQL("true"), **TOMORROW_ONE.fragments())
    statement = SQL("EXPLAIN SELECT id FROM {outbox} WHERE {free} ORDER BY id LIMIT 100")
    with pipeline.connect() as connection:
        settle_plans(connection)
        tables = Tables.beside(pipeline.settings.outbox_table)
        plan = connection.execute(tables.fill(statement, free=free), {"held": [uuid4()]}).fetchall()
    assert f"{pipeline.settings.outbox_table}_id_idx" in str(plan)


def test_settings_that_do_not_go_with_the_layout_are_refused_before_anything_changes(
    make: Callable[..., TomorrowOne],
) -> None:
    pipeline = make()
    with pytest.raises(SettingsInvalid, match="processed tells what is published; give mark"):
        prepare(dataclasses.replace(pipeline.settings, capture="snapshot"))
    assert pipeline.execute("SELECT to_regclass(%s)", f"{pipeline.settings.outbox_table}_relay") == [(None,)]


def test_retention_is_refused_where_marked_rows_are_deleted(make_pipeline: Callable[..., Pipeline]) -> None:
    with pytest.raises(SettingsInvalid, match=r"purge\.retention: capture: mark deletes rows once"):
        make_pipeline(capture="mark", purge={"retention": "1h"})
