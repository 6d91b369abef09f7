"""The judge is judged: each kind of bad history is caught, a good one is sound."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.lab.checkers import (
    effects_doubled,
    judge,
    late_repeats,
    misplaced,
    overtaken,
    queue_doubled,
    queue_lost,
    recovered,
    split,
)
from windrow.lab.history import QUEUED, Effect, Handling, Operation, Outcome, Receipt, Sent


def wrote(message: str, key: str, place: int, outcome: Outcome) -> Operation:
    return Operation("client", 0, (Sent(message, key, place),), outcome)


WRITTEN = [
    wrote("a1", "a", 1, "ok"),
    wrote("a2", "a", 2, "ok"),
    wrote("a3", "a", 3, "failed"),
    wrote("a4", "a", 4, "ok"),
    wrote("b1", "b", 1, "ok"),
    wrote("b2", "b", 2, "unknown"),
    wrote("b3", "b", 3, "ok"),
]
GOOD = ["a1", "a2", "a4", "b1", "b3"]


@pytest.mark.parametrize(
    "received",
    [
        pytest.param(GOOD, id="all, key by key"),
        pytest.param(["b1", "a1", "b3", "a2", "a4"], id="keys interleaved"),
        pytest.param(["a1", "a2", "a4", "b1", "b2", "b3"], id="unknown received: it did commit"),
    ],
)
def test_good_histories_are_sound(received: Sequence[str]) -> None:
    verdict = judge(WRITTEN, received)
    assert verdict.sound
    assert (verdict.written, verdict.received) == (5, len(received))


@pytest.mark.parametrize(
    ("received", "faults"),
    [
        pytest.param(["a1", "a4", "b1", "b3"], {"lost": 1}, id="one lost in the middle"),
        pytest.param([], {"lost": 5}, id="all lost"),
        pytest.param([*GOOD, "b3"], {"duplicated": 1}, id="the last one twice"),
        pytest.param(["a1", "a2", "a4", "a1", "a2", "b1", "b3"], {"duplicated": 2}, id="a batch repeated"),
        pytest.param(["a1", "a1", "a1", "a2", "a4", "b1", "b3"], {"duplicated": 2}, id="one three times"),
        pytest.param(["a2", "a1", "a4", "b1", "b3"], {"reordered": 1}, id="two exchanged"),
        pytest.param(["a4", "a1", "a2", "b1", "b3"], {"reordered": 2}, id="one overtook two"),
        pytest.param(["a1", "a2", "a4", "b3", "b1"], {"reordered": 1}, id="another key's exchanged"),
        pytest.param(["a1", "a2", "a4", "b1", "b3", "b2"], {"reordered": 1}, id="unknown, but late"),
        pytest.param(["a1", "a2", "a3", "a4", "b1", "b3"], {"phantom": 1}, id="rolled back, yet received"),
        pytest.param([*GOOD, "never written"], {"phantom": 1}, id="never written, yet received"),
        pytest.param(
            ["a2", "a1", "a1", "a3", "b1"],
            {"lost": 2, "duplicated": 1, "reordered": 1, "phantom": 1},
            id="everything at once",
        ),
    ],
)
def test_bad_histories_are_caught(received: Sequence[str], faults: dict[str, int]) -> None:
    verdict = judge(WRITTEN, received)
    assert not verdict.sound
    found = {name: count for name, count in asdict(verdict).items() if count and name not in {"written", "received"}}
    assert found == faults


@pytest.mark.parametrize("received", [[], ["x"]])
def test_an_unknown_outcome_is_neither_lost_nor_phantom(received: Sequence[str]) -> None:
    assert judge([wrote("x", "a", 1, "unknown")], received).sound


def test_a_transaction_of_unknown_outcome_comes_whole_or_not_at_all() -> None:
    both = Operation("client", 1, (Sent("x", "a", 1), Sent("y", "b", 1)), "unknown")
    assert [judge([both], received).lost for received in ([], ["x"], ["y", "x"])] == [0, 1, 0]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["ok", "failed", "unknown"]))),
    st.integers().map(Random),
)
def test_what_a_perfect_relay_delivers_is_sound(history: list[tuple[str, Outcome]], random: Random) -> None:
    written = [wrote(str(n), key, n, outcome) for n, (key, outcome) in enumerate(history)]
    keys = {each.messages[0].id: each.messages[0].key for each in written}
    delivered = [
        each.messages[0].id
        for each in written
        if each.outcome == "ok" or (each.outcome == "unknown" and random.random() < 0.5)
    ]
    by_key = [list(group) for _, group in groupby(sorted(delivered, key=keys.__getitem__), keys.__getitem__)]
    interleaved = []
    while any(by_key):
        interleaved.append(random.choice([queue for queue in by_key if queue]).pop(0))
    assert judge(written, interleaved).sound


def test_a_repeat_at_once_is_no_fault_of_delivery_at_least_once() -> None:
    assert late_repeats(WRITTEN, ["a1", "b1", "a1", "a2", "a4", "a4", "b3"]) == []


def test_a_repeat_after_a_later_one_of_its_key_is_late() -> None:
    assert late_repeats(WRITTEN, ["a1", "a2", "a1", "a1", "a4", "b1", "a2", "b3"]) == [2, 6]


def test_where_there_is_no_key_no_repeat_is_late() -> None:
    queued = Operation("writer", 1, (Sent("q1", QUEUED, 0), Sent("q2", QUEUED, 0)), "ok")
    assert late_repeats([queued], ["q1", "q2", "q1", "a phantom", "a phantom"]) == []


def made(number: int, began: float, ended: float, *messages: str, outcome: Outcome = "ok") -> Operation:
    """One client's operation, with messages that are each of a key of their own."""
    return Operation("client", number, tuple(Sent(each, each, 1) for each in messages), outcome, began, ended)


