"""How fast a relay goes and what it has in flight, as its owner sees it."""

from collections.abc import Callable

from fix_pipeline import Pipeline, wait_for
from windrow.relay import Event, MeterRead, Relay
from windrow.relay.status import status


def test_figures_follow_the_load_and_stay_within_the_limit(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(limits={"maxInFlightRecords": 20, "minMetricsInterval": "200ms"})
    events: list[Event] = []
    flights: set[int] = set()

    def readings() -> list[MeterRead]:
        return [event for event in events if isinstance(event, MeterRead)]

    with Relay(pipeline.settings, pipeline.spark, events.append) as relay:
        assert (relay.in_flight_records, relay.in_flight_keys) == (0, 0)
        count = 0

        def flying() -> bool:
            nonlocal count
            if count - relay.published() < 500:  # so that there is always something to do, and never too much
                pipeline.write(*(pipeline.message(f"{number}", f"{number % 3}") for number in range(500)))
                count += 500
            flights.add(relay.in_flight_records)
            return max(flights) > 0 and any(each.in_flight_records for each in readings())

        wait_for(flying, "records in flight")
        seen = status(pipeline.settings).shards[0]
        pipeline.wait_published(relay, count)
        wait_for(lambda: readings()[-1].published == count, "a reading of all records")
        wait_for(lambda: readings()[-1].rate == 0, "a reading of an idle relay")
        wait_for(lambda: relay.in_flight_records == 0, "nothing in flight")
    assert max(flights) <= 20
    assert max(each.in_flight_keys for each in readings()) <= 3
    assert seen.in_flight_records <= 20
    assert sum(each.records for each in readings()) <= count
    assert max(each.rate for each in readings()) > 0
    assert {each.leader_id for each in readings()} == {events[0].leader_id}
