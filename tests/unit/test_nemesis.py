"""The schedule of a run, and what becomes of its record: pure functions."""

from dataclasses import replace
from random import Random
from xml.etree import ElementTree as ET

import pytest

from windrow.lab.history import QUEUED, Effect, Handling, Operation, Receipt, Sent
from windrow.lab.load import draw
from windrow.lab.nemesis import detection_of, faults, outage_of, schedule
from windrow.lab.picture import timeline
from windrow.lab.report import Incident, Run, verdict_on

NAMES = [f"fault {number}" for number in range(12)]


def test_a_seed_is_a_schedule() -> None:
    assert schedule(7, 10, NAMES) == schedule(7, 10, NAMES) != schedule(8, 10, NAMES)


@pytest.mark.parametrize("seed", range(5))
def test_every_fault_comes_once_in_every_round_and_some_together(seed: int) -> None:
    steps = schedule(seed, 60, NAMES)
    happened = [name for step in steps for name in step.faults]
    for start in range(0, len(happened) - len(NAMES), len(NAMES)):
        assert set(happened[start : start + len(NAMES)]) == set(NAMES)
    assert {len(step.faults) for step in steps} == {1, 2}
    assert [step.at for step in steps] == sorted(step.at for step in steps)
    assert steps[-1].at < 60 * 60


def test_a_log_has_one_reader_and_is_not_resharded() -> None:
    assert faults(6.0).keys() - faults(6.0, tails=True).keys() == {"reshard"}
    assert len(faults(6.0)) >= 20


def test_only_one_of_several_brokers_can_be_lost_alone() -> None:
    assert faults(6.0, brokers=3).keys() - faults(6.0).keys() == {"one broker killed", "one broker paused"}


def test_a_cluster_has_hosts_to_lose_and_keeps_its_clocks() -> None:
    on_cluster = faults(6.0, cluster=True).keys()
    assert on_cluster - faults(6.0).keys() == {"Spark worker killed", "Spark worker paused"}
    assert faults(6.0).keys() - on_cluster == {"leader's clock ahead", "leader's clock behind"}


def test_queues_have_faults_of_their_own() -> None:
    new = faults(6.0, queues=True).keys() - faults(6.0).keys()
    assert new == {"worker killed", "worker paused", "tracker killed", "tracker paused"}


@pytest.mark.parametrize(
    ("names", "outage"),
    [
        (["leader paused"], "beginning"),
        (["leader paused", "purge"], "beginning"),
        (["leader paused", "leader stopped"], "end"),
        (["standby killed", "leader killed"], "end"),
        (["leader killed", "broker paused"], "end"),
        (["database cut off"], "end"),
    ],
)
def test_what_nobody_can_do_anything_about_is_counted_from_its_end(names: list[str], outage: str) -> None:
    known = faults(6.0)
    assert outage_of([known[name] for name in names]) == outage


@pytest.mark.parametrize(
    ("names", "seconds"),
    [
        (["leader killed"], 6.0),
        (["leader stopped"], 0.0),
        (["Kafka cut off"], 0.0),
        (["leader stopped", "Kafka cut off"], 6.0),
        (["Kafka half-open", "executors killed"], 6.0),
        (["leader stopped", "Kafka delayed"], 0.0),
        (["purge", "Kafka cut off"], 0.0),
    ],
)
def test_a_relay_that_goes_unheard_is_missed_as_a_dead_one_is(names: list[str], seconds: float) -> None:
    known = faults(6.0)
    assert detection_of([known[name] for name in names]) == seconds


def test_an_effect_that_is_missing_and_one_too_many() -> None:
    verdict = verdict_on(run(GOOD, 2, done="bb"), "topic")
    assert (verdict.effects_missed, verdict.effects_doubled) == (1, 1)
    assert not verdict.sound


def test_writers_wait_for_hot_keys_first() -> None:
    shapes = [draw(Random(seed), "client") for seed in range(2_000)]
    assert {each.kind for each in shapes} == {"plain", "rolled back", "savepoint", "prepared", "early", "long", "large"}
    assert all(sum(key.startswith("hot") for key in each.keys[1:]) == 0 for each in shapes)


