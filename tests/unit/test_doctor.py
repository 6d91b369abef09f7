"""What the doctor concludes from what it is told: pure judgements."""

import dataclasses
import re
from datetime import timedelta
from typing import Any

import pytest

from windrow.database.layouts import OWN, TOMORROW_ONE
from windrow.doctor import Finding, mysql
from windrow.doctor.clock import judge_clock
from windrow.doctor.database import judge_connections, judge_lease, judge_rights, rights_on_outbox
from windrow.doctor.kafka import (
    judge_joined,
    judge_leader_topic,
    judge_limits,
    judge_members,
    judge_operations,
    judge_replicas,
)
from windrow.doctor.machine import judge_slots, slots_of
from windrow.doctor.messages import Topic, Waiting, judge_missing, judge_topic, sum_up
from windrow.doctor.postgres import (
    judge_autovacuum,
    judge_durability,
    judge_holders,
    judge_log,
    judge_pooler,
    judge_slot,
)
from windrow.record import Record
from windrow.settings import Limits, Purge, Settings

SOUND = {"synchronous_commit": "on", "fsync": "on", "autovacuum": "on", "track_counts": "on"}
SOUND_MYSQL = {
    "read_only": "OFF",
    "log_bin": "ON",
    "binlog_format": "ROW",
    "innodb_flush_log_at_trx_commit": "1",
    "sync_binlog": "1",
}
BROKER = {
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "transaction.max.timeout.ms": "900000",
    "offsets.retention.minutes": "10080",
}
SAFE = {"min.insync.replicas": "2", "max.message.bytes": "1000000"}


def settings(**limits: timedelta) -> Settings:
    return Settings("postgresql://", {"bootstrap.servers": "-"}, limits=Limits(**limits))


def topic(**changes: Any) -> Topic:
    return Topic(**{"name": "t", "partitions": 4, "replicas": 3, "permitted": None, "config": SAFE} | changes)


def granted(rights: str, table: str, user: str) -> str:
    return f"{rights}, {table}, {user}"


