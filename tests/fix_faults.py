"""Faults that tests inflict on what the relay stands on."""

from contextlib import suppress

import psutil


def kill_python_workers() -> None:
    """Kill the Python workers of the Spark in this process."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # gone by itself since it was listed
            parent = process.parent()
            if parent and "pyspark.daemon" in " ".join(parent.cmdline()):
                process.kill()
