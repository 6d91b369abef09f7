"""What a consumer holds, and until when.

A *part* is what one lease covers of one partition. Three times bound it: its `deadline` by the broker's clock, which
decides; and by this process's monotonic clock the last moment at which it certainly still is ours (`safe_until`) and
the first at which it certainly is not (`lost_at`). The first counts from when the marker was sent, the second from when
its answer came, so that no clock has to agree with another.

No lock is taken for a message, and nothing that Python's garbage collector has to look at is kept for it: messages in
the buffer are columns of offsets, payloads and headers. Those who receive draw rows from them, each by one step of a
C iterator; handlers append to a part's lists; and one thread, the keeper's, takes from there.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import length_hint
from typing import Any, Final, Protocol, TypeAlias

from windrow.queue.marker_pb2 import Marker, Span
from windrow.queue.runs import pack

Headers: TypeAlias = list[tuple[str, bytes | None]] | None
Row: TypeAlias = tuple[int, bytes | None, Headers]

_RENEW_WITH_LEFT: Final = 2 / 3
"""Keep-alives leave when less than this of the timeout is left."""
_END: Final = object()
NEVER: Final = float("inf")


class Hold:
    """Until when messages are held."""

    __slots__ = ("asking", "deadline", "lost_at", "safe_until", "until")

    def __init__(self, safe_until: float = 0.0) -> None:
        self.safe_until = safe_until
        self.lost_at = NEVER
        self.deadline = 0
        self.asking = False
        """Whether a keep-alive is under way."""
        self.until = NEVER
        """When to stop keeping alive, by the monotonic clock."""

    def apart(self, until: float) -> "Hold":
        """The same for one message alone, which is kept alive until another time."""
        own = Hold(self.safe_until)
        own.lost_at, own.deadline, own.until = self.lost_at, self.deadline, until
        return own

    def confirm(self, stamp: int, sent: float, now: float, after_ms: int) -> bool:
        """A marker that holds for `after_ms` was sent and answered at these times; False where it came too late."""
        if self.deadline and stamp > self.deadline:
            self.lost_at = self.safe_until = 0.0
            return False
        self.deadline = stamp + after_ms
        self.safe_until, self.lost_at = sent + after_ms / 1000, now + after_ms / 1000
        return True

    def due(self, now: float, timeout: float) -> bool:
        """Whether a keep-alive should leave."""
        late = self.safe_until - now < timeout * _RENEW_WITH_LEFT
        return late and not self.asking and now < self.lost_at and now < self.until


@dataclass(frozen=True, slots=True)
class Word:
    """What is said of a message, apart from a plain acknowledgement."""

    type: Marker.Type
    offset: int = 0
    after_ms: int = 0
    unstarted: bool = False
    reason: str = ""
    answer: "Future[None] | None" = field(default=None, compare=False)


class Holder(Protocol):
    """Who passes on what handlers say."""

    queue: str
    limit: float
    """max_processing_time, in seconds."""

    def wake(self) -> None:
        """There are words that should not wait."""


class Part:
    """Messages of one lease in one partition."""

    __slots__ = (
        "_coming",
        "_ended",
        "_headers",
        "_looks",
        "_values",
        "acks",
        "apart",
        "hold",
        "holder",
        "lease",
        "left",
        "marker_partition",
        "offsets",
        "partition",
        "rows",
        "words",
    )

    def __init__(self, holder: Holder, lease: int, partition: int, marker_partition: int) -> None:
        self.holder = holder
        self.lease = lease
        self.partition = partition
        self.marker_partition = marker_partition
        self.hold = Hold()
        self.apart: dict[int, Hold] = {}
        """Messages that are held for another time than the rest, by offset."""
        self.offsets: list[int] = []
        self.left = 0
        """How many messages the last word has not been sent of."""
        self.acks: list[int] = []
        self.words: list[Word] = []
        self.rows: Iterator[Row] = iter(())
        """Messages that nobody has begun with. May be drawn from by any thread."""
        self._values: deque[bytes | None] = deque()
        self._headers: deque[Headers] = deque()
        self._coming: Iterator[int] = iter(())
        self._ended: list[list[int]] = []
        self._looks: list[tuple[float, int]] = []

    def add(self, offsets: list[int], values: Iterable[bytes | None], headers: list[Headers] | None) -> None:
        """More messages, in the order of their offsets; without headers none has any."""
        if headers is not None and not self._headers:
            self._headers.extend(repeat(None, len(self.offsets)))
        if headers is not None or self._headers:
            self._headers.extend(headers or repeat(None, len(offsets)))
        self.offsets += offsets
        self._values.extend(values)

    def offer(self) -> None:
        """Have the messages drawn; their start marker is committed. A row that is drawn lets go of its payload."""
        self.left = len(self.offsets)
        self._coming = iter(self.offsets)
        headers = iter(self._headers.popleft, _END) if self._headers else repeat(None)
        self.rows = zip(self._coming, iter(self._values.popleft, _END), headers, strict=False)

    def leave_out(self, offsets: set[int]) -> None:
        """Have some not drawn; before anybody draws."""
        kept = [row for row in self.rows if row[0] not in offsets]
        self._coming = iter([row[0] for row in kept])
        self.rows = zip(self._coming, [row[1] for row in kept], [row[2] for row in kept], strict=True)

    @property
    def buffered(self) -> int:
        """How many messages nobody has begun with."""
        return length_hint(self._coming)

    def hold_of(self, offset: int) -> Hold:
        return self.apart.get(offset, self.hold)

    def take_acks(self) -> list[int]:
        taken = self.acks[:]
        del self.acks[: len(taken)]
        return taken

    def take_words(self) -> list[Word]:
        taken = self.words[:]
        del self.words[: len(taken)]
        return taken

    def end(self, offsets: list[int]) -> None:
        """The last word on these messages is on its way."""
        self._ended.append(offsets)
        self.left -= len(offsets)

    def open(self) -> list[int]:
        """Messages the last word has not been sent of, in the order of their offsets."""
        ended = set(chain.from_iterable(self._ended))
        return [offset for offset in self.offsets if offset not in ended]

    def look(self, now: float) -> None:
        """Remember how many messages had been begun with by now; so none needs a clock of its own."""
        begun = len(self.offsets) - self.buffered
        if begun and (not self._looks or begun > self._looks[-1][1]):
            self._looks.append((now, begun))

    def begun_before(self, moment: float) -> list[int]:
        """Messages that had been begun with at that moment."""
        while len(self._looks) > 1 and self._looks[1][0] <= moment:
            del self._looks[0]
        return self.offsets[: self._looks[0][1]] if self._looks and self._looks[0][0] <= moment else []

    def span(self, offsets: Iterable[int]) -> Span:
        offset, runs = pack(sorted(set(offsets)))
        return Span(lease=self.lease, partition=self.partition, offset=offset, runs=runs)


def grouped(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Words that one marker can say."""
    groups: dict[tuple[Any, ...], list[Word]] = {}
    for each in words:
        groups.setdefault((each.type, each.after_ms, each.unstarted, each.reason), []).append(each)
    yield from groups.values()


def marker(queue: str, consumer: bytes, spans: Sequence[Span], word: Word) -> Marker:
    return Marker(
        type=word.type,
        queue=queue,
        consumer=consumer,
        spans=spans,
        redeliver_after_ms=word.after_ms,
        unstarted=word.unstarted,
        reason=word.reason,
    )
