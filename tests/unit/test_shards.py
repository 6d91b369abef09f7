"""A key's shard never changes, whatever is upgraded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.capture.shards import predicate, shard_of
from windrow.database.layouts import OWN
from windrow.record import Shard


@pytest.mark.parametrize(
    ("key", "topic", "shards", "shard"),
    [
        # SHA-256 of "abc" begins with ba78, of the empty string with e3b0: the vectors of its standard.
        (b"abc", "orders", 1024, 0xBA78 % 1024),
        (b"abc", "orders", 7, 0xBA78 % 7),
        (b"", "orders", 1024, 0xE3B0 % 1024),
        (b"", "orders", 5, 0xE3B0 % 5),
        (None, "abc", 7, 0xBA78 % 7),
        (b"abc", "another topic", 7, 0xBA78 % 7),
        (b"anything", "orders", 1, 0),
    ],
)
def test_shards_of_known_keys_stay_where_they_are(key: bytes | None, topic: str, shards: int, shard: int) -> None:
    assert shard_of(key, topic, shards) == shard


@given(st.none() | st.binary(), st.text(), st.integers(1, 1024))
def test_every_message_has_one_of_the_shards(key: bytes | None, topic: str, shards: int) -> None:
    topic = topic.encode(errors="ignore").decode()
    assert 0 <= shard_of(key, topic, shards) < shards


def test_keys_spread_over_all_shards() -> None:
    used = {shard_of(str(number).encode(), "orders", 16) for number in range(1_000)}
    assert used == set(range(16))


def test_a_single_shard_asks_the_database_for_no_hash() -> None:
    assert predicate(Shard(0, 1), OWN).as_string() == "true"
    assert predicate(Shard(3, 8), OWN).as_string().endswith(", 8) = 3")
