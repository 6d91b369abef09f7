"""Which slots of a partitioned outbox may be emptied, and when their turn comes again."""

from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windrow.database.ring import Ring, columns
from windrow.database.tables import Tables

RING = Ring(seconds=60, slots=8)


def test_slot_in_use_and_the_next_one_stay() -> None:
    assert RING.over(60 * 8 + 1, timedelta()) == [2, 3, 4, 5, 6, 7]
    assert RING.over(60 * 11 + 59, timedelta()) == [5, 6, 7, 0, 1, 2]


def test_slot_stays_for_the_retention_of_its_youngest_row() -> None:
    at = 60 * 8 + 1.0
    assert RING.over(at, timedelta(seconds=61)) == [2, 3, 4, 5, 6]
    assert RING.over(at, timedelta(minutes=4)) == [2, 3]


@given(st.floats(0, 1e10), st.integers(0, 300))
def test_every_slot_has_a_time_to_be_emptied_in(written_at: float, seconds: int) -> None:
    slot = int(written_at // RING.seconds) % RING.slots
    come_round = (written_at // RING.seconds + RING.slots) * RING.seconds
    assert timedelta(seconds=seconds) <= RING.longest_retention
    moments = [written_at + seconds + RING.seconds, come_round - RING.seconds - 1]
    assert any(slot in RING.over(moment, timedelta(seconds=seconds)) for moment in moments)


@given(st.timedeltas(timedelta(), timedelta(days=365)))
@example(timedelta(days=1, microseconds=1))
def test_turns_are_as_long_as_the_retention_needs(retention: timedelta) -> None:
    ring = Ring.keeping(retention)
    assert ring.seconds >= 60
    assert ring.longest_retention >= retention


@pytest.mark.parametrize(
    "expression",
    [
        "((floor(date_part('epoch'::text, clock_timestamp())))::bigint / 60) % (8)::bigint",
        "((floor(date_part('epoch'::text, clock_timestamp())))::bigint / 60) % 8",
    ],
)
def test_ring_is_read_from_the_table(expression: str) -> None:
    assert Ring.parse(expression) == RING


def test_slots_are_named_after_the_outbox() -> None:
    tables = Tables.beside('billing.o"x')
    assert tables.slot(3).as_string() == '"billing"."o""x_slot_3"'
    assert columns(tables, RING)["slots"].as_string().count("PARTITION OF") == 8
