"""Election by lease: one of several leads, terms rise, and who was deposed changes nothing."""

import dataclasses
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from uuid import uuid4

import pytest

from fix_pipeline import Pipeline, wait_for
from windrow.doctor import examine
from windrow.election.lease import Lease, LeaseRow
from windrow.election.mandate import Term
from windrow.errors import Interrupted, RelayFenced, UserError
from windrow.kafka.clients import members, position_reader, widen_position_topic
from windrow.publish.transaction import PositionsPublisher
from windrow.record import Shard
from windrow.relay import Event, LeaderAcquired, LeaderRevoked, MeterRead, Relay
from windrow.relay.purge import Purger
from windrow.relay.registry import Registry
from windrow.relay.repair import Repair
from windrow.relay.reshard import Resharding, fence
from windrow.relay.seat import Seat
from windrow.relay.setup import prepare
from windrow.relay.status import status


@pytest.fixture
def leased(make_pipeline: Callable[..., Pipeline]) -> Pipeline:
    return make_pipeline(election="lease", limits={"leaseTimeout": "500ms"})


@pytest.fixture
def patient(make_pipeline: Callable[..., Pipeline]) -> Pipeline:
    """With a lease that does not expire while a test lasts."""
    return make_pipeline(election="lease", limits={"leaseTimeout": "5m"})


def candidate(pipeline: Pipeline) -> LeaseRow:
    return LeaseRow(pipeline.settings, uuid4())


def taken(row: LeaseRow) -> Term:
    number = row.take()
    assert number is not None
    return Term(uuid4(), b"", number)


def test_lease_is_held_by_one_and_goes_over_when_it_is_given_back(patient: Pipeline) -> None:
    with closing(candidate(patient)) as first, closing(candidate(patient)) as second:
        assert (first.take(), second.take()) == (1, None)
        assert first.renew(1)
        first.give_back()
        assert not first.renew(1)
        assert (second.take(), first.take()) == (2, None)
        second.give_back()
        assert first.take() == 3


def test_lease_that_is_not_renewed_goes_over_and_does_not_come_back(leased: Pipeline) -> None:
    with closing(candidate(leased)) as first, closing(candidate(leased)) as second:
        assert (first.take(), second.take()) == (1, None)
        numbers: list[int] = []
        wait_for(lambda: numbers.extend(filter(None, [second.take()])) or numbers, "the lease to expire")
        assert numbers == [2]
        assert not first.renew(1)


def test_candidate_whose_answer_was_lost_takes_its_own_lease_anew(patient: Pipeline) -> None:
    with closing(candidate(patient)) as row:
        assert [row.take(), row.take()] == [1, 2]
        assert not row.renew(1)


def test_expired_lease_is_left_alone_for_a_while_where_a_task_still_has_its_seat(
    make_pipeline: Callable[..., Pipeline],
) -> None:
    pipeline = make_pipeline(election="lease", limits={"leaseTimeout": "2s"}, shards=3)
    with closing(candidate(pipeline)) as first, closing(candidate(pipeline)) as second:
        with Seat(pipeline.settings, Shard(2, 3), uuid4()) as seat:
            seat.take()
            first.take()
            wait_for(lambda: status_of(pipeline)[1], "the lease to expire")
            assert second.take() is None
        # The seat is free as soon as the task's connection is gone.
        wait_for(lambda: second.take() == 2, "the lease to go over", 1.5)


def test_seat_that_is_not_given_up_delays_the_takeover_by_one_timeout(leased: Pipeline) -> None:
    shards = Registry(leased.settings).shards()
    with (
        closing(candidate(leased)) as first,
        closing(candidate(leased)) as second,
        Seat(leased.settings, Shard(0, shards), uuid4()) as seat,
    ):
        seat.take()
        first.take()
        wait_for(lambda: second.take() == 2, "the lease to go over")
        assert status_of(leased)[0] > timedelta()


def status_of(pipeline: Pipeline) -> tuple[timedelta, bool]:
    """How long the lease still lasts, and whether it has expired."""
    with pipeline.connect() as connection:
        row = connection.execute(
            f"SELECT held_until - clock_timestamp(), held_until <= clock_timestamp()"
            f" FROM {pipeline.settings.outbox_table}_relay"
        ).fetchone()
    assert row
    return row[0], row[1]


