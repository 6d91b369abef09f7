"""How far something long has come, on stderr: a bar on a terminal, a few plain lines elsewhere."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar


class Progress:
    """`with Progress("fetching X", total) as p: p.update(done)`; `finish` says that it went well."""

    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._shown = -1
        self._began = time.monotonic()
        self._bar = _bar() if sys.stderr.isatty() else None

    def __enter__(self) -> Self:
        if self._bar is None:
            self._say("...")
        else:
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=self._total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int) -> None:
        # The total is an estimate: only `finish` may claim the whole.
        done = min(done, self._total * 99 // 100)
        if self._bar is not None:
            self._bar.update(self._task, completed=done)
            return
        quarter = done * 4 // self._total
        if quarter > max(self._shown, 0):
            self._shown = quarter
            self._say(f": {quarter * 25} %")

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=self._total)
        else:
            self._say(f": done in {time.monotonic() - self._began:.0f} s")

    def _say(self, what: str) -> None:
        say(f"{self._title}{what}")


def say(line: str) -> None:
    """A line for the human at the other end."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _bar() -> Bar:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return Bar(*columns, console=Console(stderr=True))
