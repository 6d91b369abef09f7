"""Workers are killed while the number of shards changes under load: nothing lost, doubled or reordered."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from fix_command import relay_config, windrow_apart, windrow_running
from fix_faults import kill_python_workers
from fix_load import Load
from fix_pipeline import Pipeline, wait_for
from windrow.kafka.clients import widen_position_topic
from windrow.relay.registry import Registry

pytestmark = [pytest.mark.faults, pytest.mark.timeout(480)]


def test_killed_in_the_middle_of_a_change(make_pipeline: Callable[..., Pipeline], tmp_path: Path) -> None:
    pipeline = make_pipeline(shards=1, limits={"pageRecords": 200, "ioErrorBackoff": "10ms"})
    config = relay_config(tmp_path, pipeline.settings, shards=1)
    registry, load, talk = Registry(pipeline.settings), Load(pipeline), tmp_path / "talk"
    with ExitStack() as writing:
        writing.enter_context(load.running())
        wait_for(lambda: load.committed >= 300, "something to drain")
        widen_position_topic(pipeline.settings, 3)
        registry.want_shards(3)
        with pipeline.relay() as relay:
            pipeline.wait_published(relay, 100)
            kill_python_workers()
            wait_for(lambda: registry.shards() == 3, "three shards")
            pipeline.wait_published(relay, pipeline.published() + 100)
            epochs = relay.epochs
            with windrow_running("reshard", "2", "--config", config, mark=uuid4().hex, talk=talk) as process:
                wait_for(lambda: relay.epochs > epochs, "the leader to drain")
                kill_python_workers()
                assert process.wait(150) == 0, talk.read_text()
            already = windrow_apart("reshard", "2", "--config", config)
            writing.close()
            pipeline.wait_published(relay, load.committed * 5)
    assert "has 2 shards instead of 3" in talk.read_text()
    assert "the settings say shards: 1; say 2 there, or leave it out" in talk.read_text()
    assert (already.returncode, already.stdout, registry.shards()) == (0, "", 2)
    load.judge()
