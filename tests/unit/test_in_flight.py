"""What a shard has in flight, and how a limit to it bounds its pages."""

import pytest

from windrow.record import Record
from windrow.relay.in_flight import InFlight
from windrow.relay.registry import Flight
from windrow.settings import Limits


def page(*keys: bytes | None) -> list[Record]:
    return [Record(number, "topic", key, b"", [], [], None, None) for number, key in enumerate(keys)]


def test_pages_are_in_flight_from_their_reading_to_their_commit() -> None:
    in_flight = InFlight()
    assert in_flight.count() == Flight(0, 0)
    in_flight.read(page(b"a", b"b", b"a"))
    in_flight.read(page(b"b", None))
    assert in_flight.count() == Flight(records=5, keys=2)
    in_flight.committed()
    assert in_flight.count() == Flight(records=2, keys=1)
    in_flight.read(page(b"c"))
    in_flight.dropped()
    assert in_flight.count() == Flight(0, 0)


@pytest.mark.parametrize(
    ("limits", "at_once", "ahead"),
    [
        pytest.param(Limits(), 10_000, True, id="default"),
        pytest.param(Limits(page_records=70_000), 70_000, True, id="only pages are bounded"),
        pytest.param(Limits(max_in_flight_records=1_000), 500, True, id="the next page is read ahead"),
        pytest.param(Limits(page_records=100, max_in_flight_records=1_000), 100, True, id="small pages"),
        pytest.param(Limits(max_in_flight_records=3), 1, True, id="odd"),
        pytest.param(Limits(max_in_flight_records=1), 1, False, id="one alone leaves nothing to read ahead"),
    ],
)
def test_two_pages_are_no_more_than_may_be_in_flight(limits: Limits, at_once: int, ahead: bool) -> None:  # noqa: FBT001
    assert (limits.records_at_once, limits.reads_ahead) == (at_once, ahead)
