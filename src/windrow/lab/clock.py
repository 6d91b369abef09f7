"""A time of day that steps, for the processes that are started with it.

The library of libfaketime adds what a file says to the time that they are told. The monotonic clock goes on as it is,
and Spark's Java is spared: it may stop for good with this library.
"""

import importlib.util
from pathlib import Path
from typing import Final

PRELOAD: Final = "LD_PRELOAD"
_LIBRARY: Final = Path("vendor", "libfaketime", "src", "libfaketime.so.1")
_READ_AGAIN: Final = "1"
"""Seconds until a step is noticed."""


def library() -> Path | None:
    """Where it is; None where it is not installed: it comes with windrow[lab]."""
    found = importlib.util.find_spec("libfaketime")
    place = Path(found.origin).parent / _LIBRARY if found and found.origin else None
    return place if place and place.exists() else None


class Clock:
    """What the processes of one host are told."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.step(0)

    def step(self, seconds: int) -> None:
        """Be so many seconds ahead, or behind where it is less than 0, of the machine's clock."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}s\n")
        new.replace(self._file)

    @property
    def environment(self) -> dict[str, str]:
        """Of processes that go by this clock; nothing where the library is not there."""
        found = library()
        if found is None:
            return {}
        return {
            PRELOAD: str(found),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": _READ_AGAIN,
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
