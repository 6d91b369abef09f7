"""Servers that are away for a while: said once, and tried again after a pause."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from windrow.errors import DatabaseUnreachable, Interrupted
from windrow.settings import Settings
from windrow.spark.session import JOB_FAILED

log = logging.getLogger(__name__)

AWAY: Final = (Interrupted, DatabaseUnreachable)


class Patience:
    """Bears with servers that are away, until the relay is to stop."""

    def __init__(self, settings: Settings, stop: threading.Event) -> None:
        self._settings, self._stop = settings, stop
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
                log.warning("relay %s: %s", self._settings.name, line)
            self._stop.wait(self._settings.limits.io_error_backoff.total_seconds())


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
