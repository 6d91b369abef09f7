"""What a run of the lab comes to: a verdict out of its histories. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from windrow.capture.shards import shard_of
from windrow.lab.checkers import (
    effects_doubled,
    effects_missed,
    judge,
    late_repeats,
    misplaced,
    overtaken,
    queue_doubled,
    queue_lost,
    recovered,
)
from windrow.lab.history import Effect, Handling, Operation, Receipt, apart

RECOVERS_WITHIN: Final = 60.0
"""Seconds past a fault's detection after which it counts as unrecovered."""
SOON: Final = 3.0
"""Seconds past its detection in which a fault ought to be over."""
_CATCHES_UP_WITHIN: Final = 5.0
"""Seconds in which what was held up has come, once it is let go."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Faults that happened at one time."""

    faults: tuple[str, ...]
    began: float
    healed: float
    since: float
    """From when on recovery is counted."""
    detection: float
    """Seconds of it that nobody could do anything in."""
    holds_up: bool = False
    """Whether it held up what had been sent, or was about to be."""
    of_consumer: bool = False
    """Whether it was done to a consumer alone, so that recovery is when messages have their effects again."""
    undone: bool = False
    """Whether it did not come about, or could not be healed."""

    @property
    def name(self) -> str:
        return " + ".join(self.faults)

    def explains(self, first: Receipt, late: Receipt) -> bool:
        """Whether a repeat came late since it was held up, and others had gone on without it: it was under way then."""
        return (
            self.holds_up
            and self.began <= late.at <= self.healed + _CATCHES_UP_WITHIN
            and first.at >= self.began - _CATCHES_UP_WITHIN
        )


@dataclass(frozen=True, slots=True)
class Run:
    """All that was recorded."""

    seed: int
    delivery: str
    operations: Sequence[Operation]
    receipts: Sequence[Receipt]
    incidents: Sequence[Incident]
    effects: Sequence[Effect]
    """What a consumer with an inbox did."""
    published: int
    """What the committed positions count; 0 where they could not be read."""
    shards: frozenset[int]
    """The numbers of shards that there were."""
    terms: Sequence[tuple[float, str]] = ()
    """Which relay came to lead when."""
    queued: Sequence[Receipt] = ()
    """What the relays have published for the queue."""
    handled: Sequence[Handling] = ()
    """What the queue's workers had in their hands."""
    unlearnt: int = 0
    """Operations whose outcome the database alone has told."""


@dataclass(frozen=True, slots=True)
class TortureVerdict:
    """Zeros from `lost` to `unrecovered` where all is well."""

    seed: int
    delivery: str
    written: int
    received: int
    unknown: int
    """Transactions whose outcome their writer never learnt; the database has told it afterwards."""
    lost: int
    duplicated: int
    """At least once, only what came again after a later message of its key, and was not held up."""
    reordered: int
    phantom: int
    overtaken: int
    misplaced: int
    effects_doubled: int
    effects_missed: int
    queue_lost: int
    queue_doubled: int
    unrecovered: int
    repeated_late: dict[str, int]
    """At least once: what came again after a later message of its key, by what had held it up."""
    faults: dict[str, int]
    """How often each was injected."""
    recoveries: dict[str, float]
    """The worst of each, in seconds past its detection time."""
    late_recoveries: int
    """How many took more than `SOON`."""

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong; where nothing was tried, nobody knows."""
        return bool(self.written and self.faults) and not self.wrong

    @property
    def wrong(self) -> dict[str, int]:
        """What is not zero and ought to be."""
        return {name: found for name in WRONG if (found := getattr(self, name))}

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


WRONG: Final = (
    "lost",
    "duplicated",
    "reordered",
    "phantom",
    "overtaken",
    "misplaced",
    "effects_doubled",
    "effects_missed",
    "queue_lost",
    "queue_doubled",
    "unrecovered",
)


_BY_NOTHING: Final = ""


def lane_of(topic: str, shards: frozenset[int]) -> Callable[[str], Hashable]:
    """Which keys share a shard, whatever their number was."""
    return lambda key: tuple(shard_of(key.encode(), topic, count) for count in sorted(shards))


def verdict_on(run: Run, topic: str, within: float = RECOVERS_WITHIN) -> TortureVerdict:
    """`within` are the seconds past its detection that a fault may cost."""
    ids: list[str] = [each.id for each in (*run.receipts, *run.queued)]
    at_least_once = run.delivery == "at-least-once"
    found = judge(run.operations, ids)
    held_up = _held_up(run) if at_least_once else Counter()
    messages, queued = (apart(run.operations, queued=queued) for queued in (False, True))
    recoveries = [(each, recovery(run, each)) for each in run.incidents]
    worst: dict[str, float] = {}
    for incident, seconds in recoveries:
        if seconds is not None:
            worst[incident.name] = round(max(seconds, worst.get(incident.name, 0.0)), 2)
    return TortureVerdict(
        seed=run.seed,
        delivery=run.delivery,
        **{name: getattr(found, name) for name in ("written", "received", "lost", "reordered", "phantom")},
        duplicated=held_up.pop(_BY_NOTHING, 0) if at_least_once else found.duplicated,
        unknown=run.unlearnt,
        # Without transactions a key waits for its own records, and for no others.
        overtaken=0 if at_least_once else overtaken(messages, run.receipts, lane_of(topic, run.shards)),
        misplaced=0 if at_least_once else misplaced(run.published, len(ids)),
        effects_doubled=effects_doubled(run.effects),
        effects_missed=effects_missed(messages, run.effects),
        queue_lost=queue_lost(queued, run.handled),
        queue_doubled=queue_doubled(run.handled),
        unrecovered=sum(each.undone or seconds is None or seconds > within for each, seconds in recoveries),
        repeated_late=dict(held_up),
        faults=dict(Counter(name for each in run.incidents for name in each.faults)),
        recoveries=dict(sorted(worst.items(), key=lambda each: -each[1])),
        late_recoveries=sum(seconds is None or seconds > SOON for _, seconds in recoveries),
    )


def _held_up(run: Run) -> Counter[str]:
    """How many repeats came late, by what had held them up."""
    late = [run.receipts[place] for place in late_repeats(run.operations, [each.id for each in run.receipts])]
    firsts: dict[str, Receipt] = {}
    for each in run.receipts:
        firsts.setdefault(each.id, each)

    def held_up_by(one: Receipt) -> str:
        return next((each.name for each in run.incidents if each.explains(firsts[one.id], one)), _BY_NOTHING)

    return Counter(map(held_up_by, late))


def recovery(run: Run, incident: Incident) -> float | None:
    """Seconds past its detection time; None where nothing came any more."""
    if incident.of_consumer:
        seconds = _all_partitions_served(run, incident.since)
    else:
        seconds = recovered(run.operations, ((each.id, each.at) for each in run.receipts), incident.since)
    return None if seconds is None else max(0.0, seconds - incident.detection)


def _all_partitions_served(run: Run, since: float) -> float | None:
    """Seconds until messages of each partition have their effects again: each has a consumer of its own."""
    partitions = {each.id: each.partition for each in run.receipts}
    done: dict[int | None, list[tuple[str, float]]] = defaultdict(list)
    for each in run.effects:
        done[partitions.get(each.message)].append((each.message, each.at))
    found = [recovered(run.operations, each, since) for each in done.values()]
    known = [seconds for seconds in found if seconds is not None]
    return max(known, default=None) if len(known) == len(found) else None
