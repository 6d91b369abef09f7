"""How long to wait: never outside the bounds, never shorter for having waited longer."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from windrow.pace import backoff, poll_delay

_SHORT, _LONG = timedelta(milliseconds=2), timedelta(milliseconds=50)
_SECONDS = st.floats(0, 1e9)


@given(_SECONDS, st.timedeltas(timedelta(0), _LONG), st.timedeltas(_LONG, timedelta(days=1)))
def test_polling_keeps_within_its_bounds(idle: float, shortest: timedelta, longest: timedelta) -> None:
    delay = poll_delay(idle, shortest, longest)
    assert shortest.total_seconds() <= delay <= longest.total_seconds()


@given(_SECONDS, _SECONDS)
def test_polling_slows_down_while_the_outbox_is_idle(one: float, other: float) -> None:
    earlier, later = sorted((one, other))
    assert poll_delay(earlier, _SHORT, _LONG) <= poll_delay(later, _SHORT, _LONG)


def test_polling_is_eager_while_messages_flow_and_slow_after_a_second() -> None:
    assert poll_delay(0, _SHORT, _LONG) == 0.002
    assert poll_delay(0.5, _SHORT, _LONG) == 0.025
    assert poll_delay(1, _SHORT, _LONG) == 0.05


def test_the_shortest_wait_holds_where_it_is_longer_than_the_longest() -> None:
    assert poll_delay(0, _LONG, _SHORT) == poll_delay(100, _LONG, _SHORT) == 0.05


def test_back_off_doubles_up_to_the_longest() -> None:
    waits = [backoff(failures, timedelta(milliseconds=500), timedelta(seconds=30)) for failures in range(1, 10)]
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_servers_that_are_back_are_noticed_within_a_second() -> None:
    assert backoff(1_000, timedelta(milliseconds=500)) == 1
    assert backoff(1_000, timedelta(seconds=5)) == 5


@given(st.integers(1, 10_000), st.timedeltas(timedelta(microseconds=1), timedelta(seconds=30)))
def test_back_off_never_shrinks_and_never_exceeds_the_longest(failures: int, first: timedelta) -> None:
    longest = timedelta(seconds=30)
    assert first.total_seconds() <= backoff(failures, first, longest) <= backoff(failures + 1, first, longest) <= 30
