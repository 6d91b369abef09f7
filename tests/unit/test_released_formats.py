"""What a released windrow has left in Kafka is read by this one: never change these bytes, only add to them."""

from uuid import UUID

import pytest

from windrow.capture.log_position import LogPosition
from windrow.capture.marks import Marked, MarkPosition
from windrow.capture.position import Position, Snapshot
from windrow.queue.marker import decode
from windrow.queue.marker_pb2 import Marker
from windrow.queue.runs import unpack
from windrow.record import Committed

CLUSTER = "7412345678901234567"
LO = Snapshot(100, 120, (101, 119))


@pytest.mark.parametrize(
    ("metadata", "released", "position"),
    [
        (b'{"v":1,"db":"7412345678901234567","lo":"100:20:1,18"}', 0, Position(CLUSTER, LO)),
        (b'3 {"v":1,"db":"7412345678901234567","lo":"100:20:1,18"}', 3, Position(CLUSTER, LO)),
        (
            b'3 {"v":1,"db":"7412345678901234567","lo":"100:20:1,18","hi":"130:0:","after":42}',
            3,
            Position(CLUSTER, LO, Snapshot(130, 130), 42),
        ),
        (
            b'0 {"v":1,"db":"7412345678901234567","lo":"~c-k{GFfgz(G6WI^I_9Hr6jB=k0AWgX$^"}',
            0,
            Position(CLUSTER, Snapshot(1000, 3100, tuple(range(1000, 3100, 7)))),
        ),
    ],
    ids=["before letters had numbers", "caught up", "in a backlog", "many open transactions"],
)
def test_position_of_0_1_0_beside_an_offset(metadata: bytes, released: int, position: Position) -> None:
    committed = Committed.read(7, metadata.decode())
    assert (committed.published, committed.released) == (7, released)
    assert Position.decode(committed.position) == position


def test_position_of_0_1_0_in_the_log() -> None:
    text = '{"v":1,"db":"7412345678901234567","lo":"100:20:","slot":"windrow_shop_1","lsn":4711,"commit":4800,"nth":2}'
    assert LogPosition.decode(text) == LogPosition(
        Position(CLUSTER, Snapshot(100, 120)), "windrow_shop_1", 4711, 4800, 2
    )


def test_position_of_0_1_0_in_marks() -> None:
    text = '{"v":1,"marks":[["00000000000000000000000000000005",1,9]]}'
    assert MarkPosition.decode(text) == MarkPosition((Marked(UUID(int=5), 1, 9),))


def test_marker_of_0_1_0() -> None:
    content = "08011206656d61696c731a10000102030405060708090a0b0c0d0e0f220c0807100218e807220303010228b0ea01"
    marker = decode(bytes.fromhex(content))
    (span,) = marker.spans
    assert (marker.type, marker.queue, marker.redeliver_after_ms) == (Marker.START, "emails", 30_000)
    assert (span.lease, span.partition, unpack(span.offset, span.runs)) == (7, 2, [1000, 1001, 1002, 1004, 1005])
