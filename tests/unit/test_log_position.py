"""Positions in the log: they fit beside an offset, and tell what is published."""

from uuid import UUID

import pytest

from windrow.capture.log_position import LogPosition, of_log
from windrow.capture.marks import MarkPosition
from windrow.capture.position import MAX_SNAPSHOT, NOTHING, Position, Snapshot
from windrow.database.replication import as_number, as_text, publication_of, slot_name
from windrow.errors import PositionForeign
from windrow.settings import Settings

ROWS = Position("7", Snapshot(100, 120, (101, 119)))
AT = LogPosition(ROWS, "windrow_orders_1", 5_000)


@pytest.mark.parametrize(
    "position",
    [
        AT,
        LogPosition(ROWS, "slot", 2**63 - 1, 2**63 - 1, 10**9),
        LogPosition(Position("7", NOTHING, Snapshot(5, 9, (6,)), 77), "slot", 5),
    ],
)
def test_a_position_is_read_as_it_was_written(position: LogPosition) -> None:
    assert LogPosition.decode(position.encode()) == position
    assert of_log(position.encode())


def test_the_longest_position_fits_beside_an_offset() -> None:
    many = Snapshot(10**18, 10**18 + 10**6, tuple(range(10**18, 10**18 + 10**6, 1_000))).narrowed(MAX_SNAPSHOT, NOTHING)
    position = LogPosition(Position("7" * 20, many), "s" * 63, 2**63 - 1, 2**63 - 1, 10**9)
    assert len(f"{2**63} {position.encode()}".encode()) < 4_096


def test_the_purge_reads_of_it_what_is_published_of_the_rows() -> None:
    assert Position.decode(AT.encode()) == ROWS


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", ROWS.encode(), MarkPosition().encode(), '{"v":1,"slot":"s","lsn":"x"}']
)
def test_positions_of_other_captures_are_refused(text: str) -> None:
    with pytest.raises(PositionForeign, match="capture: tail"):
        LogPosition.decode(text)
    assert not of_log(text) or "slot" in text


def test_what_is_published_is_covered_and_nothing_else() -> None:
    """Transactions that commit at 5,000 and 6,000, each of three messages."""
    places = [LogPosition(ROWS, "slot", lsn, lsn, nth) for lsn in (5_000, 6_000) for nth in (1, 2, 3)]
    assert [LogPosition(ROWS, "slot", 5_000).covers(each) for each in places] == [False] * 6
    assert [LogPosition(ROWS, "slot", 5_000, 5_000, 2).covers(each) for each in places] == [True] * 2 + [False] * 4
    assert [LogPosition(ROWS, "slot", 5_100).covers(each) for each in places] == [True] * 3 + [False] * 3
    assert [LogPosition(ROWS, "slot", 5_100, 6_000, 1).covers(each) for each in places] == [True] * 4 + [False] * 2


def test_rows_from_before_the_slot_come_before_the_log() -> None:
    before = [LogPosition(Position("7", hi=Snapshot(5, 9), after=after), "slot", 5) for after in (1, 2)]
    assert [before[0].covers(each) for each in (*before, AT)] == [True, False, False]
    assert [AT.covers(each) for each in before] == [True, True]


def test_the_log_is_not_read_backwards() -> None:
    assert AT.reached(4_000) is AT
    assert AT.reached(6_000).lsn == 6_000


def test_places_in_the_log_have_postgres_s_form() -> None:
    assert as_number("16/B374D848") == 0x16B374D848
    assert as_text(0x16B374D848) == "16/B374D848"


def test_names_are_ones_that_postgres_takes() -> None:
    settings = Settings(
        "postgresql://", {"bootstrap.servers": "-"}, name="Some.Name-" * 12, outbox_table="billing." + "o" * 51
    )
    for name in (publication_of(settings), slot_name(settings, UUID(int=2**127))):
        assert len(name) <= 63
        assert name.replace("_", "").isalnum()
        assert name == name.lower()
        assert name.isascii()
