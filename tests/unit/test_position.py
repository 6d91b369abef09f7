"""Positions survive their way through Kafka's metadata, and a narrowed snapshot only ever delays."""

import contextlib
import json
from itertools import accumulate, pairwise
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from windrow.capture.position import MAX_SNAPSHOT, NOTHING, Position, Snapshot
from windrow.errors import PositionForeign

KAFKA_METADATA = 4096
_LAST_XID = 2**64 - 1


@st.composite
def snapshots(draw: st.DrawFn, *, most_open: int = 60, widest_gap: int = 2**40) -> Snapshot:
    """As PostgreSQL gives them: xmin is the oldest open transaction, or xmax where none is open."""
    xmin = draw(st.integers(3, 2**62))
    gaps = draw(st.lists(st.integers(1, widest_gap), max_size=most_open))
    xip = tuple(accumulate(gaps, initial=xmin))[:-1]
    xmax = xip[-1] + draw(st.integers(1, widest_gap)) if xip else xmin
    return Snapshot(xmin, xmax, xip)


def crowded(random: Random, count: int, widest_gap: int) -> Snapshot:
    """A snapshot with many open transactions and random distances between them."""
    xip = tuple(accumulate((random.randint(1, widest_gap) for _ in range(count)), initial=2**61))
    return Snapshot(xip[0], xip[-1] + random.randint(1, widest_gap), xip)


def neighbours(snapshot: Snapshot) -> list[int]:
    """Transactions at which what a snapshot sees can change."""
    edges = {snapshot.xmin, snapshot.xmax, *snapshot.xip}
    return sorted({tx + step for tx in edges for step in (-1, 0, 1)})


@given(snapshots())
def test_snapshot_reads_what_postgresql_writes(snapshot: Snapshot) -> None:
    assert Snapshot.parse(str(snapshot)) == snapshot


def test_snapshot_sees_what_postgresql_says_it_sees() -> None:
    snapshot = Snapshot.parse("100:120:100,105,119")
    assert [tx for tx in range(95, 125) if not snapshot.sees(tx)] == [100, 105, 119, *range(120, 125)]
    assert not any(NOTHING.sees(tx) for tx in (1, 2, 3, 1000))


@given(snapshots(most_open=400))
def test_packed_snapshot_unpacks_to_itself(snapshot: Snapshot) -> None:
    assert Snapshot.unpack(snapshot.pack()) == snapshot


@given(st.integers(1, 5_000), st.sampled_from([1, 2, 10, 1_000, 2**40]), st.integers().map(Random))
def test_packed_snapshot_of_many_open_transactions_unpacks_to_itself(
    count: int, widest_gap: int, random: Random
) -> None:
    snapshot = crowded(random, count, widest_gap)
    assert Snapshot.unpack(snapshot.pack()) == snapshot


@given(snapshots(), st.data())
def test_view_before_a_transaction_sees_what_the_whole_does_up_to_there(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    xmax = data.draw(st.sampled_from(neighbours(snapshot)))
    view = snapshot.before(xmax)
    assert all(view.sees(tx) == (tx < xmax and snapshot.sees(tx)) for tx in neighbours(snapshot))
    assert view.xmin == (view.xip[0] if view.xip else view.xmax)


@given(snapshots(), st.integers(60, 600))
def test_narrowed_snapshot_fits_and_sees_nothing_that_the_whole_does_not(snapshot: Snapshot, characters: int) -> None:
    view = snapshot.narrowed(characters, NOTHING)
    assert len(view.pack()) <= characters
    assert [tx for tx in neighbours(snapshot) if view.sees(tx) and not snapshot.sees(tx)] == []
    assert view.sees(snapshot.xmin - 1)


@given(snapshots(most_open=20))
def test_narrowing_leaves_alone_what_fits(snapshot: Snapshot) -> None:
    assert snapshot.narrowed(MAX_SNAPSHOT, NOTHING) == snapshot


@given(snapshots(), st.integers(60, 600))
def test_narrowed_snapshot_sees_everything_once_the_old_transactions_are_over(
    snapshot: Snapshot, characters: int
) -> None:
    """Narrowing delays; it does not stand still for ever."""
    assume(snapshot.xip)
    later = Snapshot(snapshot.xmax, snapshot.xmax)
    view = snapshot.narrowed(characters, NOTHING)
    assert all(later.narrowed(characters, NOTHING).sees(tx) for tx in neighbours(snapshot) if view.sees(tx))
    assert later.narrowed(characters, NOTHING) == later


def test_what_was_visible_stays_visible_while_ever_more_transactions_are_open() -> None:
    open_ones = crowded(Random(1), 1_000, 2**40).xip
    seen = [Snapshot(open_ones[0], open_ones[count], open_ones[:count]) for count in range(1, 1_000)]
    narrowed = list(accumulate(seen, lambda earlier, each: each.narrowed(MAX_SNAPSHOT, earlier), initial=NOTHING))
    assert [later.xmax for earlier, later in pairwise(narrowed) if later.xmax < earlier.xmax] == []


@given(
    st.from_regex(r"\d{1,20}", fullmatch=True),
    snapshots(),
    st.none() | snapshots(),
    st.integers(1, 2**63 - 1),
)
def test_position_decodes_to_itself(database: str, lo: Snapshot, hi: Snapshot | None, after: int) -> None:
    position = Position(database, lo, hi, after if hi else 0)
    assert Position.decode(position.encode()) == position


@pytest.mark.parametrize("widest_gap", [1, 2, 50, 10_000, 2**32, 2**50])
@given(random=st.integers().map(Random))
def test_position_with_500_open_transactions_twice_fits_beside_an_offset(widest_gap: int, random: Random) -> None:
    lo, hi = (crowded(random, 500, widest_gap).narrowed(MAX_SNAPSHOT, NOTHING) for _ in range(2))
    position = Position(str(_LAST_XID), lo, hi, 2**63 - 1)
    assert len(position.encode().encode()) <= KAFKA_METADATA
    assert Position.decode(position.encode()) == position


def test_500_open_transactions_of_a_busy_server_are_all_kept() -> None:
    snapshot = crowded(Random(500), 500, 50)
    assert snapshot.narrowed(MAX_SNAPSHOT, NOTHING) == snapshot


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "null",
        "[]",
        "5",
        '"text"',
        "{}",
        '{"v":1}',
        '{"v":1,"db":"7","lo":"x"}',
        '{"v":1,"db":"7","lo":"1:2"}',
        '{"v":1,"db":"7","lo":5}',
        '{"v":1,"db":"7","lo":null}',
        '{"v":1,"db":"7","lo":"~not base85 \\u00e9"}',
        '{"v":1,"db":"7","lo":"~abcde"}',
        '{"v":1,"db":"7","lo":"1:0:","hi":null}',
        '{"v":2,"db":"7","lo":"1:0:"}',
        '{"v":1,"db":"7","lo":"1:0:"',
        "[" * 4000,
    ],
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(PositionForeign):
        Position.decode(text)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(PositionForeign):
        Position.decode(text)


@given(snapshots(), snapshots(), st.data())
def test_garbled_position_is_refused_or_read_but_never_crashes(lo: Snapshot, hi: Snapshot, data: st.DataObject) -> None:
    text = Position("7", lo, hi, 5).encode()
    at = data.draw(st.integers(0, len(text) - 1))
    garbled = text[:at] + data.draw(st.characters(codec="ascii")) + text[at + 1 :]
    with contextlib.suppress(PositionForeign):
        assert isinstance(Position.decode(garbled), Position)
