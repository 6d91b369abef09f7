"""The next messages, and the topics that they go to: whether Kafka will take them, and keep them.

They are read as a shard would read them, from its committed position; so a position that does not belong to this
database is found as well.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]  # exported, but not in mypy's sense

from windrow.capture.choice import peek
from windrow.doctor.finding import Finding, failed, info, ok, warning
from windrow.doctor.kafka import Cluster, judge_operations, judge_replicas, operations_on, replicas_of, settings_of
from windrow.errors import DatabaseForbids, PositionForeign
from windrow.record import Committed, Record, Shard
from windrow.relay.registry import Registry
from windrow.settings import Settings

_FRAME: Final = 100
"""Bytes that Kafka's own format adds to a record that is alone in its batch, about."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Of the next messages, those to one topic."""

    messages: int = 0
    largest: int = 0
    """Bytes of key, value and headers."""
    without_key: int = 0
    highest_partition: int = -1


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as far as it may be seen."""

    name: str
    partitions: int
    replicas: int
    permitted: Collection[str] | None
    """What this user may do there; None where Kafka does not tell."""
    config: Mapping[str, str]


def examine_positions(
    settings: Settings, shards: int, committed: Mapping[int, Committed]
) -> Generator[Finding, None, list[Record] | None]:
    """Returns the next messages of all shards, a page of each; None where a position is foreign."""
    waiting: list[Record] = []
    for index in range(shards):
        shard = Shard(index, shards)
        try:
            position = committed.get(index) or Registry(settings).saved().get(index)
            waiting += peek(settings, shard, position.position if position else None)
        except PositionForeign as error:
            remedy = "docs/reference/errors.md says how to go on, under PositionForeign"
            yield failed("positions", f"shard {index}: {error}", remedy)
            return None
        except DatabaseForbids:
            yield info("positions", "not looked at, since rights are missing")
            return None
    yield ok("positions", "belong to this database")
    return waiting


def examine_topics(cluster: Cluster, waiting: Iterable[Record], named: Collection[str]) -> Iterator[Finding]:
    """The topics of the next messages, and those that were named."""
    topics = {**{name: Waiting() for name in named}, **sum_up(waiting)}
    if not topics:
        yield ok("topics", "no messages wait; name topics with --topic to have them looked at")
    for name, messages in sorted(topics.items()):
        if name not in cluster.topics:
            yield judge_missing(name, cluster.config)
            continue
        found = list(judge_topic(_topic(cluster, name), messages, cluster.brokers))
        yield from found or [ok("topics", f"{name} takes the messages and keeps them")]


def _topic(cluster: Cluster, name: str) -> Topic:
    try:
        config = settings_of(cluster.admin, ResourceType.TOPIC, name)
    except KafkaException:  # it may be written to all the same
        config = {}
    metadata = cluster.topics[name]
    return Topic(name, len(metadata.partitions), replicas_of(metadata), operations_on(cluster, name), config)


def sum_up(records: Iterable[Record]) -> dict[str, Waiting]:
    """By topic, what there is of the records."""
    topics: dict[str, Waiting] = {}
    for each in records:
        seen = topics.get(each.topic, Waiting())
        parts = (each.key, each.value, *each.header_values, *(name.encode() for name in each.header_keys))
        size = sum(len(part or b"") for part in parts)
        topics[each.topic] = Waiting(
            seen.messages + 1,
            max(seen.largest, size),
            seen.without_key + (each.key is None),
            max(seen.highest_partition, -1 if each.partition is None else each.partition),
        )
    return topics


def judge_missing(topic: str, config: Mapping[str, str] | None) -> Finding:
    """A topic that is not there; the brokers may create it, if their settings are known to say so."""
    if config and config.get("auto.create.topics.enable") == "true":
        partitions, replicas = config.get("num.partitions", "?"), config.get("default.replication.factor", "?")
        return warning(
            "topics",
            f"{topic} is not there, or may not be seen; brokers would create it (partitions: {partitions}, replicas:"
            f" {replicas})",
            "create it as you want it",
        )
    says = f"{topic} is not there, or may not be seen: its messages would become dead letters"
    return failed("topics", says, "create it, and permit WRITE and DESCRIBE on it")


def judge_topic(topic: Topic, waiting: Waiting, brokers: int) -> Iterator[Finding]:
    yield from judge_operations(topic.name, ("WRITE", "DESCRIBE"), topic.permitted)
    if waiting.highest_partition >= topic.partitions:
        yield failed(
            "topics",
            f"messages name partition {waiting.highest_partition} of {topic.name}, which has {topic.partitions}",
            "add partitions, or write messages without",
        )
    largest = int(topic.config.get("max.message.bytes", waiting.largest + _FRAME))
    if waiting.largest + _FRAME > largest:
        yield failed(
            "topics",
            f"a message of {waiting.largest:,} bytes waits for {topic.name}, which takes {largest:,}",
            "raise its max.message.bytes",
        )
    if waiting.without_key and topic.config.get("cleanup.policy") == "compact":
        yield failed(
            "topics",
            f"{waiting.without_key} messages without a key wait for {topic.name}, which is compacted and takes none",
            "give messages keys, or change its cleanup.policy",
        )
    yield from judge_replicas(topic.name, topic.replicas, brokers)
    in_sync = int(topic.config.get("min.insync.replicas", topic.replicas))
    if topic.replicas > 1 and in_sync == 1:
        yield warning(
            "replicas",
            f"min.insync.replicas of {topic.name} is 1: an acknowledged message may be on one broker alone",
            "make it 2",
        )
    elif topic.replicas > 1 and in_sync >= topic.replicas and topic.config:
        yield warning(
            "replicas",
            f"min.insync.replicas of {topic.name} is as high as its replicas: one broker away stops it",
            "give it one replica more",
        )
    if topic.config.get("unclean.leader.election.enable") == "true":
        yield warning(
            "replicas",
            f"unclean.leader.election.enable is on for {topic.name}: acknowledged messages may be lost",
            "switch it off",
        )
