"""`windrow bench`: the figures are there, and nothing was lost, duplicated or reordered."""

import json
import subprocess
import sys

import numpy as np
import pytest

from windrow.bench.check import Faults, faults

pytestmark = pytest.mark.timeout(400)


def bench(*arguments: str, what: str = "relay") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "windrow", "bench", what, *arguments],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_figures_come_as_one_json_object() -> None:
    run = bench("--quick", "--json", "--only", "throughput_ratio", "insert_ratio")
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    assert {"throughput_ratio", "records_per_s", "insert_ratio", "versions"} <= figures.keys()
    assert (figures["lost"], figures["duplicated"], figures["reordered"]) == (0, 0, 0)
    assert "ceiling" in run.stderr


def test_writers_are_compared_with_the_bare_statements() -> None:
    run = bench("--quick", "--json", what="write")
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    assert figures.keys() == {"write_ratio", "write_many_ratio", "versions"}
    assert figures["write_ratio"] > 0
    assert figures["write_many_ratio"] > 0
    assert "rows/s, bare" in run.stderr


def test_consumers_that_are_killed_double_and_miss_nothing() -> None:
    run = bench("--quick", "--json", what="inbox")
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    assert {"inbox_ratio", "inbox_messages_per_s", "kills", "versions"} <= figures.keys()
    assert (figures["doubled"], figures["missed"]) == (0, 0)
    assert "bare upserts" in run.stderr


def test_queues_lose_and_repeat_nothing_and_leave_no_topic() -> None:
    run = bench("--quick", "--json", what="queue")
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    assert {"per_message_ratio", "share_group_ratio", "redelivery_late_p99_ms", "restart_s"} <= figures.keys()
    assert [figures[key] for key in ("lost", "handled_twice", "wrong_queue", "spurious")] == [0, 0, 0, 0]


def test_an_unknown_figure_is_a_mistake() -> None:
    run = bench("--json", "--only", "speed")
    assert run.returncode == 2
    assert "no such figure: speed" in run.stderr
    assert "throughput_ratio" in run.stderr


def test_the_check_sees_what_is_wrong() -> None:
    sound = np.array([0, 2, 1, 4, 3, 5])
    assert faults(sound, written=6, keys=2) == Faults()
    assert faults(sound[:-1], written=6, keys=2) == Faults(lost=1)
    assert faults(np.append(sound, 0), written=6, keys=2) == Faults(duplicated=1)
    assert faults(np.append(sound, 9), written=6, keys=2) == Faults(duplicated=1)
    assert faults(np.array([0, 4, 1, 2, 3, 5]), written=6, keys=2) == Faults(reordered=1)
