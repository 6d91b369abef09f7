"""A consumer with an inbox: every message has its effect once, whatever is delivered again or fails."""

import signal
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pymysql
import pytest

from fix_consumer import DATABASES, Consuming
from fix_pipeline import received, wait_for
from windrow.errors import HandlerFailed, InboxTableMissing, PositionForeign, SettingsInvalid
from windrow.inbox import ConsumerSettings, InboxConsumer
from windrow.inbox.consumer import Counts
from windrow.inbox.exposure import samples
from windrow.kafka.clients import create_topic
from windrow.observe.metrics import exposition
from windrow.settings import Settings

ONCE = dict.fromkeys(range(300), 1)


@DATABASES
def test_every_message_has_its_effect_once_over_restarts(consuming: Consuming) -> None:
    consuming.produce(range(200))
    with consuming.consumer():
        consuming.wait_for_effects(200)
    consuming.produce(range(200, 300))
    with consuming.consumer():
        consuming.wait_for_effects(300)
    assert consuming.effects() == ONCE
    assert consuming.offsets() == {0: 150, 1: 150}


def test_a_message_that_was_produced_twice_has_its_effect_once(consuming: Consuming) -> None:
    for number in (0, 1, 0, 1):
        headers = {"ce_id": str(number), "ce_source": "/shop"}
        consuming.produce(range(number, number + 1), headers=headers)
    consuming.produce(range(2, 3), partition=0)
    with consuming.consumer() as consumer:
        wait_for(lambda: consumer.counts == Counts(accepted=3, duplicates=2), "three handled, two refused")
    assert consuming.effects() == {0: 1, 1: 1, 2: 1}
    assert f'windrow_inbox_duplicates_total{{group="{consumer.group}"}} 2.0' in exposition(samples(consumer))


@DATABASES
def test_poison_goes_to_the_dead_letter_topic_and_the_others_go_on(consuming: Consuming) -> None:
    letters = f"{consuming.table}.dead"
    create_topic(consuming.settings, letters, 1)
    consuming = consuming.with_settings(
        dead_letter_topic=letters, max_attempts=3, backoff=timedelta(milliseconds=10), batch_records=50
    )
    calls: Counter[int] = Counter()

    def handler(connection: Any, message: Any) -> None:
        number = int(message.value())
        calls[number] += 1
        consuming.handle(connection, message)
        if number in {7, 110}:
            raise ValueError(f"no such customer: {number}")

    consuming.produce(range(200), key="k", headers={"trace": "1"})
    with consuming.consumer(handler) as consumer:
        consuming.wait_for_effects(198)
    assert consuming.effects() == {number: 1 for number in range(200) if number not in {7, 110}}
    assert (consumer.counts.retries, consumer.counts.dead_lettered) == (6, 2)
    assert (calls[7], calls[110]) == (3, 3)
    found = received(_as_settings(consuming.settings), letters)
    assert sorted(int(each.value() or b"") for each in found) == [7, 110]
    headers = {int(each.value() or b""): dict(each.headers() or []) for each in found}[7]
    assert headers["trace"] == b"1"
    assert headers["x-dead-letter-reason"] == b"ValueError: no such customer: 7"
    assert headers["x-dead-letter-topic"] == consuming.settings.topics[0].encode()
    assert (headers["x-dead-letter-partition"], headers["x-dead-letter-offset"]) == (b"1", b"3")
    assert (headers["x-dead-letter-attempts"], headers["x-dead-letter-group"]) == (b"3", consuming.table.encode())


def test_without_a_dead_letter_topic_the_consumer_stops_and_goes_on_later(consuming: Consuming) -> None:
    consuming = consuming.with_settings(max_attempts=2, backoff=timedelta(milliseconds=10))
    consuming.produce(range(10), partition=0)

    def handler(connection: Any, message: Any) -> None:
        if message.value() == b"5":
            raise ValueError("out of stock")
        consuming.handle(connection, message)

    with pytest.raises(HandlerFailed, match=r"at offset 5 .*for good: ValueError\('out of stock'\)"):
        InboxConsumer(consuming.settings, handler).run()
    assert consuming.effects() == dict.fromkeys(range(5), 1)
    with consuming.consumer():
        consuming.wait_for_effects(10)
    assert consuming.effects() == dict.fromkeys(range(10), 1)


