"""The doctor on real servers: it finds what is wrong, its remedies mend it, and it disturbs nobody."""

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition

from fix_pipeline import CAPTURES, Pipeline, wait_for
from windrow import Message
from windrow.capture.position import Position
from windrow.doctor import Finding, examine
from windrow.kafka.clients import client_config, create_topic
from windrow.relay import Event, LeaderAcquired, MeterRead, Relay


def of(findings: list[Finding], verdict: str) -> dict[str, list[str]]:
    """The findings of a verdict, by their checks."""
    by_check: dict[str, list[str]] = {}
    for each in findings:
        if each.verdict == verdict:
            by_check.setdefault(each.check, []).append(str(each))
    return by_check


@CAPTURES
def test_sound_setup_has_no_failure_and_its_relay_is_not_disturbed(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(shards=2)
    events: list[Event] = []
    with Relay(pipeline.settings, pipeline.spark, events.append) as relay:
        pipeline.write(*(pipeline.message("before", f"{number}") for number in range(20)))
        pipeline.wait_published(relay, 20)
        findings = list(examine(pipeline.settings, [pipeline.topic]))
        pipeline.write(*(pipeline.message("after", f"{number}") for number in range(20)))
        pipeline.wait_published(relay, 40)
        assert [type(event) for event in events if not isinstance(event, MeterRead)] == [LeaderAcquired]
    assert of(findings, "failed") == {}
    assert of(findings, "ok").keys() >= {
        "database",
        "outbox",
        "rights",
        "kafka",
        "transactions",
        "publishing",
        "positions",
        "leader",
    }
    assert of(findings, "ok")["topics"] == [f"{pipeline.topic} takes the messages and keeps them"]
    assert len(pipeline.values()) == 40


def test_setting_that_makes_publishing_slower_is_named(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(producer_kafka_config={"compression.type": "lz4"})
    assert "since compression.type is set" in of(list(examine(pipeline.settings)), "info")["publishing"][0]


def test_messages_that_kafka_will_refuse_are_found_before_it_does(pipeline: Pipeline) -> None:
    small = f"{pipeline.settings.name}.small"
    create_topic(pipeline.settings, small, 1, **{"max.message.bytes": "1000"})
    pipeline.write(pipeline.message("good"), Message(small, "x" * 2_000, "key"))
    pipeline.write(Message(f"{pipeline.settings.name}.missing", "x"))
    findings = list(examine(pipeline.settings))
    assert "2,003 bytes waits for" in of(findings, "failed")["topics"][0]
    warnings = of(findings, "warning")
    assert "missing is not there" in warnings["topics"][0]
    assert "no relay" in warnings["leader"][0]
    assert of(findings, "ok")["topics"] == [f"{pipeline.topic} takes the messages and keeps them"]


@pytest.mark.parametrize("strategy", [{"database": "mariadb", "capture": "mark"}], ids=["mariadb"])
def test_remedies_for_missing_rights_mend_them_on_mariadb(pipeline: Pipeline) -> None:
    role = f"role_{uuid4().hex[:8]}"
    with pipeline.connect() as connection:
        connection.execute(f"CREATE USER {role}@'127.0.0.1'")
        for table in ("_migration", "_relay"):
            connection.execute(f"GRANT SELECT ON {pipeline.settings.outbox_table}{table} TO {role}@'127.0.0.1'")
        connection.execute(f"GRANT INSERT ON {pipeline.settings.outbox_table} TO {role}@'127.0.0.1'")
    settings = replace(pipeline.settings, data_source=pipeline.settings.data_source.replace("root", role))
    mended = []
    while lacking := [each for each in examine(settings) if each.verdict == "failed"]:
        assert {each.check for each in lacking} == {"rights"}
        assert str(lacking) not in mended
        mended.append(str(lacking))
        with pipeline.connect() as connection:
            connection.execute("SET sql_mode = ''")
            for each in lacking:
                connection.execute(each.remedy)
    assert mended
    pipeline.write(pipeline.message("now"))
    with Relay(settings, pipeline.spark) as relay:
        pipeline.wait_published(relay, 1)


def test_remedies_for_missing_rights_mend_them(pipeline: Pipeline) -> None:
    role = f"role_{uuid4().hex[:8]}"
    with pipeline.connect() as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        for table in ("_migration", "_relay"):
            connection.execute(f"GRANT SELECT ON {pipeline.settings.outbox_table}{table} TO {role}")
    theirs = psycopg.conninfo.make_conninfo(pipeline.settings.data_source, user=role)
    settings = replace(pipeline.settings, data_source=theirs)
    findings = list(examine(settings))
    lacking = [each for each in findings if each.verdict == "failed"]
    assert {each.check for each in lacking} == {"rights"}
    assert len(lacking) == 5
    with pipeline.connect() as connection:
        for each in lacking:
            connection.execute(each.remedy)
    assert of(list(examine(settings)), "failed") == {}


def test_position_of_another_database_is_found(pipeline: Pipeline) -> None:
    consumer = Consumer(client_config(pipeline.settings, {"group.id": pipeline.settings.leader_group_id}))
    foreign = TopicPartition(pipeline.settings.position_topic, 0, 1, Position("1234567890").encode())
    wait_for(lambda: consumer.commit(offsets=[foreign], asynchronous=False), "the commit")
    consumer.close()
    (found,) = of(list(examine(pipeline.settings)), "failed")["positions"]
    assert "1234567890" in found


def test_what_does_not_depend_on_a_failure_is_still_looked_at(pipeline: Pipeline) -> None:
    mistaken = {**pipeline.settings.base_kafka_config, "no.such": "setting"}
    no_kafka = of(list(examine(replace(pipeline.settings, base_kafka_config=mistaken))), "failed")
    away = replace(pipeline.settings, data_source="postgresql://u:hush@127.0.0.1:1/x")
    no_database = of(list(examine(away)), "failed")
    no_outbox = list(examine(replace(pipeline.settings, outbox_table="missing"), [pipeline.topic]))
    assert (no_kafka.keys(), no_database.keys()) == ({"kafka"}, {"database"})
    assert 'No such configuration property: "no.such"' in no_kafka["kafka"][0]
    assert "hush" not in str(no_database)
    assert 'run "windrow init"' in of(no_outbox, "failed")["outbox"][0]
    assert of(no_outbox, "ok")["topics"]
