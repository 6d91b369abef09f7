"""What a run of the lab comes to: a verdict out of its histories. Pure."""

from collections import Counter
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

    @property
    def name(self) -> str:
        return " + ".join(self.faults)

    def explains(self, late: Receipt) -> bool:
        """Whether a repeat came late since it was held up, and others had gone on without it."""
        return self.holds_up and self.began <= late.at <= self.healed + _CATCHES_UP_WITHIN


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


@dataclass(frozen=True, slots=True)
class TortureVerdict:
    """Zeros from `lost` to `unrecovered` where all is well."""

    seed: int
    delivery: str
    written: int
    received: int
    unknown: int
    """Transactions whose outcome nobody knows: their messages may have come or not."""
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
        return not self.wrong

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


def verdict_on(run: Run, topic: str) -> TortureVerdict:
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
        unknown=sum(each.outcome == "unknown" for each in run.operations),
        # Without transactions a key waits for its own records, and for no others.
        overtaken=0 if at_least_once else overtaken(messages, run.receipts, lane_of(topic, run.shards)),
        misplaced=0 if at_least_once else misplaced(run.published, len(ids)),
        effects_doubled=effects_doubled(run.effects),
        effects_missed=effects_missed(messages, run.effects),
        queue_lost=queue_lost(queued, run.handled),
        queue_doubled=queue_doubled(run.handled),
        unrecovered=sum(seconds is None or seconds > RECOVERS_WITHIN for _, seconds in recoveries),
        repeated_late=dict(held_up),
        faults=dict(Counter(name for each in run.incidents for name in each.faults)),
        recoveries=dict(sorted(worst.items(), key=lambda each: -each[1])),
        late_recoveries=sum(seconds is None or seconds > SOON for _, seconds in recoveries),
    )


def _held_up(run: Run) -> Counter[str]:
    """How many repeats came late, by what had held them up."""
    late = [run.receipts[place] for place in late_repeats(run.operations, [each.id for each in run.receipts])]
    return Counter(next((each.name for each in run.incidents if each.explains(one)), _BY_NOTHING) for one in late)


def recovery(run: Run, incident: Incident) -> float | None:
    """Seconds past its detection time; None where nothing came any more."""
    seconds = recovered(run.operations, run.receipts, incident.since)
    return None if seconds is None else max(0.0, seconds - incident.detection)
