"""`windrow torture` as whoever runs it sees it: a verdict, an exit status, a picture."""

import json
from pathlib import Path

import pytest

from fix_command import windrow_apart
from windrow.lab.report import WRONG

pytestmark = pytest.mark.timeout(240)


def test_a_verdict_and_a_timeline(tmp_path: Path) -> None:
    picture = tmp_path / "timeline.html"
    given = ["--minutes", "0.2", "--seed", "7", "--only", "purge", "--only", "consumer killed"]
    run = windrow_apart("torture", *given, "--json", "--picture", picture, "--folder", tmp_path / "kept")
    assert run.returncode == 0, run.stderr
    verdict = json.loads(run.stdout)
    assert {name: verdict[name] for name in WRONG} == dict.fromkeys(WRONG, 0)
    assert verdict["seed"] == 7
    assert verdict["faults"]
    assert verdict["written"] > 100
    assert verdict["received"] == verdict["written"]
    assert run.stderr.rstrip().endswith("sound")
    assert "<svg" in picture.read_text()
    assert (tmp_path / "kept/judged/received.jsonl").exists()
