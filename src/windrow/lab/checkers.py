"""Judge histories. Pure: operations and receipts in, counts of what is wrong out; a sound system has zeros.

What consumers can see decides what can be judged. Order is judged within a key; across keys only for transactions that
one client made one after the other, and only where both messages lie in one partition and in one shard: consumers see
no order between partitions, and shards publish independently of each other. A transaction cut in two is judged at cuts
through the log. Operations of unknown outcome may have come or not; but if they came, then whole, once and in order.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from windrow.lab.history import QUEUED, Effect, Handling, Operation, Receipt, Sent


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of all messages; a sound relay has zeros in the last four."""

    written: int
    received: int
    lost: int
    duplicated: int
    reordered: int
    phantom: int

    @property
    def sound(self) -> bool:
        return not (self.lost or self.duplicated or self.reordered or self.phantom)


def judge(operations: Iterable[Operation], received: Iterable[str]) -> Verdict:
    """Compare messages by their ids; those of one key must come in the order that they were written in."""
    receipts = list(received)
    counts = Counter(receipts)
    committed: set[str] = set()
    allowed: dict[str, Sent] = {}
    whole: set[str] = set()
    for each in operations:
        ids = {sent.id for sent in each.messages}
        if each.outcome != "failed":
            allowed |= {sent.id: sent for sent in each.messages}
        if each.outcome == "ok":
            committed |= ids
        if each.outcome == "unknown" and not counts.keys().isdisjoint(ids):
            whole |= ids
    return Verdict(
        written=len(committed),
        received=len(receipts),
        lost=len((committed | whole) - counts.keys()),
        duplicated=sum(count - 1 for count in counts.values()),
        reordered=_reversals(allowed[message] for message in counts if message in allowed),
        phantom=len(counts.keys() - allowed.keys()),
    )


def _reversals(sent: Iterable[Sent]) -> int:
    newest: dict[str, int] = {}
    reversals = 0
    for _, key, place in sent:
        reversals += place < newest.get(key, place)
        newest[key] = max(place, newest.get(key, place))
    return reversals


def late_repeats(operations: Iterable[Operation], received: Iterable[str]) -> list[int]:
    """Which of the receipts, by their place, repeat a message after a later one of its key. At-least-once delivery may
    repeat it before that; and where there is no key there is no order.
    """
    keys = {sent.id: sent.key for each in operations for sent in each.messages if sent.key != QUEUED}
    last: dict[str, str] = {}
    seen: set[str] = set()
    late: list[int] = []
    for place, message in enumerate(received):
        if (key := keys.get(message)) is None:
            continue
        if message in seen and last[key] != message:
            late.append(place)
        seen.add(message)
        last[key] = message
    return late


def overtaken(operations: Iterable[Operation], receipts: Sequence[Receipt], lane_of: Callable[[str], Hashable]) -> int:
    """Messages that came before one of a transaction which their own client had seen committed before it began theirs.

    `lane_of` says which keys are published in one sequence, as those of one shard are.
    """
    origins = {
        sent.id: (each, lane_of(sent.key)) for each in operations if each.outcome != "failed" for sent in each.messages
    }
    earliest_later: dict[Hashable, float] = defaultdict(lambda: math.inf)
    violations = 0
    firsts: dict[str, Receipt] = {}
    for receipt in receipts:
        firsts.setdefault(receipt.id, receipt)
    for receipt in reversed(firsts.values()):
        if receipt.id not in origins:
            continue
        operation, lane = origins[receipt.id]
        group = (operation.client, receipt.partition, lane)
        violations += earliest_later[group] <= operation.began
        if operation.outcome == "ok":
            earliest_later[group] = min(earliest_later[group], operation.ended)
    return violations


def split(operations: Iterable[Operation], receipts: Iterable[Receipt], cut: Mapping[int, int]) -> int:
    """Transactions of which a part lies before a cut and a part behind it.

    A cut is the log as a successor found it: by partition, the first offset behind the last commit. Holds where
    progress is made at transactions' ends only, as by the log's tail; pages by id may end within a transaction.
    """
    before = {each.id: each.offset < cut.get(each.partition, 0) for each in receipts}
    return sum(len({before[sent.id] for sent in each.messages if sent.id in before}) == 2 for each in operations)


def misplaced(published: int, received: int) -> int:
    """By how much the count that positions carry differs from what is in the log: both are committed as one."""
    return abs(published - received)


def effects_doubled(effects: Iterable[Effect]) -> int:
    """Effects that came once too often, for messages that a group had accepted before."""
    done = Counter((each.message, each.group) for each in effects if each.outcome == "ok")
    return sum(count - 1 for count in done.values())


def effects_missed(operations: Iterable[Operation], effects: Iterable[Effect]) -> int:
    """Messages that were committed and that nothing was done for; for a group that has caught up."""
    done = {each.message for each in effects if each.outcome == "ok"}
    return sum(sent.id not in done for each in operations if each.outcome == "ok" for sent in each.messages)


def queue_lost(sent: Iterable[Operation], handled: Iterable[Handling]) -> int:
    """Messages that were sent and never acknowledged; for a queue that has come to rest."""
    done = {each.message for each in handled if each.outcome != "failed"}
    return sum(message.id not in done for each in sent if each.outcome == "ok" for message in each.messages)


def queue_doubled(handled: Iterable[Handling]) -> int:
    """Deliveries of a message that was acknowledged before, or whose lease another consumer still held."""
    by_message: dict[str, list[Handling]] = defaultdict(list)
    for each in sorted(handled, key=lambda each: each.began):
        by_message[each.message].append(each)
    return sum(
        any(_excludes(earlier, later.began) for earlier in handlings[:place])
        for handlings in by_message.values()
        for place, later in enumerate(handlings)
    )


def _excludes(earlier: Handling, at: float) -> bool:
    """Whether nobody else may be given the message at this time."""
    if earlier.ended <= at:
        return earlier.outcome == "ok"
    return earlier.leased_until > at


def recovered(operations: Iterable[Operation], came: Iterable[tuple[str, float]], since: float) -> float | None:
    """Seconds from `since` until the first message came of a transaction that began after it; None where none did.

    What came is messages, each with its time: of its receipt, or of what was done for it.
    """
    later = {sent.id for each in operations if each.began >= since for sent in each.messages}
    return min((at - since for message, at in came if message in later), default=None)