def run(receipts: list[Receipt], published: int, delivery: str = "exactly-once", done: str = "ab") -> Run:
    operations = [
        Operation("writer", 1, (Sent("a", "key", 1),), "ok", 0.0, 1.0),
        Operation("writer", 2, (Sent("b", "key", 2),), "ok", 11.0, 12.0),
    ]
    effects = [Effect(message, "group", "ok") for message in done]
    incident = Incident(("leader killed",), 10.0, 14.0, 10.0, 6.0)
    return Run(
        3, delivery, operations, receipts, [incident], effects, published, frozenset({1, 2}), [(15.0, "relay <2>")]
    )


GOOD = [Receipt("a", 0, 0, 1.5), Receipt("b", 0, 2, 18.0)]


def test_a_sound_run() -> None:
    verdict = verdict_on(run(GOOD, 2), "topic")
    assert verdict.sound
    assert (verdict.written, verdict.received, verdict.faults) == (2, 2, {"leader killed": 1})
    assert (verdict.recoveries, verdict.late_recoveries) == ({"leader killed": 2.0}, 0)
    later = verdict_on(run([GOOD[0], GOOD[1]._replace(at=19.5)], 2), "topic")
    assert (later.sound, later.recoveries, later.late_recoveries) == (True, {"leader killed": 3.5}, 1)


@pytest.mark.parametrize(
    ("bad", "wrong"),
    [
        (run(GOOD[:1], 1), {"lost", "unrecovered"}),
        (run([*GOOD, GOOD[0]], 3), {"duplicated"}),
        (run([GOOD[0], Receipt("b", 0, 2, 80.0)], 2), {"unrecovered"}),
        (run(GOOD[::-1], 2), {"reordered", "overtaken"}),
        (run(GOOD, 3), {"misplaced"}),
    ],
)
def test_a_run_that_is_not_sound(bad: Run, wrong: set[str]) -> None:
    verdict = verdict_on(bad, "topic").as_dict()
    counts = {name for name in verdict if isinstance(verdict[name], int) and verdict[name]}
    assert counts - {"seed", "written", "received", "late_recoveries"} == wrong


def test_where_nothing_was_tried_nothing_is_sound() -> None:
    nothing = replace(run([], 0, done=""), operations=[], incidents=[])
    assert not verdict_on(nothing, "topic").sound
    assert not verdict_on(replace(run(GOOD, 2), incidents=[]), "topic").sound


def test_a_fault_that_did_not_come_about_or_costs_too_much_is_unrecovered() -> None:
    good = run(GOOD, 2)
    assert verdict_on(replace(good, incidents=[replace(good.incidents[0], undone=True)]), "topic").unrecovered == 1
    assert [verdict_on(good, "topic", within).unrecovered for within in (2.5, 1.5)] == [0, 1]


def test_a_consumers_recovery_is_that_of_its_effects_in_every_partition() -> None:
    good = run([Receipt("a", 0, 0, 1.5), Receipt("b", 1, 0, 11.5), Receipt("c", 0, 1, 11.5)], 3)
    paused = Incident(("consumer paused",), 10.0, 14.0, 10.0, 6.0, of_consumer=True)
    third = Operation("writer", 3, (Sent("c", "key", 3),), "ok", 11.0, 12.0)
    effects = [Effect("a", "group", "ok", 2.0), Effect("b", "group", "ok", 12.0), Effect("c", "group", "ok", 19.0)]
    consumed = replace(good, operations=[*good.operations, third], incidents=[paused], effects=effects)
    assert verdict_on(consumed, "topic").recoveries == {"consumer paused": 3.0}
    assert verdict_on(replace(consumed, effects=effects[:2]), "topic").unrecovered == 1