OK = [
    judge_clock(-3.0, 2.5),
    judge_pooler(7, 7),
    judge_durability(SOUND, []),
    judge_durability({**SOUND, "synchronous_commit": "remote_apply"}, []),
    judge_autovacuum(SOUND),
    judge_holders([], "relay", sees_all=True),
    judge_connections(7, 1),
    judge_rights({"outbox": []}, "relay", granted),
    [mysql.judge_version("8.4.0", "host")],
    [mysql.judge_version("11.4.5-MariaDB-log", "host")],
    mysql.judge_server(SOUND_MYSQL),
    mysql.judge_server({**SOUND_MYSQL, "log_bin": "OFF", "binlog_format": "STATEMENT"}),
    mysql.judge_durability(SOUND_MYSQL),
    mysql.judge_durability({**SOUND_MYSQL, "log_bin": "OFF", "sync_binlog": "0"}),
    mysql.judge_holders([]),
    judge_slots(2, 2),
    judge_slots(None, 2),
    judge_limits(settings(), BROKER),
    judge_limits(settings(), {}),
    judge_replicas("t", 1, brokers=1),
    judge_replicas("t", 3, brokers=3),
    judge_leader_topic("t", 1),
    judge_members("shop", 1),
    judge_lease("shop", held=True),
    judge_operations("t", ["WRITE"], None),
    judge_operations("t", ["WRITE"], ["READ", "WRITE"]),
    judge_topic(topic(), Waiting(3, largest=999_900, without_key=1, highest_partition=3), brokers=3),
    judge_topic(topic(config={}, replicas=1), Waiting(1, largest=10**9), brokers=1),
]
WARNING = [
    (judge_clock(3.0, 0.1), "differ by 3.0 s"),
    (judge_pooler(7, 8), "pooler"),
    (judge_durability({**SOUND, "synchronous_commit": "off"}, []), "synchronous_commit is off: a message can be"),
    (judge_durability({**SOUND, "fsync": "off"}, []), "fsync is off"),
    (judge_durability(SOUND, ["shop"]), "synchronous_commit is off for shop"),
    (judge_autovacuum({**SOUND, "track_counts": "off"}), "track_counts is off"),
    (judge_holders([("session 7", 600.0)], "relay", sees_all=True), "session 7 has kept .* for 10 minutes"),
    (judge_holders([("unused replication slot s", None)], "relay", sees_all=True), "slot s has kept"),
    (judge_connections(6, 1), "6 are free; .* up to 7"),
    (mysql.judge_server({**SOUND_MYSQL, "wsrep_on": "ON"}), "no common order; have all .* same node"),
    (mysql.judge_durability({**SOUND_MYSQL, "sync_binlog": "0"}), "sync_binlog is 0: a message can be"),
    (mysql.judge_durability({**SOUND_MYSQL, "innodb_flush_log_at_trx_commit": "2"}), "at_trx_commit is 2"),
    (mysql.judge_holders([(7, 600)]), "connection 7 has kept .* 10 minutes; .*KILL 7"),
    (judge_slots(3, 2), "3 shards share 2"),
    (judge_limits(settings(heartbeat_timeout=timedelta(seconds=6)), BROKER), "heartbeatTimeout is not below"),
    (judge_limits(settings(), {**BROKER, "offsets.retention.minutes": "60"}), "60 minutes after"),
    (judge_replicas("t", 1, brokers=3), "t has one replica on 3 brokers"),
    (judge_leader_topic("t", 2), "may take the lead"),
    (judge_members("shop", 0), "nothing is published"),
    (judge_lease("shop", held=False), "nothing is published"),
    (judge_joined("windrow.shop", 2), "chosen by lease"),
    ([judge_missing("t", {"auto.create.topics.enable": "true"})], "brokers would create it"),
    (judge_topic(topic(config={**SAFE, "min.insync.replicas": "1"}), Waiting(), 3), "one broker alone"),
    (judge_topic(topic(config={**SAFE, "min.insync.replicas": "3"}), Waiting(), 3), "one broker away stops it"),
    (judge_topic(topic(config={**SAFE, "unclean.leader.election.enable": "true"}), Waiting(), 3), "unclean"),
]
FAILED = [
    (judge_rights({"outbox": ["DELETE"], "other": []}, "a", granted), "DELETE, outbox, a"),
    ([mysql.judge_version("5.7.44-log", "host")], r"MySQL 5.7.44-log is too old; upgrade it to 8.0"),
    ([mysql.judge_version("10.5.9-MariaDB", "host")], r"MariaDB .* upgrade it to 10.6"),
    (mysql.judge_server({**SOUND_MYSQL, "read_only": "ON"}), "name the primary"),
    (mysql.judge_server({**SOUND_MYSQL, "binlog_format": "STATEMENT"}), "set it to ROW or MIXED"),
    (judge_limits(settings(session_timeout=timedelta(seconds=5)), BROKER), "the brokers allow 6000 to 1800000"),
    (judge_limits(settings(), {**BROKER, "transaction.max.timeout.ms": "29999"}), "the brokers allow 29999"),
    (judge_operations("t", ["READ", "WRITE"], ["READ"]), "lacks WRITE on topic t"),
    ([judge_missing("t", {"auto.create.topics.enable": "false"})], "dead letters"),
    ([judge_missing("t", None)], "dead letters"),
    (judge_topic(topic(), Waiting(1, largest=999_901), 3), "999,901 bytes waits for t, which takes 1,000,000"),
    (judge_topic(topic(), Waiting(1, highest_partition=4), 3), "name partition 4 of t, which has 4"),
    (judge_topic(topic(config={**SAFE, "cleanup.policy": "compact"}), Waiting(2, without_key=1), 3), "compacted"),
    (judge_topic(topic(permitted=["DESCRIBE"]), Waiting(), 3), "lacks WRITE"),
]
JUDGED_OK = [list(findings) for findings in OK]
JUDGED = [
    *((list(findings), "warning", said) for findings, said in WARNING),
    *((list(findings), "failed", said) for findings, said in FAILED),
]


