"""Servers that are away for a while: said once, and tried again after a pause."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from windrow.errors import DatabaseUnreachable, Interrupted
from windrow.spark.session import JOB_FAILED

log = logging.getLogger(__name__)

AWAY: Final = (Interrupted, DatabaseUnreachable)


class Patience:
    """Bears with servers that are away, until whoever works with them is to stop."""

    def __init__(self, who: str, pause: timedelta, stop: threading.Event) -> None:
        self._who, self._pause, self._stop = who, pause.total_seconds(), stop
        self._said = ""

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """What fails here because a server is away is no reason to end."""
        try:
            yield
        except (*AWAY, *JOB_FAILED) as error:
            line = first_line(error)
            if line != self._said:
                self._said = line
                log.warning("%s: %s", self._who, line)
            self._stop.wait(self._pause)


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
