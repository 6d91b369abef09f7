"""Ctrl-C and SIGTERM: the first asks to end in order, the second ends at once."""

import signal
import threading
from types import FrameType

import click


def end_by_signal(what_happens: str) -> threading.Event:
    """An event that the first signal sets. To be called after Spark is up, which takes SIGINT for itself."""
    wanted = threading.Event()

    def end(number: int, _frame: FrameType | None) -> None:
        if wanted.is_set():
            raise KeyboardInterrupt
        wanted.set()
        click.echo(f"{signal.Signals(number).name}: {what_happens}; once more ends at once", err=True)

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, end)
    return wanted
