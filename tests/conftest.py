"""The servers that the tests run on, started once, and a pipeline of its own for each test."""

import os
import sys
from pathlib import Path

import pytest

# Brokers and Sparks that live for seconds: their Java is to start quickly, not to run fast for long.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
_ARCHIVE = Path(sys.prefix, "spark.jsa")
if _ARCHIVE.exists():
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-XX:SharedArchiveFile={_ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off")

LONG = 400
"""Seconds."""

pytest_plugins = [
    "fix_servers",
    "fix_mariadb",
    "fix_pipeline",
    "fix_habits",
    "fix_consumer",
    "fix_queue",
    "fix_tracing",
    "fix_browser",
]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those that may take long come first: at the end, no process waits for another's long one. Half of the processes
    share them, since they work hard as well, and all at once would keep each other from their work.

    To begin with, a process is given one stretch of the list, all of about the same length.
    """
    processes = getattr(config, "workerinput", {}).get("workercount", 1)
    sharing = (processes + 1) // 2
    long = _inseparable(sorted(filter(_patience, items), key=_patience, reverse=True))
    others = [each for each in items if not _patience(each)]
    left = len(items)
    items.clear()
    for number in range(processes):
        length = left // (processes - number)
        share = [each for group in long[number::sharing] for each in group] if number < sharing else []
        many = max(0, length - len(share))
        items += [*share, *others[:many]]
        others = others[many:]
        left -= length
    items += others


def _patience(item: pytest.Item) -> int:
    """The seconds that a test asks for, where that is more than usual."""
    marker = item.get_closest_marker("timeout")
    return marker.args[0] if marker and marker.args[0] >= LONG else 0


def _inseparable(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """Tests one by one, but together those that share what is made for their module."""
    groups: dict[object, list[pytest.Item]] = {}
    for each in items:
        made = each._fixtureinfo.name2fixturedefs.values() if isinstance(each, pytest.Function) else ()
        shares = any(fixture.scope == "module" for fixtures in made for fixture in fixtures)
        groups.setdefault(each.path if shares else each.nodeid, []).append(each)
    return list(groups.values())
