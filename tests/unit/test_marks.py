"""Positions by marks survive their way through Kafka's metadata, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.capture.marks import Marked, MarkPosition
from windrow.capture.position import Position
from windrow.errors import PositionForeign

KAFKA_METADATA = 4096
_IDS = st.integers(1, 2**63 - 1)
_MARKED = st.builds(Marked, st.uuids(), _IDS, _IDS)


@given(st.lists(_MARKED, max_size=2))
def test_positions_are_read_as_they_were_written_and_fit_beside_an_offset(marks: list[Marked]) -> None:
    position = MarkPosition(tuple(marks))
    assert MarkPosition.decode(position.encode()) == position
    assert len(position.encode()) < KAFKA_METADATA


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "7", "[]", "{}", '{"v":1,"marks":7}', '{"v":1,"marks":[["x",1,2]]}', Position("db").encode()],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(PositionForeign):
        MarkPosition.decode(text)


def test_a_newer_format_is_told_from_nonsense() -> None:
    with pytest.raises(PositionForeign, match="newer"):
        MarkPosition.decode('{"v":2,"marks":[]}')


def test_a_position_of_marks_is_no_position_of_snapshots() -> None:
    with pytest.raises(PositionForeign):
        Position.decode(MarkPosition().encode())
