"""The form of Kafka's own log of offsets."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.errors import Interrupted
from windrow.kafka.offsets_log import Place, log_partition, offset_in, place_of

names = st.text(max_size=200)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def compact(value: str) -> bytes:
    length, parts = len(value.encode()) + 1, b""
    while length > 0x7F:
        parts, length = parts + bytes([length & 0x7F | 0x80]), length >> 7
    return parts + bytes([length]) + value.encode()


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("", 0),
        ("a", 47),
        ("windrow.relay", 25),
        ("console-consumer-41911", 47),
        ("grüße 🌾", 21),
        ("windrow.orders", 39),  # below zero
        ("polygenelubricants", 0),  # the lowest number, which has no opposite
    ],
)
def test_group_has_the_partition_that_java_says(group: str, partition: int) -> None:
    assert log_partition(group, 50) == partition


@pytest.mark.parametrize("version", [0, 1])
@given(group=names, topic=names, partition=st.integers(0, 2**31 - 1))
def test_key_tells_of_what(version: int, group: str, topic: str, partition: int) -> None:
    key = struct.pack(">h", version) + text(group) + text(topic) + struct.pack(">i", partition)
    assert place_of(key) == Place(group, topic, partition)


def test_what_else_the_log_holds_is_passed_over() -> None:
    assert place_of(struct.pack(">h", 2) + text("a group's own record")) is None


@given(offset=st.integers(0, 2**63 - 1), metadata=st.text(max_size=4000).map(lambda text: text.rstrip("\0")))
def test_value_tells_the_offset_and_what_is_beside_it(offset: int, metadata: str) -> None:
    number, rest = struct.pack(">q", offset), struct.pack(">q", 1_700_000_000_000)
    for version in (0, 1, 2):
        assert offset_in(struct.pack(">h", version) + number + text(metadata) + rest) == (offset, metadata)
    epoch = struct.pack(">i", 7)
    assert offset_in(struct.pack(">h", 3) + number + epoch + text(metadata) + rest) == (offset, metadata)
    assert offset_in(struct.pack(">h", 4) + number + epoch + compact(metadata) + rest + b"\0") == (offset, metadata)


def test_zero_at_the_end_is_not_part_of_the_text() -> None:
    assert offset_in(struct.pack(">hq", 0, 1) + text("beside\0") + struct.pack(">q", 0)) == (1, "beside")


def test_newer_form_is_not_guessed() -> None:
    with pytest.raises(Interrupted, match="does not know"):
        offset_in(struct.pack(">hq", 5, 1))
