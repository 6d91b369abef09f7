"""Relays on Spark beyond their own processes: a cluster whose parts die and stand still, and a Connect server."""

import json
import signal
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from fix_cluster import Connect
from fix_command import relay_config, windrow_running
from fix_pipeline import Pipeline
from windrow.lab.ground import TOPIC, open_ground
from windrow.lab.load import Load
from windrow.lab.nemesis import Step, detection, faults
from windrow.lab.report import verdict_on
from windrow.lab.torture import torture

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]

FAULTS = ("executors killed", "Spark worker killed", "executors paused", "leader paused")
STARTED = 240.0
"""Seconds within which several JVMs have come up on a busy machine."""


def test_relays_on_a_cluster_lose_their_executors_and_hosts(tmp_path: Path) -> None:
    load = Load(TOPIC, seed=4, writers=4, rate=20.0)
    with open_ground(tmp_path, load, print, on_cluster=True, limits={"sessionTimeout": "3s"}) as ground:
        known = faults(detection(ground.settings), cluster=True)
        run = torture(ground, [Step(0.0, 0.5, (name,)) for name in FAULTS], known, 1_000, print)
    verdict = verdict_on(run, TOPIC)
    assert not replace(verdict, unrecovered=0).wrong
    assert verdict.recoveries.keys() == {*FAULTS}
    assert verdict.written > 200


def test_relay_over_spark_connect_publishes_and_stops_when_told(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.write(*(pipeline.message(json.dumps(number)) for number in range(100)))
    mark = uuid4().hex
    with Connect() as server:
        config = relay_config(tmp_path, pipeline.settings, spark={"remote": server.url})
        talk = tmp_path / "talk"
        for count in (100, 200):
            with windrow_running("relay", "--config", config, mark=mark, talk=talk) as process:
                pipeline.wait_published(None, count, STARTED)
                pipeline.write(*(pipeline.message(json.dumps(number)) for number in range(count, count + 100)))
                pipeline.wait_published(None, count + 100)
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0, talk.read_text()
            assert "cancelling" not in talk.read_text()
    assert pipeline.values() == [json.dumps(number).encode() for number in range(300)]
