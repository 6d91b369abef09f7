"""Nothing is lost and nothing of a key is overtaken, whatever fails; and these checks would notice if it were."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import islice, pairwise

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from windrow.publish.scoreboard import Scoreboard
from windrow.record import Record

KEYS = st.sampled_from([b"a", b"b", b"c", None])
EXAMPLES = settings(max_examples=200, stateful_step_count=40, deadline=None)
HUNT = settings(
    max_examples=2_000,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    phases=[Phase.generate],
)


def record(number: int, key: bytes | None, topic: str = "topic") -> Record:
    return Record(number, topic, key, b"", [], [], None, None)


def ids(records: Iterable[Record]) -> list[int]:
    return [each.id for each in records]


class Relays(RuleBasedStateMachine):
    """Leaders that follow each other, their outbox, and the log of each key.

    A leader that crashes is followed by one that marks anew all that is in the outbox. What the dead one had sent
    arrives before that or never.
    """

    scoreboard: type[Scoreboard] = Scoreboard

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[int, Record] = {}
        self.outbox: dict[int, Record] = {}
        self.log: dict[bytes | None, list[int]] = defaultdict(list)
        self.limit = 1
        self.lead()

    def lead(self) -> None:
        self.marked: set[int] = set()
        self.sent: set[int] = set()
        self.arrived: set[int] = set()
        self.in_flight: set[int] = set()
        self.failed = False
        self.board = self.scoreboard([], self.limit)

    @initialize(limit=st.integers(1, 5), keys=st.lists(KEYS, min_size=1, max_size=12))
    def begin(self, limit: int, keys: list[bytes | None]) -> None:
        self.limit = limit
        for key in keys:
            self.write(key)

    @rule(key=KEYS)
    def write(self, key: bytes | None) -> None:
        number = len(self.written)
        self.written[number] = self.outbox[number] = record(number, key)

    @precondition(lambda self: not self.board.busy)
    @rule(size=st.integers(1, 8))
    def mark(self, size: int) -> None:
        if self.failed:
            self.lead()
        page = [each for number, each in self.outbox.items() if number not in self.marked][:size]
        self.marked.update(ids(page))
        self.board = self.scoreboard(page, self.limit)

    @rule(at_most=st.integers(1, 5))
    def send(self, at_most: int) -> None:
        for each in islice(self.board.ready(), at_most):
            assert not self.failed, "sent after a failure"
            self.sent.add(each.id)
            self.in_flight.add(each.id)

    @rule()
    def round_trip(self) -> None:
        """All goes well, but is not purged yet."""
        self.send(100)
        for number in sorted(self.sent):
            self.log[self.written[number].key].append(number)
        for number in sorted(self.sent | self.arrived):
            self.board.acknowledged(number)
        self.sent, self.arrived = set(), set()

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.sent)))
        self.sent.remove(number)
        self.arrived.add(number)
        self.log[self.written[number].key].append(number)

    @precondition(lambda self: self.arrived)
    @rule(data=st.data(), known=st.sampled_from([True, True, True, False]))
    def answer(self, data: st.DataObject, known: bool) -> None:  # noqa: FBT001 - drawn
        """What has arrived is acknowledged; or reported as failed, since nobody knows."""
        number = data.draw(st.sampled_from(sorted(self.arrived)))
        self.arrived.remove(number)
        if known:
            self.board.acknowledged(number)
        else:
            self.fail(number)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.sent)))
        self.sent.remove(number)
        self.fail(number)

    def fail(self, number: int) -> None:
        self.failed = True
        self.in_flight.remove(number)
        self.board.failed(number)

    @rule()
    def purge(self) -> None:
        numbers = self.delete()
        self.in_flight.difference_update(numbers)
        self.board.purged(numbers)

    @rule(purged=st.booleans(), data=st.data())
    def crash(self, purged: bool, data: st.DataObject) -> None:  # noqa: FBT001 - drawn
        """Before or after a purge; of what was sent, some arrives."""
        if purged:
            self.delete()
        for number in sorted(self.sent):
            if data.draw(st.booleans()):
                self.log[self.written[number].key].append(number)
        self.lead()

    def delete(self) -> list[int]:
        numbers = self.board.to_purge()
        for number in numbers:
            del self.outbox[number]
        return numbers

    @invariant()
    def at_most_so_many_are_in_flight(self) -> None:
        assert len(self.in_flight) <= self.limit

    @invariant()
    def nothing_is_purged_that_has_not_arrived(self) -> None:
        everywhere = {number for log in self.log.values() for number in log}
        assert self.written.keys() - self.outbox.keys() <= everywhere

    @invariant()
    def a_key_goes_on_by_one_or_repeats_its_last(self) -> None:
        for key, log in self.log.items():
            if key is not None:
                place = {number: at for at, number in enumerate(self.of(key))}
                assert all(place[after] - place[before] in {0, 1} for before, after in pairwise(log)), log
                assert not log or place[log[0]] == 0, log

    def of(self, key: bytes | None) -> list[int]:
        return [number for number, each in self.written.items() if each.key == key]

    def teardown(self) -> None:
        """Without further faults, everything comes."""
        rounds = 0
        while self.outbox:
            rounds += 1
            assert rounds < 1_000, "stands still"
            if not self.board.busy:
                self.mark(100)
            self.round_trip()
            self.purge()
            self.a_key_goes_on_by_one_or_repeats_its_last()
        for key, log in self.log.items():
            assert sorted(set(log)) == self.of(key)


def test_nothing_is_lost_or_overtaken_through_failures_crashes_and_takeovers() -> None:
    run_state_machine_as_test(Relays, settings=EXAMPLES)


class LowersOnAcknowledgement(Scoreboard):
    def acknowledged(self, number: int) -> None:
        super().acknowledged(number)
        each = self._in_flight[number]
        if each.key is not None:
            self._lower((each.topic, each.key))

    def purged(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            del self._in_flight[number]


class LowersOnFailure(Scoreboard):
    def failed(self, number: int) -> None:
        each = self._in_flight.pop(number)
        if each.key is not None:
            self._lower((each.topic, each.key))


class HasNoBarriers(Scoreboard):
    def _next(self) -> Record | None:
        return self._waiting.popleft() if self._waiting else None

    def _lower(self, key: tuple[str, bytes]) -> None:
        pass


class HasNoLimit(Scoreboard):
    def __init__(self, records: list[Record], limit: int) -> None:
        super().__init__(records, limit + 1)


class PurgesWhatFailed(Scoreboard):
    def failed(self, number: int) -> None:
        self.acknowledged(number)


class GoesOnAfterAFailure(Scoreboard):
    def failed(self, number: int) -> None:
        del self._in_flight[number]


class ForgetsWhatWaits(Scoreboard):
    def _lower(self, key: tuple[str, bytes]) -> None:
        self._behind.pop(key, None)
        super()._lower(key)


@pytest.mark.parametrize(
    "mutant",
    [
        LowersOnAcknowledgement,
        LowersOnFailure,
        HasNoBarriers,
        HasNoLimit,
        PurgesWhatFailed,
        GoesOnAfterAFailure,
        ForgetsWhatWaits,
    ],
)
def test_the_checks_notice_a_scoreboard_that(mutant: type[Scoreboard]) -> None:
    machine = type(mutant.__name__, (Relays,), {"scoreboard": mutant})
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=HUNT)


def test_one_record_of_a_key_at_a_time_until_it_is_purged() -> None:
    board = Scoreboard([record(1, b"a"), record(2, b"a"), record(3, b"b"), record(4, b"a", "other")], 10)
    assert ids(board.ready()) == [1, 3, 4]
    board.acknowledged(1)
    assert ids(board.ready()) == []
    board.purged(board.to_purge())
    assert ids(board.ready()) == [2]


def test_records_without_a_key_wait_for_nothing_but_the_limit() -> None:
    board = Scoreboard([record(number, None) for number in range(5)], 3)
    assert ids(board.ready()) == [0, 1, 2]
    board.acknowledged(1)
    assert ids(board.ready()) == []
    board.purged(board.to_purge())
    assert ids(board.ready()) == [3]


def test_after_a_failure_what_is_in_flight_is_waited_for_and_the_rest_given_up() -> None:
    board = Scoreboard([record(number, b"%d" % number) for number in range(5)], 3)
    assert ids(board.ready()) == [0, 1, 2]
    board.failed(1)
    assert ids(board.ready()) == []
    board.acknowledged(0)
    board.purged(board.to_purge())
    assert board.busy
    board.acknowledged(2)
    assert board.busy
    board.purged(board.to_purge())
    assert not board.busy


def test_a_failure_while_records_are_being_handed_out_stops_that() -> None:
    board = Scoreboard([record(number, None) for number in range(5)], 5)
    handed_out = []
    for each in board.ready():
        handed_out.append(each.id)
        if each.id == 2:
            board.failed(2)
    assert handed_out == [0, 1, 2]
