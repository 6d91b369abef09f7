"""Tests of the tests: captures that are known to be wrong are caught, by the histories that ours pass."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Protocol
from uuid import uuid4

import pytest

from fix_broken import Broken, ByGapWait, ByLastUpdated, ByOffset, ByTimeWindow
from fix_pipeline import Pipeline
from windrow.capture.choice import capture_of
from windrow.election.mandate import Term
from windrow.lab.checkers import Verdict, judge
from windrow.lab.history import Operation, Outcome, Sent
from windrow.record import Shard
from windrow.relay.registry import Registry

pytestmark = pytest.mark.faults


class Source(Protocol):
    def next_values(self) -> list[str]: ...


class Ours:
    """One of windrow's own captures, on the same footing."""

    def __init__(self, pipeline: Pipeline) -> None:
        epoch = uuid4()
        Registry(pipeline.settings).open_epoch(epoch, Term(uuid4(), b""))
        self._capture = capture_of(pipeline.settings, Shard(0, 1), epoch)
        self._capture.start(None)

    def next_values(self) -> list[str]:
        return [(record.value or b"").decode() for record in self._capture.next().records]

    def close(self) -> None:
        self._capture.close()


class History:
    """Transactions on one table, what became of them, and what a capture made of it."""

    def __init__(self, pipeline: Pipeline, source: Source) -> None:
        self._pipeline, self._source = pipeline, source
        self._written: dict[str, Operation] = {}
        self._received: list[str] = []

    def begin(self, name: str, key: str = "key") -> Callable[[Outcome], None]:
        """Write a message, and leave its transaction open until its outcome is called for."""
        connection = self._pipeline.connect()
        self._pipeline.outbox.write(connection, self._pipeline.message(name, key))
        place = len(self._written)
        self._note(name, key, place, "unknown")

        def end(outcome: Outcome) -> None:
            with closing(connection):
                connection.commit() if outcome == "ok" else connection.rollback()
            self._note(name, key, place, outcome)

        return end

    def _note(self, name: str, key: str, place: int, outcome: Outcome) -> None:
        self._written[name] = Operation(key, place, (Sent(name, key, place),), outcome)

    def commit(self, name: str, key: str = "key") -> None:
        self.begin(name, key)("ok")

    def look(self, seconds: float = 0.0) -> None:
        """Look once, and go on looking for a while."""
        deadline = time.monotonic() + seconds
        while True:
            self._received += self._source.next_values()
            if time.monotonic() >= deadline:
                return
            time.sleep(0.02)

    def verdict(self) -> Verdict:
        self.look(2 * Broken.GRACE)
        return judge(self._written.values(), self._received)


def commit_out_of_order(history: History) -> None:
    """The first gets its id early and commits after the second was read."""
    late = history.begin("early id", "a")
    history.commit("early commit", "b")
    history.look()
    late("ok")


def outlast_every_grace(history: History) -> None:
    """A transaction is open for longer than anybody waits for it, while others come and go."""
    history.commit("before", "a")
    history.look()
    long = history.begin("long", "b")
    for number in range(8):
        history.commit(f"meanwhile {number}", "c")
        history.look(Broken.GRACE / 3)
    long("ok")


def roll_back_between(history: History) -> None:
    """Gaps that never fill."""
    for number in range(6):
        history.begin(f"{number}")("failed" if number % 2 else "ok")
        history.look()


def many_at_random(history: History) -> None:
    """Several writers, each with a key of its own, whose transactions take their time."""
    chance = random.Random(7)
    pauses = [[chance.uniform(0.0, 2 * Broken.GRACE) for _ in range(6)] for _ in range(6)]

    def write(writer: int) -> None:
        for number, pause in enumerate(pauses[writer]):
            end = history.begin(f"{writer}/{number}", f"{writer}")
            time.sleep(pause)
            end("ok" if number % 4 else "failed")

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(len(pauses))]
    for each in writers:
        each.start()
    while any(each.is_alive() for each in writers):
        history.look()
    for each in writers:
        each.join()


SCENARIOS = [commit_out_of_order, outlast_every_grace, roll_back_between, many_at_random]
scenarios = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


@pytest.fixture
def ours(make_pipeline: Callable[..., Pipeline], strategy: dict[str, str]) -> Iterator[History]:
    pipeline = make_pipeline(shards=1, **strategy)
    with closing(Ours(pipeline)) as source:
        yield History(pipeline, source)


@scenarios
@pytest.mark.parametrize("strategy", [{"capture": "snapshot"}, {"capture": "mark"}], ids=["snapshot", "mark"])
def test_ours_pass(ours: History, scenario: Callable[[History], None]) -> None:
    scenario(ours)
    verdict = ours.verdict()
    assert verdict.sound, verdict
    assert verdict.written > 0


@pytest.mark.parametrize(
    ("capture", "scenario"),
    [
        (ByOffset, commit_out_of_order),
        (ByOffset, outlast_every_grace),
        (ByOffset, many_at_random),
        (ByLastUpdated, commit_out_of_order),
        (ByLastUpdated, outlast_every_grace),
        (ByLastUpdated, many_at_random),
        (ByTimeWindow, outlast_every_grace),
        (ByGapWait, outlast_every_grace),
    ],
    ids=lambda each: each.__name__,
)
def test_broken_ones_are_caught_losing_records(
    pipeline: Pipeline, capture: type[Broken], scenario: Callable[[History], None]
) -> None:
    history = History(pipeline, capture(pipeline))
    scenario(history)
    assert history.verdict().lost > 0


@pytest.mark.parametrize("capture", [ByOffset, ByTimeWindow, ByGapWait], ids=lambda each: each.__name__)
def test_broken_ones_look_right_where_nothing_is_out_of_order(pipeline: Pipeline, capture: type[Broken]) -> None:
    """Which is why they are so common."""
    history = History(pipeline, capture(pipeline))
    for number in range(20):
        history.commit(f"{number}")
        history.look()
    assert history.verdict().sound
