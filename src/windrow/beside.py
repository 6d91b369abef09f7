"""Work beside what a process does: threads that run while a context lasts."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Beside:
    """Does its tasks in threads while its context lasts; each ends once it sees that `over` is set.

    One that does not see it in time, held up by a server that is silent for instance, is left behind.
    """

    def __init__(
        self,
        name: str,
        *tasks: Callable[[], object],
        over: threading.Event | None = None,
        end_within: float | None = None,
    ) -> None:
        self.over = over or threading.Event()
        self._threads = [threading.Thread(target=each, name=name, daemon=True) for each in tasks]
        self._end_within = end_within

    @property
    def running(self) -> bool:
        return any(each.is_alive() for each in self._threads)

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        for each in self._threads:
            each.join(self._end_within)
