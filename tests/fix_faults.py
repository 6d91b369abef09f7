"""Faults that tests inflict on what the relay in this process stands on."""

import os
import signal
import time
from collections.abc import Callable

from windrow.embedded.guard import signal_all
from windrow.lab.child import python_workers


def kill_python_workers() -> None:
    """Kill the Python workers of the Spark in this process."""
    signal_all(python_workers(os.getpid()), signal.SIGKILL)


def kill_python_workers_while(condition: Callable[[], bool]) -> bool:
    """Stop the Python workers for a look; kill them if the condition holds then. Returns whether it did."""
    workers = python_workers(os.getpid())
    signal_all(workers, signal.SIGSTOP)
    time.sleep(0.1)  # for the broker and the database to end what was asked of them
    held = condition()
    signal_all(workers, signal.SIGKILL if held else signal.SIGCONT)
    return held
