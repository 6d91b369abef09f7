"""What shards have committed after their number changed, and how that is kept beside an offset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.record import Committed, latest
from windrow.relay.reshard import spread

counts = st.lists(st.integers(0, 10**12), min_size=1, max_size=8)


@given(counts, st.integers(1, 12), st.data())
def test_no_record_is_counted_twice_or_forgotten(published: list[int], wanted: int, data: st.DataObject) -> None:
    released = data.draw(st.lists(st.integers(0, 99), min_size=len(published), max_size=len(published)))
    before = {shard: Committed(published[shard], "here", released[shard]) for shard in range(len(published))}
    after = spread(before, wanted)
    assert set(after) == set(range(max(len(published), wanted)))
    assert sum(at.published for at in after.values()) == sum(published)
    assert all(at.published == 0 for shard, at in after.items() if shard >= wanted)
    assert {(at.position, at.released) for at in after.values()} == {("here", min(released))}
    again = spread({shard: after[shard] for shard in before}, wanted)
    assert {shard: at._replace(resharded=1) for shard, at in again.items()} == after  # but for how often
    assert all(latest(before.get(shard), after[shard], at) == at for shard, at in again.items())  # whatever the counts


@pytest.mark.parametrize("committed", [Committed(3, '{"v":1}'), Committed(0, "a b\n c", 12, 4)])
def test_committed_progress_survives_its_way_through_kafka(committed: Committed) -> None:
    assert Committed.read(committed.published, committed.metadata) == committed


@pytest.mark.parametrize("metadata", ["", '{"v": 1}', "somebody else's", "²3/1 x", "1/ x", "1/2/3 x"])
def test_what_windrow_did_not_write_is_left_for_the_capture_to_refuse(metadata: str) -> None:
    assert Committed.read(7, metadata) == Committed(7, metadata)


def test_what_the_first_release_kept_beside_an_offset_is_read() -> None:
    assert Committed.read(7, '12 {"v":1}') == Committed(7, '{"v":1}', 12)
