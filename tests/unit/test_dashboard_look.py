"""What is worth telling of the difference between two looks, and how fast and late messages were between them."""

from dataclasses import replace
from uuid import UUID

import pytest

from windrow.dashboard.candidates import Candidate
from windrow.dashboard.look import Look, latency, queue_remarks, rate, remarks, silences
from windrow.observe.histogram import Histogram
from windrow.queue.overview import QueueFigures
from windrow.relay.status import ShardStatus, Status

LEADER = UUID(int=7)
ONE = Candidate("a", "10.0.0.1", leads=True)


def look(moment: float, published: int = 0, leader: UUID | None = LEADER, letters: int = 0, shards: int = 1) -> Look:
    each = [ShardStatus(index, published, "", 0, 0.0, 0, 0) for index in range(shards)]
    return Look(1000 + moment, moment, Status("relay", leader, each), [ONE] if leader else [], letters, Histogram())


def told(before: Look | None, now: Look) -> list[str]:
    return [text for _, text in remarks(before, now)]


def test_nothing_is_told_of_the_first_look_or_of_more_of_the_same() -> None:
    assert told(None, look(1)) == told(look(1), look(2, published=5)) == []


def test_changes_are_told() -> None:
    assert told(look(1), look(2, leader=None)) == ["nobody leads", "0 relays stand for election, 1 before"]
    assert told(look(1, leader=None), look(2))[0] == "a new leader, in term 00000000, on 10.0.0.1"
    assert told(look(1), look(2, letters=1)) == ["1 more dead letter, 1 in all"]
    assert told(look(1, letters=3), look(2)) == ["3 dead letters less, 0 left"]
    assert told(look(1), look(2, shards=4)) == ["4 shards, 1 before"]


def test_rate_is_of_the_time_between_looks_and_never_negative() -> None:
    assert rate(None, look(1, 10)) == 0
    assert rate(look(1, 10), look(3, 30)) == 10
    assert rate(look(1, 10), look(3, 0)) == 0
    assert rate(look(1, 10), look(1, 20)) == 0


def test_latency_is_of_what_was_published_between_looks() -> None:
    before, now = Histogram(), Histogram()
    before.add(50, 1000)
    now.merge(before)
    now.add(0.02, 100)
    found = latency(replace(look(1), latency=before), replace(look(2), latency=now))
    assert found is not None
    assert 0.01 < found.p50 < found.p99 <= 0.025
    assert latency(None, look(1)) is None
    assert latency(look(1), look(2)) is None
    assert latency(replace(look(1), latency=now), replace(look(2), latency=before)) is None


def test_servers_that_do_not_answer_are_named() -> None:
    assert silences(None) == silences(look(1)) == []
    assert silences(replace(look(1), kafka_silent_for=7.4)) == ["Kafka has not answered for 7 s"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"paused": True}, "queue q is paused"),
        ({"dead_letters": 2}, "queue q: 2 more dead letters"),
        ({"consumers": 0}, "queue q has no consumers any more"),
        ({"depth": 100}, None),
    ],
)
def test_changes_of_queues_are_told(change: dict[str, int], text: str | None) -> None:
    before = QueueFigures("q", 0, 0, 0, 0.0, 0, 0, 0, 1, paused=False)
    now = {"q": replace(before, **change), "new": before}
    assert [each.text for each in queue_remarks({"q": before}, now)] == ([text] if text else [])
