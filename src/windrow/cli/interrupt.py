"""Ctrl-C and SIGTERM: the first ends in order and says so, the second ends at once.

A command that works in steps asks for an event, looks at it between two steps and ends by itself. Any other is unwound
from the inside out, so that whatever it has opened is closed.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import click

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Signalled(KeyboardInterrupt):
    """A signal unwinds the command."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.status = 128 + number


def interruption_of(error: BaseException | None) -> Signalled | None:
    """The signal that an error came of, be it that something failed while it was closed."""
    while error is not None:
        if isinstance(error, Signalled):
            return error
        error = error.__cause__ or error.__context__
    return None


@contextmanager
def unwound_by_signal() -> Iterator[None]:
    """Unwind what is inside at the first signal, unless it asks for an event."""
    before = {each: signal.getsignal(each) for each in _SIGNALS}
    told = False

    def unwind(number: int, _frame: FrameType | None) -> None:
        nonlocal told
        if not told:
            told = True
            _say(number, "stopping")
        raise Signalled(number)

    try:
        for each in _SIGNALS:
            signal.signal(each, unwind)
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def end_by_signal(what_happens: str) -> threading.Event:
    """An event that the first signal sets. To be called after Spark is up, which takes SIGINT for itself."""
    wanted = threading.Event()

    def end(number: int, _frame: FrameType | None) -> None:
        if wanted.is_set():
            raise Signalled(number)
        wanted.set()
        _say(number, what_happens)

    for each in _SIGNALS:
        signal.signal(each, end)
    return wanted


def _say(number: int, what_happens: str) -> None:
    click.echo(f"{signal.Signals(number).name}: {what_happens}; once more ends at once", err=True)