def test_takeover_ends_the_epoch_and_the_deposed_leader_cannot_open_another(leased: Pipeline) -> None:
    registry = Registry(leased.settings)
    with closing(candidate(leased)) as first, closing(candidate(leased)) as second:
        old = taken(first)
        epoch = uuid4()
        registry.open_epoch(epoch, old)
        wait_for(lambda: second.take() == 2, "the lease to go over")
        assert registry.epoch() is None
        with pytest.raises(RelayFenced, match="term 1"):
            registry.open_epoch(uuid4(), old)
        registry.name_heir(epoch, uuid4())
        assert registry.epoch() is None


def test_deposed_leader_cannot_end_or_change_its_successors_epoch(patient: Pipeline) -> None:
    registry = Registry(patient.settings)
    with closing(candidate(patient)) as first, closing(candidate(patient)) as second:
        old = taken(first)
        before = uuid4()
        registry.open_epoch(before, old)
        first.give_back()
        new, epoch = taken(second), uuid4()
        registry.open_epoch(epoch, new)
        registry.close_epochs(old.id)
        registry.renew_membership(old.id, b"old")
        registry.name_heir(before, uuid4())
        with Seat(patient.settings, Shard(0, 1), epoch) as seat:
            turn = seat.turn()
        assert (turn.epoch, turn.heir, turn.membership) == (epoch, None, b"")


def test_leader_whose_lease_has_expired_opens_no_epoch_though_nobody_has_taken_it(leased: Pipeline) -> None:
    with closing(candidate(leased)) as row:
        old = taken(row)
        wait_for(lambda: status_of(leased)[1], "the lease to expire")
        with pytest.raises(RelayFenced):
            Registry(leased.settings).open_epoch(uuid4(), old)


@pytest.mark.parametrize("storage", ["plain", "partitioned"])
def test_deposed_leader_purges_nothing(make_pipeline: Callable[..., Pipeline], storage: str) -> None:
    pipeline = make_pipeline(
        storage=storage, election="lease", limits={"leaseTimeout": "5m"}, purge={"interval": "1h", "retention": "0s"}
    )
    if storage == "partitioned":
        turn_every_second(pipeline)
    pipeline.write(*(pipeline.message(f"{number}") for number in range(10)))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 10)
    if storage == "partitioned":
        turns_over = time.time() + 3
        wait_for(lambda: time.time() > turns_over, "the slot's turn to be over")
    with closing(candidate(pipeline)) as first, closing(candidate(pipeline)) as second:
        old = taken(first).number
        first.give_back()
        new = taken(second).number
        assert sum(Purger(pipeline.settings, term=old).purge()) == 0
        assert sum(Purger(pipeline.settings, term=new).purge()) == 10


def turn_every_second(pipeline: Pipeline) -> None:
    with pipeline.connect() as connection:
        connection.execute(
            f"ALTER TABLE {pipeline.settings.outbox_table} ALTER COLUMN slot"
            " SET DEFAULT (floor(date_part('epoch', clock_timestamp()))::bigint / 1) % 8"
        )


def test_holder_that_hears_nothing_of_the_database_steps_down_and_comes_back_with_another_term(
    leased: Pipeline,
) -> None:
    with Lease(leased.settings) as lease:
        wait_for(lambda: lease.term, "a leader")
        first = lease.term
        with leased.connect() as connection:
            connection.execute(f"SELECT FROM {leased.settings.outbox_table}_relay FOR UPDATE")
            asked = time.monotonic()
            wait_for(lambda: lease.term is None, "the holder to step down")
            assert time.monotonic() - asked < 0.6
        wait_for(lambda: lease.term, "a leader again")
        second = lease.term
    assert first
    assert second
    assert (first.number, second.number) == (1, 2)
    assert first.id != second.id
    assert lease.term is None


def test_resigned_holder_may_be_elected_anew_at_once(patient: Pipeline) -> None:
    with Lease(patient.settings) as lease:
        wait_for(lambda: lease.term, "a leader")
        first = lease.term
        assert first
        lease.resign(uuid4())
        assert lease.term == first
        lease.resign(first.id)
        assert lease.term is None


