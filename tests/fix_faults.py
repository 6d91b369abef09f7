"""Faults that tests inflict on what the relay stands on."""

from collections.abc import Iterator
from contextlib import suppress

import psutil


def python_workers(root: psutil.Process) -> Iterator[psutil.Process]:
    """The Python workers of a Spark below a process; they are children of a daemon."""
    for process in root.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # gone by itself since it was listed
            parent = process.parent()
            if parent and "pyspark.daemon" in " ".join(parent.cmdline()):
                yield process


def kill_python_workers() -> None:
    """Kill the Python workers of the Spark in this process."""
    for process in python_workers(psutil.Process()):
        with suppress(psutil.NoSuchProcess):
            process.kill()
