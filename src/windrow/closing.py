"""Leaving nothing open where opening something fails half-way."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Closable(Protocol):
    """What holds connections."""

    def close(self) -> None: ...


@contextmanager
def closed_on_error(*opened: Closable) -> Iterator[None]:
    """Close what was opened where something goes wrong meanwhile."""
    try:
        yield
    except BaseException:
        for each in opened:
            each.close()
        raise