def test_a_failure_that_passes_is_no_poison(consuming: Consuming) -> None:
    consuming = consuming.with_settings(backoff=timedelta(milliseconds=10))
    failures = iter(range(2))

    def handler(connection: Any, message: Any) -> None:
        consuming.handle(connection, message)
        if message.value() == b"5" and next(failures, None) is not None:
            raise ValueError("try again")

    consuming.produce(range(20))
    with consuming.consumer(handler):
        consuming.wait_for_effects(20)
    assert consuming.effects() == dict.fromkeys(range(20), 1)


@DATABASES
@pytest.mark.parametrize("way", ["swallows an error", "rolls back"])
def test_a_handler_that_breaks_the_transaction_without_a_word_is_poison(consuming: Consuming, way: str) -> None:
    letters = f"{consuming.table}.dead"
    create_topic(consuming.settings, letters, 1)
    consuming = consuming.with_settings(dead_letter_topic=letters, max_attempts=2, backoff=timedelta(milliseconds=10))

    def handler(connection: Any, message: Any) -> None:
        if message.value() == b"5" and way == "rolls back":
            connection.rollback()
        consuming.handle(connection, message)
        if message.value() == b"5" and way == "swallows an error":
            with suppress(psycopg.Error, pymysql.Error), connection.cursor() as cursor:
                cursor.execute("SELECT nothing FROM nowhere")

    consuming.produce(range(20))
    # MySQL undoes the failed statement alone, so that nothing is broken.
    survives = way == "swallows an error" and consuming.settings.data_source.startswith("mysql")
    with consuming.consumer(handler):
        consuming.wait_for_effects(20 if survives else 19)
    expected = dict.fromkeys(range(20), 1)
    if not survives:
        del expected[5]
    assert consuming.effects() == expected
    found = received(_as_settings(consuming.settings), letters)
    assert [each.value() for each in found] == ([] if survives else [b"5"])


def test_a_lost_connection_is_opened_anew_and_counts_for_nothing(consuming: Consuming) -> None:
    consuming = consuming.with_settings(max_attempts=1, backoff=timedelta(milliseconds=10))
    cuts = iter(range(3))

    def handler(connection: Any, message: Any) -> None:
        consuming.handle(connection, message)
        if message.value() == b"5" and next(cuts, None) is not None:
            consuming.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
            consuming.handle(connection, message)

    consuming.produce(range(20))
    with consuming.consumer(handler):
        consuming.wait_for_effects(20)
    assert consuming.effects() == dict.fromkeys(range(20), 1)


def test_one_whose_partition_has_gone_on_changes_nothing_and_follows(consuming: Consuming) -> None:
    consuming.produce(range(10), partition=0)
    with consuming.consumer():
        consuming.wait_for_effects(10)
        # Another has handled what comes next.
        consuming.execute(f"UPDATE {consuming.table}_inbox_offset SET next_offset = 15 WHERE partition = 0")
        consuming.produce(range(10, 20), partition=0)
        consuming.wait_for_effects(15)
    assert consuming.effects() == {number: 1 for number in range(20) if not 10 <= number < 15}


@DATABASES
def test_nothing_is_doubled_when_consumers_come_and_go(consuming: Consuming) -> None:
    consuming = consuming.with_settings(batch_records=20)
    consuming.produce(range(100))
    with consuming.consumer():
        consuming.wait_for_effects(50)
        with consuming.consumer():
            consuming.produce(range(100, 200))
            consuming.wait_for_effects(150)
            with consuming.consumer():
                consuming.produce(range(200, 300))
                consuming.wait_for_effects(220)
        consuming.wait_for_effects(300)
    assert consuming.effects() == ONCE


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "consumer"])
def test_partitions_may_come_and_go_one_by_one(consuming: Consuming, strategy: str) -> None:
    config = dict(consuming.settings.base_kafka_config)
    if strategy == "consumer":
        config = {"bootstrap.servers": config["bootstrap.servers"], "group.protocol": "consumer"}
    else:
        config["partition.assignment.strategy"] = strategy
    consuming = consuming.with_settings(base_kafka_config=config)
    consuming.produce(range(100))
    with consuming.consumer():
        consuming.wait_for_effects(100)
        with consuming.consumer():
            consuming.produce(range(100, 300))
            consuming.wait_for_effects(300)
    assert consuming.effects() == ONCE


