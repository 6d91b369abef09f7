"""The chronicle: what was seen of a relay and of queues in the last half hour, for the pages that ask.

Of the relay it keeps what the watch sees, whose views pass. Queues it looks at by itself, and rests four times as
long as that took, so that hundreds of them are looked at less often instead of keeping Kafka busy; while no page asks,
it looks rarely. What fails is shown beside what was seen last; the next look may succeed.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple
from uuid import uuid4

from windrow.beside import Beside
from windrow.dashboard import shapes
from windrow.dashboard.candidates import Candidate, candidates
from windrow.dashboard.look import Latency, Look, Remark, latency, queue_remarks, rate, remarks, seen_in, silences
from windrow.errors import QueueTopicMissing, WindrowError
from windrow.queue.overview import Overview, QueueFigures
from windrow.queue.settings import QueueSettings
from windrow.relay.watch import Watch

log = logging.getLogger(__name__)

_LOOK_EVERY: Final = 0.25
_POINT_AFTER: Final = 3.0
"""A point in the charts comes with each answer of Kafka's, and after so many seconds without any."""
_CANDIDATES_EVERY: Final = 2.0
_QUEUES_EVERY: Final = 2.0
_UNWATCHED_EVERY: Final = 15.0
_WATCHED_FOR: Final = 30.0
_LEISURE: Final = 4
_END_WITHIN: Final = 2.0
_LATENCY_OVER: Final = 10.0
_POINTS: Final = 1800
_EVENTS: Final = 500


class Point(NamedTuple):
    """One place in the charts."""

    time: float
    rate: float
    backlog: int
    oldest_age: float
    in_flight: int
    p50: float | None
    p99: float | None


class Event(NamedTuple):
    """A remark, with its number and when it was made."""

    number: int
    time: float
    kind: str
    text: str


class Chronicle(Beside):
    """Looks and remembers while its context lasts; for any thread. The watch is the caller's."""

    def __init__(self, watch: Watch, queues: QueueSettings) -> None:
        self._watch, self._overview = watch, Overview(queues)
        self._lock = threading.Lock()
        self._run = uuid4().hex
        self._looks: deque[Look] = deque()
        self._latency: Latency | None = None
        self._points: deque[Point] = deque(maxlen=_POINTS)
        self._events: deque[Event] = deque(maxlen=_EVENTS)
        self._numbered = 0
        self._candidates: Sequence[Candidate] = ()
        self._problem: str | None = None
        self._queues: dict[str, QueueFigures] = {}
        self._queues_problem: str | None = None
        self._queues_took = 0.0
        self._asked_at = time.monotonic()
        self._call = threading.Event()
        super().__init__(
            f"chronicle of {watch.settings.name}",
            lambda: self._repeat(self._look_at_relay, partial(self.over.wait, _LOOK_EVERY)),
            lambda: self._repeat(self._look_at_candidates, partial(self.over.wait, _CANDIDATES_EVERY)),
            lambda: self._repeat(self._look_at_queues, self._rest),
            end_within=_END_WITHIN,
        )

    def seen(self, since: float = 0.0, event: int = 0, run: str = "") -> dict[str, Any]:
        """All that is known: the charts' points after a time, and the events after a number that this run gave."""
        self._asked_at, before = time.monotonic(), self._asked_at
        if self._asked_at - before > _WATCHED_FOR:
            self.look_again()
        with self._lock:
            points = [each for each in self._points if each.time > since]
            return {
                "run": self._run,
                "now": time.time(),
                "relay": shapes.relay(self._looks[-1], self._latency) if self._looks else None,
                "name": self._watch.settings.name,
                "election": self._watch.settings.election,
                "rate": self._points[-1].rate if self._points else 0.0,
                "problem": self._problem,
                "points": {name: [getattr(each, name) for each in points] for name in Point._fields},
                "events": [each._asdict() for each in self._events if run != self._run or each.number > event],
                "queues": shapes.queues(self._queues),
                "queues_problem": self._queues_problem,
            }

    def look_again(self) -> None:
        """Look at queues at once: something was changed, or somebody has come."""
        self._call.set()

    def tell(self, remark: Remark) -> None:
        """Note something that happened."""
        with self._lock:
            self._numbered += 1
            self._events.append(Event(self._numbered, time.time(), *remark))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        self._call.set()
        super().__exit__(kind, error, trace)

    def _repeat(self, look: Callable[[], None], rest: Callable[[], object]) -> None:
        while not self.over.is_set():
            try:
                look()
            except WindrowError as error:
                log.debug("the dashboard could not look: %s", error)
            except Exception:  # one look that fails must not be the last
                log.exception("the dashboard could not look")
            rest()

    def _rest(self) -> None:
        watched = time.monotonic() - self._asked_at < _WATCHED_FOR
        self._call.wait(max(_QUEUES_EVERY if watched else _UNWATCHED_EVERY, _LEISURE * self._queues_took))

    def _look_at_relay(self) -> None:
        now, before = seen_in(self._watch, self._candidates, time.time()), self._looks[-1] if self._looks else None
        self._judge(now)
        if now is None or (before and now.moment == before.moment and now.at < before.at + _POINT_AFTER):
            return
        self._tell_all(remarks(before, now))
        with self._lock:
            self._looks.append(now)
            while len(self._looks) > 2 and self._looks[1].at < now.at - _LATENCY_OVER:
                self._looks.popleft()
            status, lately = now.status, latency(self._looks[0], now)
            self._latency, (p50, p99) = lately or self._latency, lately or (None, None)
            figures = (rate(before, now), status.backlog, status.oldest_age, status.in_flight_records)
            self._points.append(Point(now.at, *figures, p50, p99))

    def _judge(self, now: Look | None) -> None:
        problem = "; ".join(self._watch.objections() or silences(now)) or None
        before, self._problem = self._problem, problem
        if (before is None) != (problem is None):
            self.tell(Remark("bad", problem) if problem else Remark("good", "all is well again"))

    def _look_at_candidates(self) -> None:
        self._candidates = candidates(self._watch.settings)

    def _look_at_queues(self) -> None:
        self._call.clear()
        began = time.monotonic()
        try:
            found = self._overview.look()
        except QueueTopicMissing:
            found = []
        except WindrowError as error:
            self._queues_problem = str(error)
            return
        self._queues_problem, self._queues_took = None, time.monotonic() - began
        now = {each.queue: each for each in found}
        self._tell_all(queue_remarks(self._queues, now))
        with self._lock:
            self._queues = now

    def _tell_all(self, told: Iterable[Remark]) -> None:
        for each in told:
            self.tell(each)
