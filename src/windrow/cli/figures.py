"""Figures that change while a command runs: a live table on a terminal, elsewhere a line now and then."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

_LINE_EVERY: Final = 5.0


@contextmanager
def live_figures(talk: Console) -> Iterator[Callable[[str, Mapping[str, str]], None]]:
    """A function that shows a title and figures, in place of those before."""
    if talk.is_terminal:
        with Live(console=talk, auto_refresh=False) as live:
            yield lambda title, figures: live.update(row_of(title, figures), refresh=True)
        return
    next_line = time.monotonic()

    def show(_title: str, figures: Mapping[str, str]) -> None:
        nonlocal next_line
        if time.monotonic() >= next_line:
            next_line = time.monotonic() + _LINE_EVERY
            talk.print(", ".join(f"{name} {figure}" for name, figure in figures.items()), soft_wrap=True)

    yield show


def row_of(title: str, figures: Mapping[str, str]) -> Table:
    """A table of one row."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row(*figures.values())
    return table