def received(*messages: str, partition: int = 0) -> list[Receipt]:
    return [Receipt(each, partition, offset, float(offset)) for offset, each in enumerate(messages)]


@pytest.mark.parametrize(
    ("operations", "receipts", "violations"),
    [
        pytest.param([made(1, 0, 1, "x"), made(2, 1, 2, "y")], received("x", "y"), 0, id="in sequence"),
        pytest.param([made(1, 0, 1, "x"), made(2, 1, 2, "y")], received("y", "x"), 1, id="effect before cause"),
        pytest.param([made(1, 0, 3, "x"), made(2, 1, 2, "y")], received("y", "x"), 0, id="at the same time"),
        pytest.param(
            [made(1, 0, 1, "x"), made(2, 1, 2, "y")],
            [*received("y"), *received("x", partition=1)],
            0,
            id="in partitions without an order between them",
        ),
        pytest.param(
            [made(1, 0, 1, "x", outcome="unknown"), made(2, 1, 2, "y")], received("y", "x"), 0, id="cause uncertain"
        ),
        pytest.param(
            [made(1, 0, 1, "x"), made(2, 1, 2, "y", outcome="unknown")], received("y", "x"), 1, id="effect uncertain"
        ),
        pytest.param([made(1, 0, 1, "x"), made(2, 1, 2, "y")], received("x", "y", "x"), 0, id="a copy is no cause"),
    ],
)
def test_effects_before_their_causes(operations: list[Operation], receipts: list[Receipt], violations: int) -> None:
    assert overtaken(operations, receipts, lambda _: 0) == violations


def test_keys_of_different_shards_have_no_order() -> None:
    operations = [made(1, 0, 1, "x"), made(2, 1, 2, "y")]
    assert overtaken(operations, received("y", "x"), lambda key: key) == 0


@pytest.mark.parametrize(("cut", "count"), [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)])
def test_a_transaction_cut_in_two(cut: int, count: int) -> None:
    operations = [made(1, 0, 1, "a", "b"), made(2, 0, 1, "c", "d")]
    assert split(operations, received("a", "b", "c", "d"), {0: cut}) == count


def test_a_position_that_is_not_where_the_log_is() -> None:
    assert [misplaced(3, 3), misplaced(2, 3), misplaced(4, 3)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("effects", "doubled"),
    [
        ([Effect("m", "g", "ok"), Effect("m", "h", "ok"), Effect("n", "g", "ok")], 0),
        ([Effect("m", "g", "failed"), Effect("m", "g", "unknown"), Effect("m", "g", "ok")], 0),
        ([Effect("m", "g", "ok"), Effect("m", "g", "ok")], 1),
    ],
)
def test_effects_once_too_often(effects: list[Effect], doubled: int) -> None:
    assert effects_doubled(effects) == doubled


def test_a_queue_that_loses_a_message() -> None:
    sent = [made(1, 0, 1, "m", "n"), made(2, 0, 1, "failed", outcome="failed")]
    given_back = Handling("n", 0, 5, "failed", 1)
    assert queue_lost(sent, [Handling("m", 0, 5, "ok", 1), given_back]) == 1
    assert queue_lost(sent, [Handling("m", 0, 5, "ok", 1), given_back, Handling("n", 2, 5, "ok", 3)]) == 0


@pytest.mark.parametrize(
    ("second", "doubled"),
    [
        pytest.param(Handling("m", 6, 9, "ok", 7), 1, id="after it was acknowledged"),
        pytest.param(Handling("m", 1, 9, "ok", 3), 1, id="while another had it"),
        pytest.param(Handling("n", 1, 9, "ok", 3), 0, id="another message"),
    ],
)
def test_a_queue_that_hands_a_message_out_twice(second: Handling, doubled: int) -> None:
    assert queue_doubled([second, Handling("m", 0, 5, "ok", 2)]) == doubled


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(Handling("m", 0, 5, "failed", 2), id="given back"),
        pytest.param(Handling("m", 0, 5, "unknown"), id="expired"),
        pytest.param(Handling("m", 0, 5, "ok", 8), id="acknowledged after another had it"),
    ],
)
def test_a_queue_may_hand_out_again_what_nobody_holds(first: Handling) -> None:
    assert queue_doubled([first, Handling("m", 6, 9, "ok", 7)]) == 0


def test_recovered_once_a_message_comes_that_was_written_later() -> None:
    operations = [made(1, 0, 1, "a"), made(2, 5, 6, "b"), made(3, 6, 7, "c", outcome="unknown")]
    came = [("a", 8.0), ("b", 10.0), ("c", 11.0)]
    assert [recovered(operations, came, since) for since in (5, 6, 7)] == [5, 5, None]
