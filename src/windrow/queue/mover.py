"""Moves what is due and carries what is old, each in transactions of bounded size.

Invariant: a message leaves the markers log's memory in the very transaction that puts its copy somewhere else. One that
Kafka refuses does not hold up the others: it becomes a dead letter, and where that is refused too, it stays held.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, TypeAlias

from windrow.errors import Interrupted, PublishFailed
from windrow.queue.copies import Copy, Payload, copy_of
from windrow.queue.marker import carried_headers, encode
from windrow.queue.marker_pb2 import Carried, Count, Marker, Span
from windrow.queue.payloads import Payloads
from windrow.queue.redelivery import NEVER, Due, State
from windrow.queue.runs import pack
from windrow.queue.settings import QueueSettings
from windrow.queue.transfer import Outgoing, Transfer

log = logging.getLogger(__name__)

_MESSAGES_AT_ONCE: Final = 1000
_BYTES_AT_ONCE: Final = 8_000_000
_COUNTS_AT_ONCE: Final = 1000

Found: TypeAlias = tuple[Due, Payload | None]


@dataclass(slots=True)
class Tally:
    """What a watch over a partition has done so far."""

    markers: int = 0
    redelivered: int = 0
    dead_lettered: int = 0
    carried: int = 0
    ignored: int = 0
    malformed: int = 0
    gone: int = 0


class Mover:
    """Acts for the tracker of one markers partition, on its state."""

    def __init__(  # noqa: PLR0913, PLR0917 - all that it stands on
        self,
        settings: QueueSettings,
        partition: int,
        state: State,
        transfer: Transfer,
        payloads: Payloads,
        tally: Tally,
    ) -> None:
        self._settings, self._partition = settings, partition
        self._state, self._transfer, self._payloads, self._tally = state, transfer, payloads, tally
        self._name = f"tracker of {settings.message_topic}, markers partition {partition}"

    def move(self, due: Sequence[Due], now: int, position: int) -> None:
        """Redeliver the messages, or make them dead letters; all before the position has been read."""
        left = Counter(each.needed for each in due)
        for some in self._found(due):
            left -= Counter(each.needed for each, _ in some)
            self._move(some, now, position, min(left, default=NEVER))

    def carry(self, old: Sequence[Due], now: int, position: int) -> None:
        """Write the messages into the log anew, as they are at the position."""
        for some in self._found(old):
            self._carry(some, now, position)

    def commit(self, position: int) -> None:
        """Commit how far the log is no longer needed, if that is further than before."""
        offset = self._state.floor(position)
        if self._transfer.committed is None or offset > self._transfer.committed:
            self._transfer.commit(self._counted(self._state.counts), offset)

    def _found(self, messages: Sequence[Due]) -> Iterator[list[Found]]:
        """The messages with their payloads, as many as fit into a transaction."""
        some: list[Found] = []
        size = 0
        with closing(self._payloads.read(messages)) as found:
            for due, payload in found:
                some.append((due, payload))
                size += payload.size if payload else 0
                if len(some) >= _MESSAGES_AT_ONCE or size >= _BYTES_AT_ONCE:
                    yield some
                    some, size = [], 0
        if some:
            yield some

    def _move(self, some: list[Found], now: int, position: int, below: int, refused: str | None = None) -> None:
        most = self._settings.max_attempts
        copies = [(due, copy_of(due, found, now, most, refused)) for due, found in some if found]
        counts = _added(self._state.counts, copies)
        records = [*map(self._copied, (copy for _, copy in copies)), *self._ends(due for due, _ in some)]
        try:
            offset = min(self._state.floor(position), below)
            self._transfer.commit([*records, *self._counted(counts)], offset)
        except PublishFailed as refusal:
            self._move_around(some, now, position, below, refusal, copies)
            return
        self._state.counts = counts
        dead = sum(copy.dead for _, copy in copies)
        self._tally.dead_lettered += dead
        self._tally.redelivered += len(copies) - dead
        self._miss([due for due, found in some if found is None])

    def _move_around(  # noqa: PLR0913, PLR0917 - as _move, and what came of it
        self,
        some: list[Found],
        now: int,
        position: int,
        below: int,
        refusal: PublishFailed,
        copies: list[tuple[Due, Copy]],
    ) -> None:
        """Kafka refused one of the copies, or more: find which, and deal with it."""
        if refusal.whole_topic or not copies:
            raise Interrupted(str(refusal)) from refusal
        if len(some) > 1:
            first, second = some[: len(some) // 2], some[len(some) // 2 :]
            self._move(first, now, position, min(below, *(due.needed for due, _ in second)))
            self._move(second, now, position, below)
        elif not copies[0][1].dead:
            self._move(some, now, position, below, f"refused by Kafka: {refusal}")
        else:
            due = some[0][0]
            log.error("%s: %s stays held, since Kafka refuses it as a dead letter: %s", self._name, _told(due), refusal)
            self._state.keep_for_ever([due])

    def _carry(self, some: list[Found], now: int, position: int) -> None:
        carried = [due for due, found in some if found]
        gone = [due for due, found in some if found is None]
        records = [self._carrying(due, found, now, position) for due, found in some if found]
        try:
            counted = self._counted(self._state.counts)
            self._transfer.commit([*records, *self._ends(gone), *counted], self._state.floor(position))
        except PublishFailed as refusal:
            if refusal.whole_topic:
                raise Interrupted(str(refusal)) from refusal
            if len(some) > 1:
                self._carry(some[: len(some) // 2], now, position)
                self._carry(some[len(some) // 2 :], now, position)
                return
            log.warning(
                "%s: %s cannot be carried, and holds back the offset: %s", self._name, _told(some[0][0]), refusal
            )
            self._state.pin([some[0][0]])
            return
        self._state.carried(carried, position, now)
        self._state.end(gone)
        self._tally.carried += len(carried)
        self._miss(gone)

    def _miss(self, gone: Sequence[Due]) -> None:
        if gone:
            self._tally.gone += len(gone)
            log.error(
                "%s: %d messages, %s among them, were deleted from their topic before they were handled",
                self._name,
                len(gone),
                _told(gone[0]),
            )

    def _copied(self, copy: Copy) -> Outgoing:
        topic = self._settings.dead_letter_topic if copy.dead else self._settings.message_topic
        return Outgoing(topic, copy.value, copy.key, copy.headers)

    def _carrying(self, due: Due, payload: Payload, now: int, position: int) -> Outgoing:
        carried = Carried(
            key=payload.key or b"",
            value=payload.value,
            headers=carried_headers(payload.headers),
            timestamp=payload.timestamp,
            returned=due.over,
            unstarted=due.unstarted,
            deadline=due.deadline,
            as_of=position,
        )
        consumer, lease, partition = due.key
        span = Span(lease=lease, partition=partition, offset=due.offset)
        marker = Marker(
            type=Marker.CARRY,
            queue=due.queue,
            consumer=consumer,
            spans=[span],
            redeliver_after_ms=max(0, due.deadline - now),
            carried=carried,
            epoch=b"tracker",
        )
        return self._marked(marker)

    def _ends(self, messages: Iterable[Due]) -> Iterator[Outgoing]:
        named: dict[tuple[str, bytes], dict[tuple[int, int], list[int]]] = defaultdict(lambda: defaultdict(list))
        for due in messages:
            consumer, lease, partition = due.key
            named[due.queue, consumer][lease, partition].append(due.offset)
        for (queue, consumer), parts in named.items():
            marker = Marker(type=Marker.END, queue=queue, consumer=consumer, epoch=b"tracker")
            for (lease, partition), offsets in parts.items():
                offset, runs = pack(sorted(offsets))
                marker.spans.append(Span(lease=lease, partition=partition, offset=offset, runs=runs))
            yield self._marked(marker)

    def _counted(self, counts: dict[str, tuple[int, int]]) -> list[Outgoing]:
        """The counts, which the log has to tell from the committed offset on."""
        told = [Count(queue=queue, redelivered=one, dead_lettered=two) for queue, (one, two) in counts.items()]
        return [
            self._marked(Marker(type=Marker.TALLY, counts=told[at : at + _COUNTS_AT_ONCE], epoch=b"tracker"))
            for at in range(0, len(told), _COUNTS_AT_ONCE)
        ]

    def _marked(self, marker: Marker) -> Outgoing:
        return Outgoing(self._settings.marker_topic, encode(marker), partition=self._partition)


def _added(counts: dict[str, tuple[int, int]], copies: Iterable[tuple[Due, Copy]]) -> dict[str, tuple[int, int]]:
    sums = dict(counts)
    for due, copy in copies:
        redelivered, dead = sums.get(due.queue, (0, 0))
        sums[due.queue] = (redelivered + (not copy.dead), dead + copy.dead)
    return sums


def _told(due: Due) -> str:
    return f"the message of queue {due.queue} at partition {due.partition}, offset {due.offset}"
