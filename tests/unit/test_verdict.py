"""The judge is judged: each kind of bad history is caught, a good one is sound."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.observe.verdict import Outcome, Written, judge

WRITTEN = {
    "a1": Written("a", 1, "committed"),
    "a2": Written("a", 2, "committed"),
    "a3": Written("a", 3, "rolled back"),
    "a4": Written("a", 4, "committed"),
    "b1": Written("b", 1, "committed"),
    "b2": Written("b", 2, "unknown"),
    "b3": Written("b", 3, "committed"),
}
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
        pytest.param(["a2", "a1", "a4", "b1", "b3"], {"out_of_order": 1}, id="two exchanged"),
        pytest.param(["a4", "a1", "a2", "b1", "b3"], {"out_of_order": 2}, id="one overtook two"),
        pytest.param(["a1", "a2", "a4", "b3", "b1"], {"out_of_order": 1}, id="another key's exchanged"),
        pytest.param(["a1", "a2", "a4", "b1", "b3", "b2"], {"out_of_order": 1}, id="unknown, but late"),
        pytest.param(["a1", "a2", "a3", "a4", "b1", "b3"], {"phantom": 1}, id="rolled back, yet received"),
        pytest.param([*GOOD, "never written"], {"phantom": 1}, id="never written, yet received"),
        pytest.param(
            ["a2", "a1", "a1", "a3", "b1"],
            {"lost": 2, "duplicated": 1, "out_of_order": 1, "phantom": 1},
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
    assert judge({"x": Written("a", 1, "unknown")}, received).sound


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["committed", "rolled back", "unknown"]))),
    st.integers().map(Random),
)
def test_what_a_perfect_relay_delivers_is_sound(history: list[tuple[str, Outcome]], random: Random) -> None:
    written = {str(n): Written(key, n, outcome) for n, (key, outcome) in enumerate(history)}
    delivered = [
        message
        for message, each in written.items()
        if each.outcome == "committed" or (each.outcome == "unknown" and random.random() < 0.5)
    ]
    by_key = [
        list(group) for _, group in groupby(sorted(delivered, key=lambda m: written[m].key), lambda m: written[m].key)
    ]
    interleaved = []
    while any(by_key):
        interleaved.append(random.choice([queue for queue in by_key if queue]).pop(0))
    assert judge(written, interleaved).sound
