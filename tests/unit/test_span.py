"""What lies between two positions, and where records of one id may be parted."""

import pytest

from windrow.capture.position import NOTHING, Position, Snapshot
from windrow.capture.span import Span, between
from windrow.errors import PositionForeign
from windrow.relay.shard import middle_of

ONE, TWO, THREE = Snapshot(10, 10), Snapshot(20, 20), Snapshot(30, 30)


@pytest.mark.parametrize(
    ("start", "end", "span"),
    [
        pytest.param(Position("db"), Position("db", ONE), (NOTHING, ONE, 0, None), id="all of it"),
        pytest.param(Position("db", ONE), Position("db", TWO), (ONE, TWO, 0, None), id="from snapshot to snapshot"),
        pytest.param(Position("db", ONE), Position("db", ONE, TWO, 7), (ONE, TWO, 0, 7), id="the first part"),
        pytest.param(Position("db", ONE, TWO, 7), Position("db", ONE, TWO, 9), (ONE, TWO, 7, 9), id="a part between"),
        pytest.param(Position("db", ONE, TWO, 7), Position("db", TWO), (ONE, TWO, 7, None), id="the last part"),
    ],
)
def test_span_has_what_the_later_position_has_and_the_earlier_has_not(
    start: Position, end: Position, span: tuple[Snapshot, Snapshot, int, int | None]
) -> None:
    lo, hi, after, upto = span
    assert between(start, end) == Span(lo, hi, after, upto or 2**62)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        pytest.param(Position("db", ONE), Position("other", TWO), id="another database"),
        pytest.param(Position("db", ONE, TWO, 7), Position("db", THREE), id="a snapshot in between"),
        pytest.param(Position("db", ONE, TWO, 7), Position("db", ONE, THREE, 9), id="another snapshot"),
        pytest.param(Position("db", ONE), Position("db", TWO, THREE, 9), id="another start"),
    ],
)
def test_positions_that_do_not_follow_on_each_other_have_no_span(start: Position, end: Position) -> None:
    with pytest.raises(PositionForeign):
        between(start, end)


@pytest.mark.parametrize(
    ("ids", "middle"),
    [([1, 2], 1), ([1, 2, 3, 4], 2), ([1, 1, 2], 2), ([1, 2, 2], 1), ([1, 1, 1], 0), ([1], 0), ([1, 2, 2, 2], 1)],
)
def test_records_of_one_id_stay_together_when_a_page_is_halved(ids: list[int], middle: int) -> None:
    assert middle_of(ids) == middle
