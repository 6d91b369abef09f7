"""The number of shards changes while messages flow, and nothing else does."""

import json
from collections.abc import Callable

import pytest

from fix_load import Load
from fix_pipeline import CAPTURES, DATABASES, Pipeline, wait_for
from windrow.errors import SettingsInvalid
from windrow.kafka.clients import widen_position_topic
from windrow.publish.dead_letter import DeadLetters
from windrow.relay import Event, LeaderAcquired, LeaderRevoked, MeterRead, Relay
from windrow.relay.registry import Registry
from windrow.relay.status import status
from windrow.relay.watch import Watch


@CAPTURES
def test_shards_change_under_load_in_one_term(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(shards=1, purge={"interval": "50ms"}, limits={"pageRecords": 200})
    registry, load, events = Registry(pipeline.settings), Load(pipeline), list[Event]()
    letters = DeadLetters(pipeline.settings)
    _bury(pipeline, load, 20)
    with Relay(pipeline.settings, pipeline.spark, events.append) as relay:
        with load.running(writers=4):
            for wanted, retried in ((3, list(range(-100, -50))), (2, None)):
                pipeline.wait_published(relay, pipeline.published() + 300)
                widen_position_topic(pipeline.settings, wanted)
                registry.want_shards(wanted)
                assert letters.retry(retried) == 50
                wait_for(lambda wanted=wanted: registry.shards() == wanted, "the change")
            pipeline.wait_published(relay, pipeline.published() + 300)
        pipeline.wait_published(relay, load.committed * 5)
        wait_for(lambda: not letters.list(1), "the letters to go")
        assert [shard.shard for shard in status(pipeline.settings).shards] == [0, 1]
        assert pipeline.published() == load.committed * 5
    assert [type(event) for event in events if not isinstance(event, MeterRead)] == [LeaderAcquired, LeaderRevoked]
    with pipeline.connect() as connection:
        saved = connection.execute(f"SELECT shard FROM {pipeline.settings.outbox_table}_position ORDER BY shard")
        assert [*saved.fetchall()] == [(0,), (1,)]
    load.judge()
    with pytest.raises(SettingsInvalid, match=r'has 2; set 2, leave it out, or run "windrow reshard 1"'):
        Relay(pipeline.settings, pipeline.spark).start()


@DATABASES
def test_position_from_before_the_change_is_not_believed_nor_kept(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(shards=2, purge={"interval": "50ms"})
    registry = Registry(pipeline.settings)
    first = [(f"{number} of 40", f"key {number}") for number in range(40)]
    pipeline.write(*(pipeline.message(*each) for each in first))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 40)
        before = pipeline.committed(1)
        for wanted in (1, 2):
            registry.want_shards(wanted)
            wait_for(lambda wanted=wanted: registry.shards() == wanted, "the change")
    now = pipeline.committed(1)
    assert (before.resharded, now.resharded) == (0, 2)
    assert before.published > now.published == 0
    pipeline.write(*(pipeline.message(f"again {value}", key) for value, key in first))
    pipeline.commit(before, 1)
    with pipeline.relay(), Watch(pipeline.settings) as watch:
        wait_for(lambda: watch.view.figures().counts["interruptions"] > 1, "the relay to doubt it")
        wait_for(lambda: registry.saved()[0].published > 40, "what the other shard has published to be saved")
    assert registry.saved()[1].age == now.age
    pipeline.commit(now, 1)
    with pipeline.relay():
        wait_for(lambda: len(pipeline.values()) >= 80, "the relay to go on")
    assert sorted(pipeline.values()) == sorted(f"{how}{value}".encode() for how in ("", "again ") for value, _ in first)


def _bury(pipeline: Pipeline, load: Load, count: int) -> None:
    """Have dead letters, which are part of the history: as many transactions of five messages."""
    rows = []
    for number in range(count):
        load.note(f"key of {number}", 1, "ok", f"letter {number}")
        rows += [
            (number * 5 + part - count * 5, f"key of {number}", json.dumps([f"letter {number}", part, ""]))
            for part in range(5)
        ]
    none = "[]" if pipeline.settings.dialect == "mysql" else "{}"
    with pipeline.connect() as connection:
        connection.cursor().executemany(
            f"INSERT INTO {pipeline.settings.outbox_table}_dead_letter"
            ' (relay, topic, create_time, header_keys, header_values, reason, id, "key", value)'
            f" VALUES ('{pipeline.settings.name}', '{pipeline.topic}', now(), '{none}', '{none}', 'refused',"
            " %s, %s, %s)",
            rows,
        )
