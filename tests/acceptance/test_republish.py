"""`windrow republish`: what was published and is still kept comes again, once, in its order, after the rest."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from fix_command import relay_config, windrow
from fix_pipeline import Pipeline, wait_for
from windrow.cli.republish import _ids, _moment, republish
from windrow.relay.republish import Selection, find
from windrow.relay.republish import republish as write_anew

CONTEXT = click.Context(republish)
OPTION = republish.params[0]


def test_published_messages_come_again_after_the_others(make_pipeline: Callable[..., Pipeline], tmp_path: Path) -> None:
    pipeline = make_pipeline(partitions=1, shards=1, purge={"interval": "50ms", "retention": "1h"})
    settings, headers = pipeline.settings, {"a": "1"}
    config = relay_config(tmp_path, settings)

    def command(*arguments: str) -> Any:
        run = windrow("republish", "--config", config, "--topic", pipeline.topic, "--json", *arguments)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    with pipeline.relay() as relay:
        pipeline.write(*(pipeline.message(f"{number}", f"{number % 2}", headers=headers) for number in range(6)))
        pipeline.wait_published(relay, 6)
        wait_for(lambda: find(settings, Selection(((1, 100),))).messages == 6, "the positions to be saved")
        only_seen = command("--id", "2-4,6")
        assert (only_seen["messages"], only_seen["republished"]) == (4, 0)
        assert (only_seen["topics"][0]["first_id"], only_seen["topics"][0]["last_id"]) == (2, 6)
        assert command("--id", "2-4,6", "--key", "1", "--yes")["republished"] == 3
        pipeline.wait_published(relay, 9)
    assert pipeline.values() == [*(f"{number}".encode() for number in range(6)), b"1", b"3", b"5"]
    again = pipeline.received()[-1]
    assert dict(again.headers() or [])["a"] == b"1"
    assert dict(again.headers() or [])["x-sequence"] == b"9"


def test_messages_that_wait_and_those_outside_the_times_are_left_alone(pipeline: Pipeline) -> None:
    pipeline.write(pipeline.message("waits"))
    assert find(pipeline.settings, Selection(((1, 9),))).topics == []
    with pipeline.connect() as connection:
        connection.execute(
            f"INSERT INTO {pipeline.settings.name}_position (relay, shard, published, position)"
            """ SELECT name, 0, 1, '{"v":1,"db":"' || system_identifier || '","lo":"'"""
            """ || pg_snapshot_xmin(pg_current_snapshot()) || ':0:"}'"""
            f" FROM {pipeline.settings.name}_relay, pg_control_system()"
        )
    now = datetime.now(UTC)
    assert find(pipeline.settings, Selection(since=now)).messages == 0
    assert find(pipeline.settings, Selection(until=now - timedelta(hours=1))).messages == 0
    found = find(pipeline.settings, Selection(since=now - timedelta(hours=1), topics=(pipeline.topic,)))
    assert [each.messages for each in write_anew(pipeline.settings, found)] == [1]
    assert find(pipeline.settings, found.selection).messages == 1


def test_ids_are_numbers_and_ranges() -> None:
    assert _ids(CONTEXT, OPTION, ("4711", "1-3, 9", "5-")) == ((4711, 4711), (1, 3), (9, 9), (5, 2**63 - 1))
    assert _ids(CONTEXT, OPTION, ()) == ()
    for wrong in ("x", "-5", "1-2-3", ""):
        with pytest.raises(click.BadParameter, match="ranges of ids"):
            _ids(CONTEXT, OPTION, (wrong,))


def test_times_are_dates_or_ago() -> None:
    assert _moment(CONTEXT, OPTION, "2026-03-01T12:00+00:00") == datetime(2026, 3, 1, 12, tzinfo=UTC)
    ago = _moment(CONTEXT, OPTION, "2h")
    assert ago is not None
    assert timedelta(hours=2) <= datetime.now(UTC) - ago < timedelta(hours=2, minutes=5)
    with pytest.raises(click.BadParameter, match="how long ago"):
        _moment(CONTEXT, OPTION, "yesterday")


def test_a_selection_is_needed() -> None:
    run = windrow("republish", "--data-source", "postgresql://", "--bootstrap-servers", "-")
    assert run.returncode == 2
    assert "say which messages" in run.stderr
