"""The order of the checks, and which of them need what."""

from collections.abc import Collection, Iterator

from windrow.database.connections import connect, interruptible
from windrow.database.tables import Tables
from windrow.doctor.database import examine_database
from windrow.doctor.finding import Finding, info, ok, warning
from windrow.doctor.kafka import examine_group, examine_kafka
from windrow.doctor.machine import examine_spark, expected_slots, judge_slots
from windrow.doctor.messages import examine_positions, examine_topics
from windrow.errors import DatabaseForbids
from windrow.settings import Settings


def examine(settings: Settings, topics: Collection[str] = (), *, start_spark: bool = False) -> Iterator[Finding]:
    """Look at the servers; `topics` besides those of waiting messages."""
    shards = yield from examine_database(settings)
    if start_spark:
        yield from examine_spark(settings, shards)
    else:
        yield from judge_slots(shards, expected_slots(settings.spark))
    cluster = yield from examine_kafka(settings)
    waiting = None
    if cluster and shards:
        committed = yield from examine_group(settings, cluster, shards)
        waiting = yield from examine_positions(settings, shards, committed)
    if cluster and (topics or waiting is not None):
        yield from examine_topics(cluster, waiting or (), topics)
    if shards:
        yield from _examine_dead_letters(settings)
    yield info(
        "consumers",
        "must read committed, which cannot be seen from here",
        "set isolation.level=read_committed in each; it is the default of librdkafka, not of the Java client",
    )


def _examine_dead_letters(settings: Settings) -> Iterator[Finding]:
    tables = Tables.of(settings)
    try:
        with interruptible(), connect(settings.data_source, "windrow doctor") as connection:
            row = connection.execute(tables.query("doctor", "dead_letters"), {"relay": settings.name}).fetchone()
    except DatabaseForbids:
        yield info("dead letters", "not looked at, since rights are missing")
        return
    count = row[0] if row else 0
    if count:
        yield warning("dead letters", f"{count:,} messages that Kafka refused", 'look at "windrow dead-letters list"')
    else:
        yield ok("dead letters", "there are none")