def test_database_that_is_away_is_told_once(leased: Pipeline, caplog: pytest.LogCaptureFixture) -> None:
    away = dataclasses.replace(leased.settings, data_source="postgresql://nobody@127.0.0.1:1/none")
    with Lease(away) as lease:
        looks_over = time.monotonic() + 1
        wait_for(lambda: time.monotonic() > looks_over, "some looks to fail")
        assert lease.running
        assert lease.term is None
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    assert "127.0.0.1:1" in caplog.text


def test_one_relay_of_two_leads_by_lease_and_hands_over_when_it_stops(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(election="lease", shards=2)
    events: list[Event] = []
    pipeline.write(*(pipeline.message(f"{number}") for number in range(200)))
    first = Relay(pipeline.settings, pipeline.spark, events.append)
    with first:
        pipeline.wait_published(first, 200)
        with pipeline.relay() as second:
            pipeline.write(*(pipeline.message(f"{number}") for number in range(200, 400)))
            pipeline.wait_published(first, 400)
            assert (first.is_active, second.is_active) == (True, False)
            assert status(pipeline.settings).leader_id == first.leader_id
            assert members(pipeline.settings) == 0
            first.stop()
            stopped = time.monotonic()
            wait_for(lambda: second.is_active, "the second to lead")
            assert time.monotonic() - stopped < 3
            pipeline.write(*(pipeline.message(f"{number}") for number in range(400, 600)))
            pipeline.wait_published(second, 600)
    assert status(pipeline.settings).leader_id is None
    assert pipeline.values() == [f"{number}".encode() for number in range(600)]
    assert [type(event) for event in events if not isinstance(event, MeterRead)] == [LeaderAcquired, LeaderRevoked]


def test_relay_by_lease_needs_no_leader_topic_and_the_doctor_agrees(leased: Pipeline) -> None:
    assert prepare(leased.settings).created_topics == []
    assert not any(each.verdict == "failed" for each in examine(leased.settings))
    assert "no relay" in str(next(each for each in examine(leased.settings) if each.check == "leader"))
    with leased.relay() as relay:
        wait_for(lambda: relay.is_active, "a leader")
        leader = [each for each in examine(leased.settings) if each.check in {"leader", "session timeout"}]
        assert [(each.check, each.verdict) for each in leader] == [("leader", "ok")]
        with pytest.raises(UserError, match="holds the lease: stop it first"):
            Repair(leased.settings).mend()


def test_number_of_shards_changes_in_a_term_by_lease(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(election="lease", shards=1)
    registry = Registry(pipeline.settings)
    with pipeline.relay() as relay:
        pipeline.write(*(pipeline.message(f"{number}") for number in range(100)))
        pipeline.wait_published(relay, 100)
        widen_position_topic(pipeline.settings, 2)
        registry.want_shards(2)
        wait_for(lambda: registry.shards() == 2, "the number of shards to change")
        pipeline.write(*(pipeline.message(f"{number}") for number in range(100, 200)))
        pipeline.wait_published(relay, 200)
    assert pipeline.values() == [f"{number}".encode() for number in range(200)]


def test_change_of_shards_by_a_deposed_leader_is_not_finished(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(election="lease", shards=1)
    pipeline.write(pipeline.message("published"))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
    with (
        closing(candidate(pipeline)) as first,
        closing(candidate(pipeline)) as second,
        closing(PositionsPublisher(pipeline.settings)) as publisher,
    ):
        epoch = uuid4()
        Registry(pipeline.settings).open_epoch(epoch, taken(first))
        change = Resharding(pipeline.settings, relay.positions()[0].position, shards=1, wanted=2)
        first.give_back()
        taken(second)
        change.finish(epoch, b"")
        fence(pipeline.settings)
        with closing(position_reader(pipeline.settings)) as nobody, pytest.raises(Interrupted):
            publisher.commit(nobody.consumer_group_metadata(), relay.positions())
    assert relay.positions().keys() == {0}
    assert Registry(pipeline.settings).shards() == 1
