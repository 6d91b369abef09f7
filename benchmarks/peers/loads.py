"""The loads that contenders are put under, and what one run of one yields.

A contender that is slower than the load is not waited for: what has come when the time is over counts. Then a rate is
one over that time, latencies are at least what they are given as, and nothing is said of records that did not come.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from benchmarks.peers.contenders import Contender, Track
from benchmarks.peers.tables import EVEN, MIXED
from windrow.bench.bed import Bed
from windrow.bench.check import Numbers, faults
from windrow.bench.load import KEYS
from windrow.bench.receiver import Receipts, receive
from windrow.bench.writers import write_live
from windrow.settings import Settings

_A_TRANSACTION: Final = 1_000
_PURGED_AFTER: Final = 6.0
"""Seconds that the traffic before a backlog has: enough for a relay that keeps up to purge it."""


@dataclass(frozen=True, slots=True)
class PeerSize:
    """How much is measured."""

    backlog: int
    mixed: int
    """Records of a backlog of mixed sizes."""
    traffic: int
    """Records relayed while somebody keeps a transaction open, before the backlog."""
    patience: float
    """Seconds that a backlog is waited for."""
    warm_up: float
    live: float
    late: float
    """Seconds that live records have after the last one was written."""
    rounds: int
    more_rounds: int
    """Rounds of the loads beside the two that have bars."""
    queue: int
    """Messages that queues are compared with."""
    unmeasured: int
    """Records of a first backlog that does not count: much code is compiled as it is used."""
    unmeasured_live: float
    """Seconds of a first live load that does not count, for the same reason."""


FULL: Final = PeerSize(
    backlog=500_000,
    mixed=50_000,
    traffic=20_000,
    patience=15.0,
    warm_up=5.0,
    live=10.0,
    late=5.0,
    rounds=3,
    more_rounds=2,
    queue=200_000,
    unmeasured=500_000,
    unmeasured_live=30.0,
)
QUICK: Final = PeerSize(
    backlog=3_000,
    mixed=1_000,
    traffic=1_000,
    patience=2.0,
    warm_up=0.5,
    live=1.0,
    late=2.0,
    rounds=1,
    more_rounds=1,
    queue=2_000,
    unmeasured=0,
    unmeasured_live=0.0,
)


@dataclass(frozen=True, slots=True)
class Run:
    """What one contender did under one load, once."""

    load: str
    contender: str
    figures: Mapping[str, float]
    complete: bool
    """Whether all had come when the time was over; if not, `lost` is 0."""
    lost: int
    duplicated: int
    reordered: int


@dataclass(frozen=True, slots=True)
class Stage:
    """Where runs take place, and how large they are."""

    bed: Bed
    size: PeerSize
    partitions: int


@dataclass(frozen=True, slots=True)
class Load:
    """A `main` one has untuned contenders too; a `live` one those whose writers dispatch, since nobody dispatches a
    backlog.
    """

    name: str
    title: str
    measure: Callable[[Stage, Contender], Run]
    main: bool = False
    live: bool = False

    def has(self, contender: Contender) -> bool:
        return (self.main or not contender.untuned) and (self.live or not contender.dispatched)

    def run(self, stage: Stage, contender: Contender) -> Run:
        return replace(self.measure(stage, contender), load=self.name)


@dataclass(frozen=True, slots=True)
class _Backlog:
    records: int
    keys: int = KEYS
    repeated: str = EVEN
    traffic: int = 0


def warm_up(stage: Stage, contender: Contender) -> None:
    size = stage.size
    if size.unmeasured and not contender.dispatched:
        _drained(stage, contender, _Backlog(size.unmeasured))
    if size.unmeasured_live:
        _at_1k(replace(stage, size=replace(size, live=size.unmeasured_live)), contender)


def _backlog(stage: Stage, contender: Contender) -> Run:
    return _drained(stage, contender, _Backlog(stage.size.backlog))


def _hot_key(stage: Stage, contender: Contender) -> Run:
    return _drained(stage, contender, _Backlog(stage.size.backlog, keys=1))


def _mixed(stage: Stage, contender: Contender) -> Run:
    return _drained(stage, contender, _Backlog(stage.size.mixed, repeated=MIXED))


def _held_xmin(stage: Stage, contender: Contender) -> Run:
    return _drained(stage, contender, _Backlog(stage.size.backlog, traffic=stage.size.traffic))


def _at_1k(stage: Stage, contender: Contender) -> Run:
    return _live(stage, contender, 1_000, durably=True)


def _at_10k(stage: Stage, contender: Contender) -> Run:
    """Writers do not wait for the disk here: few disks flush so often. What relays do is as durable as ever."""
    return _live(stage, contender, 10_000, durably=False)


LOADS: Final = (
    Load("backlog", "a backlog, written in one transaction", _backlog, main=True),
    Load("1k", "1,000 records/s, a transaction each", _at_1k, main=True, live=True),
    Load("10k", "10,000 records/s, a transaction each", _at_10k, live=True),
    Load("hot key", "a backlog of a single key", _hot_key),
    Load("held xmin", "a backlog, while somebody keeps a transaction open", _held_xmin),
    Load("mixed sizes", "a backlog of values of 200 bytes, 10 kB and 100 kB", _mixed),
)


def _drained(stage: Stage, contender: Contender, load: _Backlog) -> Run:
    bed, patience, traffic = stage.bed, stage.size.patience, load.traffic
    expected = 1 + traffic + load.records
    with contender.track(bed, stage.partitions) as track, _foreign(track) if traffic else nullcontext():
        if traffic:
            for first in range(1, traffic + 1, _A_TRANSACTION):
                track.write(range(first, min(first + _A_TRANSACTION, traffic + 1)), load.keys)
            time.sleep(_PURGED_AFTER)
        with receiving(bed, track.settings, track.topic, expected, live=False) as received_within:
            committed = track.write(range(traffic + 1, expected), load.keys, load.repeated)
            received = received_within(patience)
    run = judged(contender.name, {}, received, expected, load.keys)
    seconds = received.after(committed, expected) if run.complete else patience
    came = int(((received.numbers > traffic) & (received.times <= committed + seconds * 1e9)).sum())
    bed.say(
        f"  {contender.name}: {came / seconds:,.0f} records/s"
        f"{'' if run.complete else f', {came:,} of {load.records:,} came'}"
    )
    return replace(run, figures={"records_per_s": came / seconds})


def _live(stage: Stage, contender: Contender, rate: int, *, durably: bool) -> Run:
    bed = stage.bed
    ignored = int(rate * stage.size.warm_up)
    count = ignored + int(rate * stage.size.live)
    with (
        contender.track(bed, stage.partitions) as track,
        receiving(bed, track.settings, track.topic, count + 1, live=True) as received_within,
    ):
        written = bed.helpers.submit(
            write_live,
            track.settings,
            track.topic,
            count,
            rate,
            durably=durably,
            statement=track.table.insert,
            dispatched=contender.dispatched,
        )
        committed = written.result()
        received = received_within(stage.size.late)
        until = time.monotonic_ns()
    p50, p99 = latencies(received, committed, ignored, until)
    run = judged(contender.name, {"p50_ms": p50, "p99_ms": p99}, received, count + 1)
    reached = (count - ignored) / ((committed.max() - committed[ignored + 1]) / 1e9)
    bed.say(
        f"  {contender.name}: p50 {p50:,.1f} ms, p99 {p99:,.1f} at {reached:,.0f} records/s"
        f"{'' if run.complete else f', {len(received.numbers):,} of {count + 1:,} came'}"
    )
    return run


def latencies(received: Receipts, committed: Numbers, ignored: int, until: int) -> tuple[float, float]:
    """Median and 99th percentile, in milliseconds, of the records after the ignored ones.

    A record that has not come until then has the time that it was waited for.
    """
    came = np.full(len(committed), until)
    known = received.numbers < len(committed)
    # Backwards, so that of several copies the first one counts.
    came[received.numbers[known][::-1]] = received.times[known][::-1]
    p50, p99 = np.percentile((came - committed)[ignored + 1 :], [50, 99]) / 1e6
    return float(p50), float(p99)


def judged(contender: str, figures: Mapping[str, float], received: Receipts, expected: int, keys: int = KEYS) -> Run:
    """A run of some load, with what was lost, duplicated or reordered in it."""
    found = faults(received.numbers, expected, keys)
    complete = len(received.numbers) >= expected
    lost = found.lost if complete else 0
    return Run("", contender, figures, complete, lost, found.duplicated, found.reordered)


@contextmanager
def receiving(
    bed: Bed, settings: Settings, topic: str, expected: int, *, live: bool
) -> Iterator[Callable[[float], Receipts]]:
    """A consumer from now on; and a function that waits so many seconds for all, and returns what has come."""
    with TemporaryDirectory(prefix="windrow-bench-") as folder:
        over = Path(folder, "over")
        receipts = bed.helpers.submit(receive, settings, topic, expected, live=live, over=over)

        def received_within(seconds: float) -> Receipts:
            wait([receipts], seconds)
            over.touch()
            return receipts.result()

        try:
            yield received_within
        finally:
            over.touch()
            wait([receipts])


@contextmanager
def _foreign(track: Track) -> Iterator[None]:
    """Somebody else's transaction, with a number of its own, open meanwhile."""
    with track.connect() as connection, connection.transaction():
        connection.execute(b"SELECT pg_current_xact_id()")
        yield
