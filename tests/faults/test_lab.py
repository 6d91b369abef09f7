"""Every fault of the lab once, in a small dose, with writers at work; then the verdict on what came out."""

from dataclasses import replace
from pathlib import Path

import pytest

from windrow.lab.clock import library
from windrow.lab.ground import TOPIC, open_ground
from windrow.lab.load import Load
from windrow.lab.nemesis import Step, detection, faults
from windrow.lab.report import verdict_on
from windrow.lab.torture import torture

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_200)]

HOLD = 0.5
LEASES = 4.0
"""Seconds in which a worker's leases run out."""


def test_every_fault_once(tmp_path: Path) -> None:
    load = Load(TOPIC, seed=1, writers=4, rate=20.0)
    with open_ground(tmp_path, load, print, limits={"sessionTimeout": "3s"}) as ground:
        known = faults(detection(ground.settings), clocks=library() is not None)
        steps = [Step(0.0, HOLD, (name,)) for name in known]
        run = torture(ground, steps, known, 1_000, print)
    verdict = verdict_on(run, TOPIC)
    assert not replace(verdict, unrecovered=0).wrong
    assert verdict.faults == dict.fromkeys(known, 1)
    assert [each.name for each in run.incidents if each.undone] == []
    assert verdict.recoveries.keys() == known.keys()  # how soon, the torture says; here a busy machine decides
    assert verdict.written > 500


def test_one_of_three_brokers_is_lost_and_comes_back(tmp_path: Path) -> None:
    load = Load(TOPIC, seed=2, writers=4, rate=20.0)
    with open_ground(tmp_path, load, print, brokers=3, limits={"sessionTimeout": "3s"}) as ground:
        known = faults(detection(ground.settings), brokers=3)
        steps = [Step(0.0, HOLD, (name,)) for name in ("one broker killed", "one broker paused")]
        run = torture(ground, steps, known, 1_000, print)
    verdict = verdict_on(run, TOPIC)
    assert not replace(verdict, unrecovered=0).wrong
    assert verdict.recoveries.keys() == {"one broker killed", "one broker paused"}


def test_queue_that_is_fed_by_the_outbox_has_every_message_taken_once(tmp_path: Path) -> None:
    load = Load(TOPIC, seed=3, writers=4, rate=20.0, queues=True)
    with open_ground(tmp_path, load, print, limits={"sessionTimeout": "3s"}) as ground:
        known = faults(detection(ground.settings), queues=True)
        names = ("worker killed", "worker paused", "tracker killed", "broker killed")
        steps = [Step(0.0, LEASES if name == "worker paused" else HOLD, (name,)) for name in names]
        run = torture(ground, steps, known, 1_000, print)
    verdict = verdict_on(run, TOPIC)
    assert not replace(verdict, unrecovered=0).wrong
    assert len({each.message for each in run.handled if each.outcome == "ok"}) > 100
    assert any(each.outcome != "ok" for each in run.handled)