@pytest.mark.parametrize(
    ("handled", "wrong"),
    [
        ([Handling("q", 3.0, 3.0, "unknown"), Handling("q", 4.0, 5.0, "ok", 5.0)], set()),
        ([Handling("q", 3.0, 3.0, "failed", 4.0)], {"queue_lost"}),
        ([Handling("q", 3.0, 4.0, "ok", 4.0), Handling("q", 5.0, 5.0, "unknown")], {"queue_doubled"}),
    ],
)
def test_a_queue_is_judged_by_what_its_workers_did(handled: list[Handling], wrong: set[str]) -> None:
    sound = run(GOOD, 3)
    queued = Operation("writer", 3, (Sent("q", QUEUED, 0),), "ok", 2.0, 2.5)
    bad = replace(sound, operations=[*sound.operations, queued], queued=[Receipt("q")], handled=handled)
    verdict = verdict_on(bad, "topic")
    assert verdict.wrong.keys() == wrong
    assert verdict_on(replace(bad, queued=[]), "topic").lost == 1


def test_repeats_at_once_are_sound_where_delivery_is_at_least_once() -> None:
    assert verdict_on(run([GOOD[0], *GOOD], 0, "at-least-once"), "topic").sound


@pytest.mark.parametrize(
    ("holds_up", "first", "at", "late"),
    [
        (True, 9.0, 12.0, {"leader paused": 1}),
        (True, 9.0, 18.9, {"leader paused": 1}),  # healed 4.9 s ago
        (True, 5.1, 12.0, {"leader paused": 1}),
        (True, 4.9, 12.0, {}),  # long before anything was held up
        (True, 9.0, 19.1, {}),
        (True, 9.0, 9.9, {}),
        (False, 9.0, 12.0, {}),
    ],
)
def test_at_least_once_a_repeat_may_be_late_only_where_it_was_held_up(
    *, holds_up: bool, first: float, at: float, late: dict[str, int]
) -> None:
    received = [GOOD[0]._replace(at=first), GOOD[1], GOOD[0]._replace(at=at)]
    repeated = run(received, 0, "at-least-once")
    paused = Incident(("leader paused",), 10.0, 14.0, 10.0, 6.0, holds_up)
    verdict = verdict_on(replace(repeated, incidents=[paused]), "topic")
    assert (verdict.repeated_late, verdict.duplicated) == (late, 0 if late else 1)
    assert verdict.sound == bool(late)
    assert verdict_on(replace(repeated, incidents=[paused], delivery="exactly-once"), "topic").duplicated == 1


@pytest.mark.parametrize(("received", "wrong"), [(GOOD[:1], {"lost", "unrecovered"}), (GOOD[::-1], {"reordered"})])
def test_at_least_once_nothing_is_lost_and_a_key_keeps_its_order(received: list[Receipt], wrong: set[str]) -> None:
    assert verdict_on(run(received, 0, "at-least-once"), "topic").wrong.keys() == wrong


def test_the_timeline_is_a_picture() -> None:
    picture = ET.fromstring(timeline(run(GOOD, 2)))  # noqa: S314 - our own
    texts = [element.text for element in picture.iter() if element.text]
    assert any("leader killed (2.0 s)" in text for text in texts)
    assert "relay <2> leads" in texts


def test_a_long_timeline_has_a_strip_for_every_five_minutes() -> None:
    faults = [Incident((f"fault {place}",), 20.0 * place, 20.0 * place + 4, 20.0 * place, 0.0) for place in range(60)]
    hour = replace(run([*GOOD, Receipt("b", 0, 3, 1_190.0)], 3), incidents=faults)
    picture = ET.fromstring(timeline(hour))  # noqa: S314 - our own
    lines = [element for element in picture.iter() if element.get("class") == "received"]
    names = [element.text for element in picture.iter() if (element.text or "").startswith("fault ")]
    assert (len(lines), len(names)) == (4, 60)
    assert all(0 <= float(element.get("x") or 0) <= 1400 for element in picture.iter())


def test_a_run_in_which_nothing_came_has_a_timeline_too() -> None:
    silent = replace(run([], 0), operations=[])
    assert "leader killed (not recovered)" in timeline(silent)
