"""What may be purged is what every shard of every relay has published."""

from hypothesis import given
from hypothesis import strategies as st

from windrow.capture.position import NOTHING, Position, Snapshot
from windrow.relay.deletion import Look, purged
from windrow.relay.purge import published_by_all


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    xmin = draw(st.integers(3, 40))
    xip = tuple(sorted(draw(st.sets(st.integers(xmin, 60), max_size=10))))
    return Snapshot(xmin, draw(st.integers(max(xip, default=xmin), 61)) + 1, xip)


@given(snapshots(), snapshots())
def test_meet_sees_what_both_see(one: Snapshot, other: Snapshot) -> None:
    both = one.meet(other)
    assert [tx for tx in range(70) if both.sees(tx)] == [tx for tx in range(70) if one.sees(tx) and other.sees(tx)]
    assert Snapshot.parse(str(both)) == both


@given(st.lists(st.lists(snapshots(), min_size=1, max_size=3), min_size=1, max_size=3))
def test_slowest_shard_of_all_relays_decides(relays: list[list[Snapshot]]) -> None:
    positions = [(len(lows), [Position("7", low, None).encode() for low in lows]) for lows in relays]
    published = published_by_all(positions, "7")
    assert all(not published.sees(tx) or all(low.sees(tx) for lows in relays for low in lows) for tx in range(70))


def test_shard_without_a_position_holds_everything_back() -> None:
    position = Position("7", Snapshot(100, 100)).encode()
    assert published_by_all([(1, [position]), (2, [position])], "7") == NOTHING
    assert published_by_all([], "7") == NOTHING
    assert published_by_all([(1, [position])], "7") == Snapshot(100, 100)


def test_position_that_says_nothing_of_this_cluster_holds_everything_back() -> None:
    ours = Position("7", Snapshot(100, 100)).encode()
    for other in (Position("8", Snapshot(200, 200)).encode(), "somebody else's", ""):
        assert published_by_all([(2, [ours, other])], "7") == NOTHING
        assert published_by_all([(1, [ours]), (1, [other])], "7") == NOTHING


@given(snapshots(), snapshots(), st.sets(st.integers(3, 60)))
def test_what_is_purged_was_published_and_not_kept(done: Snapshot, published: Snapshot, kept: set[int]) -> None:
    seen = {tx for tx in kept if published.sees(tx) and not done.sees(tx)}
    later = purged(done, published, Look([], seen, full=False))
    assert all(published.sees(tx) and tx not in seen for tx in range(70) if later.sees(tx))
    assert Snapshot.parse(str(later)) == later


@given(snapshots(), snapshots())
def test_purge_that_kept_nothing_has_come_as_far_as_was_published(done: Snapshot, published: Snapshot) -> None:
    later = purged(done, published, Look([], set(), full=False))
    assert [tx for tx in range(70) if later.sees(tx)] == [tx for tx in range(70) if published.sees(tx)]


def test_look_that_was_not_enough_does_not_count() -> None:
    done, published = Snapshot(10, 20, (10, 15)), Snapshot(15, 100, (15, 50))
    assert purged(done, published, Look([], set(), full=True)) == done
    assert purged(done, published, Look([], {30, 40}, full=True)) == Snapshot(10, 30, (10, 15))


def test_transaction_within_its_retention_is_looked_at_again() -> None:
    done, published = Snapshot(10, 20, (10, 15)), Snapshot(15, 100, (15, 50))
    assert purged(done, published, Look([], {10}, full=False)) == Snapshot(10, 100, (10, 15, 50))
    assert purged(done, published, Look([], {10, 70, 80}, full=False)) == Snapshot(10, 70, (10, 15, 50))
