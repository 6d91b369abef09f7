"""What a shard puts aside instead of publishing it, and what of that it publishes after all.

A message that Kafka refuses becomes a dead letter. With `poison: block-key` the later messages of its key are put aside
behind it: a key is blocked as long as it has letters. Letters that somebody released are published in the order of
their numbers, those of a blocked key always all together, so that nothing of the key overtakes.

Invariants:
- A message is put aside before the position moves past it. Letters found ahead of the position when a shard opens are
  forgotten: their rows are captured again.
- A letter is published if and only if the number that Kafka has committed has reached its own; then it is deleted.
- The shard's changes to the letters are committed only if Kafka still takes its transactions, and under the lock of
  the relay's row: a task that was fenced changes nothing that its successor has seen.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from windrow.capture.choice import ahead
from windrow.capture.log_position import LogPosition
from windrow.capture.protocol import Page
from windrow.capture.shards import predicate
from windrow.database.adoption import own_layout
from windrow.database.connections import Connection, interruptible
from windrow.errors import PublishFailed
from windrow.publish.dead_letter import LetterTable
from windrow.publish.protocol import Publisher
from windrow.record import Progress, Record, Released, Shard
from windrow.settings import Settings

_Key = tuple[str, bytes | None]
_Upto = Callable[[int], Progress]


def poison_among(records: Sequence[Record], refusal: PublishFailed, *, block_keys: bool) -> list[Record]:
    """Those that are refused: the only one, or all of a topic; of these only the first of each key if that blocks it.

    Messages without a key have no order to keep, and block nothing.
    """
    if not refusal.whole_topic:
        return list(records[:1])
    refused = [each for each in records if each.topic == refusal.topic]
    if not block_keys:
        return refused
    first = {each.key: each.id for each in reversed(refused)}
    return [each for each in refused if each.key is None or first[each.key] == each.id]


class Letter(NamedTuple):
    """A released dead letter, as a record again."""

    release: int
    record: Record


class Batch(Protocol):
    """Records that are published in order, in as many transactions as it takes."""

    fresh: bool
    """Whether they come from the outbox, not from the dead letters."""

    def upto(self, number: int, /) -> Progress | Released:
        """The progress that is made once all up to the record of this id are published."""
        ...

    def free(self, records: Sequence[Record]) -> Sequence[Record]:
        """The records without those that must wait; they are put aside."""
        ...

    def refuse(self, poison: Sequence[Record], reason: str) -> None:
        """Put aside what Kafka has refused."""
        ...


class Aside:
    """The dead letters of one shard, in the hands of the shard itself."""

    def __init__(self, settings: Settings, shard: Shard, publisher: Publisher, connection: Connection) -> None:
        self.blocks_keys = settings.poison == "block-key"
        self._settings, self._limits, self._publisher = settings, settings.limits, publisher
        self._table = LetterTable(settings, connection)
        self._mine = predicate(shard, own_layout(settings.dialect))
        self._blocked: dict[_Key, int] = {}
        """The keys that are blocked, and the first letter of each."""

    def settle(self) -> None:
        """Before anything is published: tidy up what a predecessor left, and know the blocked keys."""
        with interruptible(), self._table.locked():  # after a predecessor that has just put something aside
            present = self._table.rows("any")[0][0]
        if not present:
            return
        committed = self._publisher.committed
        with self._changing():
            if committed:
                self._table.execute("forget_published", self._mine, released=committed.released)
            self._forget_ahead((committed and committed.position) or None)
        self.know_blocked()

    def _forget_ahead(self, position: str | None) -> None:
        if self._settings.tails:
            at = LogPosition.decode(position or "")
            places = self._table.rows("places")
            again = [number for number, place in places if not at.covers(LogPosition.decode(place))]
            self._table.execute("take_back", ids=again)
        else:
            waiting = ahead(self._settings, self._table.layout(), position)
            self._table.execute("forget_ahead", self._mine, waiting.holds)

    def know_blocked(self) -> None:
        if self.blocks_keys:
            with interruptible():
                rows = self._table.rows("blocked", self._mine)
            self._blocked = {(topic, key): first for topic, key, first in rows}

    def hold(self, records: Sequence[Record], upto: _Upto) -> Sequence[Record]:
        """Put aside those whose key is blocked; returns the others."""
        if not self._blocked:
            return records
        behind = {each.id: self._blocked[each.topic, each.key] for each in records if self._is_blocked(each)}
        if not behind:
            return records
        self._bury([each for each in records if each.id in behind], behind, "", upto)
        return [each for each in records if each.id not in behind]

    def bury(self, poison: Sequence[Record], reason: str, upto: _Upto) -> None:
        """Make them dead letters, which may block their keys."""
        self._bury(poison, {}, reason, upto)
        if self.blocks_keys:
            self._blocked |= {(each.topic, each.key): each.id for each in poison if each.key is not None}

    def gather(self, latest: int) -> int:
        """Release what waits behind letters that were released or discarded; returns the number to go on to."""
        if not self.blocks_keys:
            return latest
        with self._changing() as latest_now:
            upto = latest_now + self._table.execute("gather", self._mine, latest=latest_now)
            self._table.execute("advance", latest=upto)
        return upto

    def released(self, upto: int) -> list[Letter]:
        """The next letters that are to be published, up to a number."""
        with interruptible():
            rows = self._table.rows(
                "released",
                self._mine,
                after=self._committed_number,
                upto=upto,
                records=self._limits.records_at_once,
                bytes=self._limits.page_bytes,
            )
        return [Letter(row[0], Record(*row[1:])) for row in rows]

    def put_back(self, poison: Sequence[Record], reason: str) -> None:
        """Letters that were refused again: keep them, and what waits behind them."""
        ids = [each.id for each in poison]
        with self._changing():
            self._table.execute("put_back", ids=ids, reason=reason)
            if self.blocks_keys:
                self._table.execute("hold_back", ids=ids)

    def forget(self, ids: Sequence[int]) -> None:
        """Released letters that have arrived, by their ids."""
        with interruptible():
            self._table.execute("forget", ids=ids)

    def forget_published(self) -> None:
        with interruptible():
            self._table.execute("forget_published", self._mine, released=self._committed_number)

    @property
    def _committed_number(self) -> int:
        return self._publisher.committed.released if self._publisher.committed else 0

    def _is_blocked(self, record: Record) -> bool:
        return (record.topic, record.key) in self._blocked

    def _bury(self, records: Sequence[Record], behind: Mapping[int, int], reason: str, upto: _Upto) -> None:
        """Keep them by what their rows hold; those from the log, which may have no rows, by what was read."""
        with self._changing():
            if self._settings.tails:
                for each in records:
                    place = upto(each.id).encode()
                    self._table.execute(
                        "bury_whole", **each._asdict(), behind=behind.get(each.id), reason=reason, place=place
                    )
            else:
                letters = json.dumps([(each.id, behind.get(each.id)) for each in records])
                self._table.execute("bury", letters=letters, reason=reason)

    @contextmanager
    def _changing(self) -> Iterator[int]:
        with interruptible(), self._table.locked() as latest:
            yield latest
            self._publisher.renew()  # fails where another task has become this shard's publisher


class CapturedBatch:
    """A page of the outbox."""

    fresh = True

    def __init__(self, page: Page, aside: Aside) -> None:
        self.upto, self._aside = page.upto, aside

    def free(self, records: Sequence[Record]) -> Sequence[Record]:
        return self._aside.hold(records, self.upto)

    def refuse(self, poison: Sequence[Record], reason: str) -> None:
        self._aside.bury(poison, reason, self.upto)


class ReleasedBatch:
    """Letters that are published after all."""

    fresh = False

    def __init__(self, letters: Sequence[Letter], aside: Aside) -> None:
        self.records = [letter.record for letter in letters]
        self._numbers = {letter.record.id: letter.release for letter in letters}
        self._aside = aside
        self._refused: set[_Key] = set()

    def upto(self, number: int, /) -> Released:
        return Released(self._numbers[number])

    def forget(self, ids: Sequence[int]) -> None:
        self._aside.forget(ids)

    def free(self, records: Sequence[Record]) -> Sequence[Record]:
        return [each for each in records if (each.topic, each.key) not in self._refused]

    def refuse(self, poison: Sequence[Record], reason: str) -> None:
        self._aside.put_back(poison, reason)
        if self._aside.blocks_keys:
            self._refused |= {(each.topic, each.key) for each in poison if each.key is not None}