def test_a_group_that_had_no_inbox_goes_on_where_it_was(consuming: Consuming) -> None:
    consuming.produce(range(10), partition=0)
    with consuming.consumer():
        consuming.wait_for_effects(10)
    consuming.execute(f"DELETE FROM {consuming.table}_inbox")
    consuming.execute(f"DELETE FROM {consuming.table}_inbox_offset")
    consuming.produce(range(10, 20), partition=0)
    with consuming.consumer():
        consuming.wait_for_effects(20)
    assert consuming.effects() == dict.fromkeys(range(20), 1)


def test_offsets_that_kafka_does_not_have_are_an_error_and_not_a_skip(consuming: Consuming) -> None:
    consuming.execute(
        f"INSERT INTO {consuming.table}_inbox_offset (name, topic, partition, next_offset)"
        f" VALUES ('{consuming.settings.group}', '{consuming.settings.topics[0]}', 0, 1000)"
    )
    with pytest.raises(PositionForeign, match="delete the partition's row"):
        InboxConsumer(consuming.settings, consuming.handle).run()


def test_what_is_missing_is_told(consuming: Consuming) -> None:
    with pytest.raises(InboxTableMissing, match='run "windrow inbox init"'):
        InboxConsumer(consuming.with_settings(inbox_table="nowhere").settings, consuming.handle).run()
    with pytest.raises(SettingsInvalid, match=r"^dataSource"):
        InboxConsumer(consuming.with_settings(data_source="").settings, consuming.handle)
    with pytest.raises(SettingsInvalid, match=r"group\.id is set by windrow itself"):
        ConsumerSettings(base_kafka_config={"bootstrap.servers": "a", "group.id": "b"}, group="c", topics=("d",))


@pytest.mark.faults
@DATABASES
def test_nothing_is_doubled_or_missed_when_consumers_are_killed(consuming: Consuming) -> None:
    consuming = consuming.with_settings(batch_records=10)
    consuming.produce(range(300))
    for least in (1, 60, 150):
        with consuming.process(slow=0.005):
            consuming.wait_for_effects(least)
    with consuming.consumer():
        consuming.wait_for_effects(300)
    wait_for(lambda: consuming.offsets() == {0: 150, 1: 150}, "all offsets committed")
    assert consuming.effects() == ONCE


@pytest.mark.faults
@DATABASES
def test_one_that_wakes_up_after_it_was_relieved_changes_nothing(consuming: Consuming, kind: str) -> None:
    config = {**consuming.settings.base_kafka_config, "max.poll.interval.ms": "6000"}
    consuming = consuming.with_settings(base_kafka_config=config)
    open_for_long = {
        "postgres": "SELECT count(*) FROM pg_stat_activity WHERE xact_start < now() - interval '1 second'"
        f" AND application_name = 'windrow inbox {consuming.settings.group}'",
        # The view is renewed only when nobody has looked at it for 0.1 s.
        "mariadb": "SELECT count(*) FROM (SELECT sleep(0.2) AS slept) AS pause, information_schema.innodb_trx"
        " WHERE slept = 0 AND trx_started < now() - INTERVAL 1 SECOND AND trx_rows_modified > 10",
    }[kind]
    consuming.produce(range(200))
    with consuming.process(slow=0.1) as asleep:
        wait_for(lambda: consuming.execute(open_for_long)[0][0] > 0, "a transaction that is under way")
        asleep.send_signal(signal.SIGSTOP)
        with consuming.consumer():
            consuming.wait_for_effects(200)
            asleep.send_signal(signal.SIGCONT)
            consuming.produce(range(200, 300))
            consuming.wait_for_effects(300)
    assert consuming.effects() == ONCE


def _as_settings(settings: ConsumerSettings) -> Settings:
    return Settings.load(environment={}, data_source=settings.data_source, base_kafka_config=settings.base_kafka_config)
