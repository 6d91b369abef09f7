"""The lab is put to the test: it catches windrow's own protocol where that is broken, and lets ours pass.

All live through the same: writers at work, a transaction that commits long after it wrote, a life that is killed right
before its commit in Kafka, one that is killed right after, and one that is paused with a page in hand until its
successor publishes, and then wakes up.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fix_mutants import (
    ByOffset,
    ByTransaction,
    Fate,
    GenerationUnchecked,
    IdsFresh,
    Lives,
    Mutant,
    NobodyFenced,
    PositionOutside,
    PurgedEarly,
    run_lives,
)
from fix_pipeline import Pipeline, wait_for
from windrow.lab.checkers import Verdict, judge, misplaced, overtaken
from windrow.lab.history import Journal, Receipt, Sent, read_journal
from windrow.lab.load import Load, Writer, create_load

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

WRITERS, RATE = 8, 200.0
BACKLOG = 300
"""Transactions: so many that one page has those of writers who overtook each other."""


@contextmanager
def writing(pipeline: Pipeline, folder: Path) -> Iterator[None]:
    create_load(pipeline.settings)
    load, stop = Load(pipeline.topic, 1, WRITERS, RATE), threading.Event()
    names = [folder / f"{pipeline.settings.name}-{number}.jsonl" for number in range(WRITERS)]
    threads = [threading.Thread(target=Writer(pipeline.settings, load, name).run, args=(stop,)) for name in names]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        stop.set()
        for each in threads:
            each.join()


def committed(folder: Path) -> int:
    return sum(each.outcome == "ok" for path in folder.glob("*.jsonl") for each in read_journal(path))


@contextmanager
def latecomer(pipeline: Pipeline, folder: Path) -> Iterator[None]:
    """A transaction that writes its message before the others go on, and commits when later ones are published."""
    journal = Journal(folder / "latecomer.jsonl")
    with pipeline.connect() as connection:
        number = journal.begin([Sent("late", "late", 1)], time.monotonic())
        pipeline.outbox.write(connection, pipeline.message("late", "late"))
        before = sum(len(each.messages) for path in folder.glob("*.jsonl") for each in read_journal(path))
        yield
        wait_for(lambda: pipeline.published() > before, "later messages to be published")
    journal.end(number, "ok")
    journal.close()


def quiet(pipeline: Pipeline, seconds: float = 1.5) -> Callable[[], bool]:
    """Whether nothing has been published for a while."""
    last, since = -1, time.monotonic()

    def check() -> bool:
        nonlocal last, since
        if (now := pipeline.published()) != last:
            last, since = now, time.monotonic()
        return time.monotonic() - since > seconds

    return check


def judged(pipeline: Pipeline, folder: Path) -> tuple[Verdict, int, int]:
    """The verdict, how many effects came before their causes, and by how much the position is wrong."""
    operations = [each for path in folder.glob("*.jsonl") for each in read_journal(path)]
    receipts = [
        Receipt((each.value() or b"").split(b" ")[0].decode(), each.partition() or 0, each.offset() or 0)
        for each in pipeline.received()
    ]
    verdict = judge(operations, [each.id for each in receipts])
    return verdict, overtaken(operations, receipts, lambda _: 0), misplaced(pipeline.published(), len(receipts))


@pytest.fixture
def fates(
    make_pipeline: Callable[..., Pipeline], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Mutant], tuple[Verdict, int, int]]:
    def meet(mutant: Mutant) -> tuple[Verdict, int, int]:
        pipeline = make_pipeline(shards=1, limits={"pageRecords": 50, "ioErrorBackoff": "10ms"})
        lives = Lives(pipeline, mutant, monkeypatch)
        plan = [Fate("after commit"), Fate("before commit"), Fate("before offsets", "pause")]
        with writing(pipeline, tmp_path):
            wait_for(lambda: committed(tmp_path) >= BACKLOG, "a backlog")
            with latecomer(pipeline, tmp_path):
                run_lives(lives, plan)
        lives.end(quiet(pipeline))
        return judged(pipeline, tmp_path)

    return meet


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(Mutant(), id="as it is"),
        pytest.param(Mutant(GenerationUnchecked), id="generation unchecked, but predecessors ended"),
        pytest.param(Mutant(IdsFresh), id="predecessors not ended, but generation checked"),
    ],
)
def test_our_protocol_passes(fates: Callable[[Mutant], tuple[Verdict, int, int]], mutant: Mutant) -> None:
    verdict, effects_before_causes, wrong_by = fates(mutant)
    assert verdict.sound, verdict
    assert (effects_before_causes, wrong_by) == (0, 0)


@pytest.mark.parametrize(
    ("mutant", "fault"),
    [
        pytest.param(Mutant(PositionOutside), "duplicated", id="position outside the transaction"),
        pytest.param(Mutant(NobodyFenced), "duplicated", id="neither generation checked nor predecessors ended"),
        pytest.param(Mutant(capture=ByTransaction), "reordered", id="by transaction instead of id"),
        pytest.param(Mutant(capture=PurgedEarly), "lost", id="purge before commit"),
        pytest.param(Mutant(capture=ByOffset), "lost", id="by offset"),
    ],
)
def test_broken_ones_are_caught(
    fates: Callable[[Mutant], tuple[Verdict, int, int]], mutant: Mutant, fault: str
) -> None:
    verdict, _, _ = fates(mutant)
    assert getattr(verdict, fault) > 0, verdict
