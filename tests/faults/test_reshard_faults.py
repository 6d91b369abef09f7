"""The leader, then a leader's workers are killed while the number of shards changes under load."""

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from fix_command import marked, windrow, windrow_running, write_config
from fix_faults import kill_python_workers
from fix_load import Load
from fix_pipeline import Pipeline, wait_for
from windrow.relay.registry import Registry

pytestmark = [pytest.mark.faults, pytest.mark.timeout(480)]


def test_killed_in_the_middle_of_a_change(
    make_pipeline: Callable[..., Pipeline], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = {"pageRecords": 100, "ioErrorBackoff": "10ms"}
    pipeline = make_pipeline(limits=limits, shards=1)
    config = write_config(
        tmp_path,
        name=pipeline.settings.name,
        outboxTable=pipeline.settings.outbox_table,
        dataSource=pipeline.settings.data_source,
        baseKafkaConfig=dict(pipeline.settings.base_kafka_config),
        shards=1,
        limits=limits,
    )
    registry, load, mark, talk = Registry(pipeline.settings), Load(pipeline), uuid4().hex, tmp_path / "talk"
    with ExitStack() as writing:
        writing.enter_context(load.running())
        wait_for(lambda: load.committed >= 300, "a backlog")
        with windrow_running("reshard", "3", "--config", config, mark=mark, talk=talk):
            pipeline.wait_published(None, 100, seconds=120)
            for process in marked(mark):
                os.kill(process, signal.SIGKILL)
        assert registry.shards() == 1
        assert "messages wait" in talk.read_text()
        with pipeline.relay() as relay:
            wait_for(lambda: registry.shards() == 3, "the next leader to change the number", seconds=120)
            before = pipeline.published()
            with windrow_running("reshard", "2", "--config", config, mark=mark, talk=talk) as process:
                wait_for(lambda: "draining 3 shards" in caplog.text, "the leader to drain")
                kill_python_workers()
                assert process.wait(120) == 0, talk.read_text()
            pipeline.wait_published(relay, before + 500)
            already = windrow("reshard", "2", "--config", config)
            writing.close()
            pipeline.wait_published(relay, load.committed * 5)
    said = talk.read_text()
    assert "has 2 shards instead of 3" in said
    assert "the settings say shards: 1; say 2 there, or leave it out" in said
    assert (already.returncode, registry.shards()) == (0, 2)
    load.judge()
