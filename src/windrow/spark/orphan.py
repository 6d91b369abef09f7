"""No JVM stays behind whose start is interrupted.

While PySpark starts its JVM it waits for a file in which the JVM tells its port. An interruption takes that file's
folder away, and the JVM, which fails to write it, neither ends nor looks whether its Python is still there. So it is
ended here. Only where Linux tells a process's children; elsewhere nothing is done.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pyspark import SparkContext

_MARK: Final = b"pyspark-shell"
"""An argument of every JVM that PySpark starts for itself."""


@contextmanager
def no_orphan() -> Iterator[None]:
    """What is inside may start a JVM."""
    before = _started()
    try:
        yield
    except KeyboardInterrupt:
        if SparkContext._gateway is None:  # noqa: SLF001 - with one, the JVM sees that we end
            for process in _started() - before:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGTERM)
        raise


def _started() -> set[int]:
    return {process for process in _children() if _MARK in _arguments(process)}


def _children() -> Iterator[int]:
    for each in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended
            yield from map(int, each.read_text().split())


def _arguments(process: int) -> list[bytes]:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
