"""Whether a relay is well, as a function of what was seen."""

from datetime import timedelta

import pytest

from windrow.observe.health import Bounds, Seen, objections

BOUNDS = Bounds(timedelta(seconds=30), timedelta(minutes=5), 1_000_000_000)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(Seen(), id="nothing is known yet"),
        pytest.param(Seen(backlog=0, oldest_age=0.0, unpublished_for=9999), id="idle"),
        pytest.param(Seen(backlog=10**6, oldest_age=200, unpublished_for=1), id="behind, and catching up"),
        pytest.param(Seen(backlog=1, oldest_age=1, unpublished_for=9999), id="the first message after a long time"),
        pytest.param(Seen(leaderless_for=20, kafka_silent_for=20, database_silent_for=20), id="a takeover"),
        pytest.param(Seen(slot_held=1_000_000_000), id="a slot at its limit"),
    ],
)
def test_relay_is_ready(seen: Seen) -> None:
    assert [*objections(seen, BOUNDS)] == []


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (
            Seen(backlog=7, oldest_age=40, unpublished_for=35),
            "7 messages wait, and nothing has been published for 35 s",
        ),
        (Seen(backlog=7, oldest_age=301, unpublished_for=0), "the oldest message has waited for 301 s"),
        (Seen(leaderless_for=31), "nobody has led for 31 s"),
        (Seen(database_silent_for=31), "the database has not answered for 31 s"),
        (Seen(kafka_silent_for=31), "Kafka has not answered for 31 s"),
        (Seen(slot_held=1_500_000_000), "the database keeps 1500 MB of its log for the relay"),
    ],
)
def test_relay_is_not_ready(seen: Seen, why: str) -> None:
    assert [*objections(seen, BOUNDS)] == [why]


def test_messages_that_wait_on_purpose_do_not_count() -> None:
    sweeping = Bounds(timedelta(seconds=30), timedelta(minutes=5), 0, waits_for=timedelta(minutes=10))
    assert [*objections(Seen(backlog=1, oldest_age=620, unpublished_for=700), sweeping)] == []
    assert len([*objections(Seen(backlog=1, oldest_age=1000, unpublished_for=700), sweeping)]) == 2