@pytest.mark.parametrize("findings", JUDGED_OK)
def test_what_is_sound_is_ok(findings: list[Finding]) -> None:
    assert {each.verdict for each in findings} <= {"ok"}


@pytest.mark.parametrize(("findings", "verdict", "said"), JUDGED)
def test_what_is_not_is_told_with_its_remedy(findings: list[Finding], verdict: str, said: str) -> None:
    (found,) = [each for each in findings if each.verdict != "ok"]
    assert found.verdict == verdict
    assert found.remedy
    assert re.search(said, str(found))


def test_sessions_of_others_that_cannot_be_seen_are_not_taken_for_none() -> None:
    (found,) = judge_holders([], "relay", sees_all=False)
    assert (found.verdict, found.remedy) == ("info", 'GRANT pg_read_all_stats TO "relay"')


@pytest.mark.parametrize(
    ("master", "slots"),
    [("local", 1), ("local[3]", 3), ("local[*]", 8), ("local[2,4]", 2), ("spark://host:7077", None), ("yarn", None)],
)
def test_slots_of_a_local_master_are_known(master: str, slots: int | None) -> None:
    assert slots_of(master, cores=8) == slots


def test_waiting_messages_are_summed_up_by_topic() -> None:
    records = [
        Record(1, "a", b"key", b"value", ["n"], [b"content"], None, None),
        Record(2, "a", None, None, [], [], 3, None),
        Record(3, "b", b"k", None, ["n"], [None], 0, None),
    ]
    assert sum_up(records) == {
        "a": Waiting(messages=2, largest=16, without_key=1, highest_partition=3),
        "b": Waiting(messages=1, largest=2, without_key=0, highest_partition=0),
    }


def test_rights_on_the_outbox_are_those_that_the_capture_and_the_layout_need() -> None:
    plain = settings()
    marks = dataclasses.replace(plain, capture="mark")
    for_a_day = dataclasses.replace(marks, purge=Purge(retention=timedelta(days=1)))
    assert rights_on_outbox(plain, OWN) == ("SELECT", "DELETE")
    assert rights_on_outbox(marks, OWN) == ("SELECT", "UPDATE", "DELETE")
    assert rights_on_outbox(marks, TOMORROW_ONE) == ("SELECT", "UPDATE")
    assert rights_on_outbox(for_a_day, TOMORROW_ONE) == ("SELECT", "UPDATE", "DELETE")


@pytest.mark.parametrize(
    ("readiness", "verdict", "says"),
    [
        (("logical", 180_000, True, 5), "ok", "free replication slots: 5"),
        (("replica", 180_000, True, 5), "failed", "wal_level is replica"),
        (("logical", 130_000, True, 5), "failed", "PostgreSQL 13 is too old"),
        (("logical", 180_000, False, 5), "failed", "may not read it"),
    ],
)
def test_a_log_that_cannot_be_tailed_is_told(readiness: tuple[str, int, bool, int], verdict: str, says: str) -> None:
    (finding,) = judge_log("me", *readiness)
    assert finding.verdict == verdict
    assert says in finding.says


@pytest.mark.parametrize(
    ("found", "verdict"),
    [([], "failed"), ([(True, True, 0)], "failed"), ([(False, False, 0)], "failed"), ([(True, False, 5)], "ok")],
)
def test_a_lost_slot_is_told(found: list[tuple[bool, bool, int]], verdict: str) -> None:
    assert [each.verdict for each in judge_slot("slot", found, 10)] == [verdict]


def test_a_slot_that_holds_back_much_is_told() -> None:
    (finding,) = judge_slot("slot", [(True, False, 11_000_000)], 10_000_000)
    assert (finding.verdict, "11 MB" in finding.says) == ("warning", True)
