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
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that may take long come first: at the end, no process waits for another's long one."""
    items.sort(key=_patience, reverse=True)


def _patience(item: pytest.Item) -> int:
    """The seconds that a test asks for, where that is more than usual."""
    marker = item.get_closest_marker("timeout")
    return marker.args[0] if marker and marker.args[0] >= LONG else 0
