"""What a tracker knows and concludes, as a function of the markers that it has read. Pure: time is the log's.

State is about messages that are *held*: begun or carried, and neither ended nor moved on. Messages of a lease that
share a fate are one `Held`, however many they are.

A message is begun once under its name (consumer, lease, partition, offset): no lease's number is ever used again.

Invariant: whoever reads the log from `floor` on comes to the same state. An effect counts where its timestamp is not
after the deadline, and a message is due where a tick's timestamp is: so no one marker can be read both ways.

A CARRY tells the state at the offset `as_of`, before its own: what the log says between the two holds as well. Whoever
knew the message when it read that, has only to note where the payload now is. Whoever starts to read in between does
not know it yet, and therefore keeps such effects until it has come to its own first tick (`settle`): whatever a
predecessor has written stands before that.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, NamedTuple, TypeAlias

from windrow.queue.marker_pb2 import Marker
from windrow.queue.runs import merged, ranges, split

NEVER: Final = 1 << 62
_STALE: Final = 1024

Key: TypeAlias = tuple[bytes, int, int]
"""Consumer, lease, partition of the queue topic."""


@dataclass(slots=True, eq=False)
class Held:
    """Messages of one lease in one partition that share a fate."""

    queue: str
    key: Key
    ranges: list[range]
    deadline: int
    needed: int
    """The log offset that one has to read from in order to know of them."""
    since: int
    """When they began, or were last carried."""
    carried: int | None = None
    """The log offset of the CARRY that holds the one message; None while it is in the queue topic."""
    over: bool = False
    """Given back or rejected: their consumer has no more say."""
    unstarted: bool = False
    rejected: str | None = None
    pinned: bool = False
    """They cannot be carried."""
    live: bool = True


@dataclass(slots=True)
class _Lease:
    """All that is held of one lease in one partition. Single messages are found at once, however many there are."""

    many: list[Held]
    singles: dict[int, Held]

    def __iter__(self) -> Iterator[Held]:
        yield from self.many
        yield from self.singles.values()

    def add(self, part: Held) -> None:
        if len(part.ranges) == 1 and len(part.ranges[0]) == 1:
            self.singles[part.ranges[0].start] = part
        else:
            self.many.append(part)

    def remove(self, part: Held) -> None:
        if self.singles.get(part.ranges[0].start) is part:
            del self.singles[part.ranges[0].start]
        else:
            self.many.remove(part)

    def single(self, named: list[range]) -> list[Held]:
        """The single messages among those named."""
        if not self.singles:
            return []
        if sum(map(len, named)) <= len(self.singles):
            return [self.singles[offset] for run in named for offset in run if offset in self.singles]
        return [part for part in self.singles.values() if split(part.ranges, named)[0]]

    def __contains__(self, offset: int) -> bool:
        return offset in self.singles or any(offset in run for part in self.many for run in part.ranges)


class Due(NamedTuple):
    """One message that has to be moved, or carried."""

    queue: str
    key: Key
    offset: int
    needed: int
    carried: int | None
    deadline: int
    over: bool
    unstarted: bool
    rejected: str | None

    @property
    def partition(self) -> int:
        return self.key[2]


class _Effect(NamedTuple):
    """What a marker does to the messages that it names."""

    kind: int
    offset: int
    timestamp: int
    after: int
    unstarted: bool
    reason: str
    by_tracker: bool


class State:
    """What is held according to one markers partition."""

    def __init__(self, carry_after: int, carry_again_after: int) -> None:
        self.counts: dict[str, tuple[int, int]] = {}
        """Redelivered and dead-lettered messages by queue, since there are any."""
        self.ignored = 0
        """Messages that markers named too late, or that were not held."""
        self._carry_after, self._carry_again_after = carry_after, carry_again_after
        self._held: dict[Key, _Lease] = {}
        self._parts = 0
        self._agenda: list[tuple[int, int, Held]] = []
        self._floor: list[tuple[int, int, Held]] = []
        self._number = count()
        self._early: dict[Key, list[tuple[_Effect, list[range]]]] | None = defaultdict(list)
        self._known: dict[Key, list[range]] = {}

    @property
    def settled(self) -> bool:
        return self._early is None

    def settle(self) -> None:
        """The first own tick was read: nothing of a predecessor is still to come."""
        self._early = None
        self._known = {}

    def held(self) -> Iterator[Held]:
        for lease in self._held.values():
            yield from lease

    def apply(self, marker: Marker, offset: int, timestamp: int) -> None:
        """Read one well-formed marker, which stands in the log at that offset."""
        kind = marker.type
        if kind == Marker.START:
            self._start(marker, offset, timestamp)
        elif kind == Marker.CARRY:
            self._carry(marker, offset, timestamp)
        elif kind == Marker.TALLY:
            if not self.settled:
                self.counts |= {each.queue: (each.redelivered, each.dead_lettered) for each in marker.counts}
        elif kind in {Marker.END, Marker.KEEP_ALIVE, Marker.RETURN, Marker.REJECT}:
            effect = _Effect(
                kind,
                offset,
                timestamp,
                marker.redeliver_after_ms,
                marker.unstarted,
                marker.reason,
                bool(marker.epoch),
            )
            for span in marker.spans:
                key = (marker.consumer, span.lease, span.partition)
                self._name(key, list(ranges(span.offset, span.runs)), effect)

    def floor(self, position: int) -> int:
        """The log offset from which on all that is held can be known, if everything before the position was read."""
        while self._floor and not self._floor[0][2].live:
            heappop(self._floor)
        return min(self._floor[0][0], position) if self._floor else position

    def next_at(self) -> int | None:
        """When there is something to do next, in the log's time; None where there is nothing."""
        while self._agenda:
            at, _, part = self._agenda[0]
            if part.live and at == self._at(part):
                return None if at == NEVER else at
            heappop(self._agenda)
            if part.live:
                heappush(self._agenda, (self._at(part), next(self._number), part))
        return None

    def due(self, now: int) -> list[Due]:
        """Messages whose deadline has passed, which are held no longer: they are the caller's to move."""
        moved = []
        for part in self._reached(now):
            if part.deadline < now:
                self._drop(part)
                moved.append(part)
        return [each for part in moved for each in _messages(part)]

    def old(self, now: int) -> list[Due]:
        """Messages that were held for so long that they are to be carried; they stay held."""
        return [each for part in self._reached(now) if part.deadline >= now for each in _messages(part)]

    def carried(self, messages: Iterable[Due], as_of: int, now: int) -> None:
        """The messages were carried, with the state that they had at that log offset."""
        for part in self._singled(messages):
            part.needed, part.since = as_of, now
            self._hold(part)

    def end(self, messages: Iterable[Due]) -> None:
        """The messages are held no longer."""
        for each in messages:
            self._cut(each.key, [range(each.offset, each.offset + 1)])

    def pin(self, messages: Iterable[Due]) -> None:
        """The messages are too large to be carried: where they are, they stay."""
        for part in self._singled(messages):
            part.pinned = True
            self._hold(part)

    def keep_for_ever(self, messages: Iterable[Due]) -> None:
        """The messages were due, and cannot be moved: they are held again, and due no more."""
        for each in messages:
            whole = [range(each.offset, each.offset + 1)]
            part = Held(each.queue, each.key, whole, NEVER, each.needed, NEVER, each.carried, over=True, pinned=True)
            self._hold(part)

    def _start(self, marker: Marker, offset: int, timestamp: int) -> None:
        deadline = timestamp + marker.redeliver_after_ms
        for span in marker.spans:
            key = (marker.consumer, span.lease, span.partition)
            named = list(ranges(span.offset, span.runs))
            if lease := self._held.get(key):
                named = split(named, merged(run for part in lease for run in part.ranges))[1]
            if named:
                self._hold(Held(marker.queue, key, named, deadline, offset, timestamp))
                self._know(key, named)

    def _carry(self, marker: Marker, offset: int, timestamp: int) -> None:
        span, carried = marker.spans[0], marker.carried
        key = (marker.consumer, span.lease, span.partition)
        named = [range(span.offset, span.offset + 1)]
        if (lease := self._held.get(key)) and span.offset in lease:
            if marker.epoch:
                for part in self._cut(key, named):
                    part.carried, part.needed, part.since = offset, carried.as_of, timestamp
                    self._hold(part)
            return
        if marker.epoch and (self._early is None or split(named, self._known.get(key, []))[0]):
            return  # ended while it was being carried
        as_of = carried.as_of if marker.epoch else offset
        part = Held(
            marker.queue,
            key,
            named,
            carried.deadline or timestamp + marker.redeliver_after_ms,
            as_of,
            timestamp,
            offset,
            over=carried.returned,
            unstarted=carried.unstarted,
        )
        self._hold(part)
        self._know(key, named)
        for effect, spared in self._early.get(key, ()) if self._early else ():
            if effect.offset >= as_of and split(named, spared)[0]:
                self._affect(key, named, effect)

    def _know(self, key: Key, named: list[range]) -> None:
        if self._early is not None:
            self._known[key] = merged([*self._known.get(key, ()), *named])

    def _name(self, key: Key, named: list[range], effect: _Effect) -> None:
        if self._early is not None and (unknown := split(named, self._known.get(key, []))[1]):
            self._early[key].append((effect, unknown))
        affected = self._affect(key, named, effect)
        if not effect.by_tracker:
            self.ignored += sum(map(len, named)) - affected

    def _affect(self, key: Key, named: list[range], effect: _Effect) -> int:
        """Let the effect come about; on how many messages it did."""
        taken = self._cut(key, named, None if effect.by_tracker else effect.timestamp)
        if effect.kind != Marker.END:
            for part in _joined(taken):
                part.deadline = effect.timestamp + effect.after
                if effect.kind != Marker.KEEP_ALIVE:
                    part.over, part.unstarted = True, effect.unstarted
                if effect.kind == Marker.REJECT:
                    part.deadline, part.rejected = effect.timestamp, effect.reason
                self._hold(part)
        return sum(len(each) for part in taken for each in part.ranges)

    def _cut(self, key: Key, named: list[range], timestamp: int | None = None) -> list[Held]:
        """Take the named messages out, as parts of their own; with a timestamp, only where it is not too late."""
        lease = self._held.get(key)
        if lease is None:
            return []
        taken = []
        for part in (*lease.single(named), *lease.many):
            if timestamp is not None and (part.over or timestamp > part.deadline):
                continue
            inside, outside = split(part.ranges, named)
            if inside:
                taken.append(replace(part, ranges=inside))
            if not outside:
                self._drop(part)
            elif inside:
                part.ranges = outside
        return taken

    def _hold(self, part: Held) -> None:
        if (lease := self._held.get(part.key)) is None:
            lease = self._held[part.key] = _Lease([], {})
        lease.add(part)
        self._parts += 1
        heappush(self._agenda, (self._at(part), next(self._number), part))
        heappush(self._floor, (part.needed, next(self._number), part))
        if max(len(self._agenda), len(self._floor)) > 2 * self._parts + _STALE:
            self._agenda = [(self._at(each), next(self._number), each) for each in self.held()]
            self._floor = [(each.needed, next(self._number), each) for each in self.held()]
            heapify(self._agenda)
            heapify(self._floor)

    def _drop(self, part: Held) -> None:
        part.live = False
        self._parts -= 1
        lease = self._held[part.key]
        lease.remove(part)
        if not lease.many and not lease.singles:
            del self._held[part.key]

    def _reached(self, now: int) -> list[Held]:
        """Parts whose time on the agenda has come."""
        reached = []
        while (at := self.next_at()) is not None and at < now:
            reached.append(heappop(self._agenda)[2])
        for part in reached:
            heappush(self._agenda, (self._at(part), next(self._number), part))
        return reached

    def _at(self, part: Held) -> int:
        """When there is something to do about it."""
        if part.pinned:
            return part.deadline
        wait = self._carry_after if part.carried is None else self._carry_again_after
        return min(part.deadline, part.since + wait)

    def _singled(self, messages: Iterable[Due]) -> Iterator[Held]:
        """Each message as a part of its own, taken out."""
        for each in messages:
            yield from self._cut(each.key, [range(each.offset, each.offset + 1)])


def _messages(part: Held) -> Iterator[Due]:
    for run in part.ranges:
        for offset in run:
            yield Due(
                part.queue,
                part.key,
                offset,
                part.needed,
                part.carried,
                part.deadline,
                part.over,
                part.unstarted,
                part.rejected,
            )


def _joined(parts: list[Held]) -> list[Held]:
    """Parts that will share a fate, as one where they also began together: or a lease would fall into ever more."""
    if len(parts) == 1:
        return parts
    together: dict[tuple[int, int, int | None], list[Held]] = defaultdict(list)
    for part in parts:
        together[part.needed, part.since, part.carried].append(part)
    return [
        replace(some[0], ranges=merged(each for part in some for each in part.ranges)) for some in together.values()
    ]
