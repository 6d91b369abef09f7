"""Kafka: that it is reached, that its limits leave room for ours, that the relay may use its group and transactions.

Functions that begin with `judge` are pure; the others ask. Nothing is left behind: the one transaction that is begun
is aborted, under an id that no relay uses.
"""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, but not in mypy's sense
    AdminClient,
    ConfigResource,
    ResourceType,
    TopicMetadata,
)

from windrow.doctor.finding import Finding, failed, info, ok, warning
from windrow.errors import Interrupted, OutboxTableMissing
from windrow.kafka.clients import (
    answer,
    check_own_topics,
    client_config,
    committed_positions,
    error_of,
    position_reader,
)
from windrow.publish.sending import DEFAULTS
from windrow.publish.transaction import detour
from windrow.record import Committed
from windrow.settings import Limits, Settings

_WITHIN: Final = 10.0
_DAY: Final = 24 * 60
_INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
_SCRATCH_TIMEOUT: Final = "10000"
_NONE_LEFT: Final = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - librdkafka's own codes start with an underscore
_MISTAKEN: Final = KafkaError._INVALID_ARG  # noqa: SLF001 - as above


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the other checks need to know of it."""

    admin: AdminClient
    brokers: int
    topics: Mapping[str, TopicMetadata]
    config: Mapping[str, str] | None
    """A broker's settings; None where they may not be seen."""


def examine_kafka(settings: Settings) -> Generator[Finding, None, Cluster | None]:
    """Returns the cluster, None where it is not reached."""
    causes: list[KafkaError] = []
    try:
        admin = AdminClient(client_config(settings, {"error_cb": causes.append}))
        try:
            found = admin.list_topics(timeout=_WITHIN)
        finally:
            admin.poll(0)  # brings the causes: a connection refused, a password, a certificate
    except KafkaException as exception:
        yield judge_unreachable([*causes, error_of(exception)], settings.base_kafka_config["bootstrap.servers"])
        return None
    yield ok("kafka", f"answers; brokers: {len(found.brokers)}")
    config = None
    try:
        config = settings_of(admin, ResourceType.BROKER, str(min(found.brokers)))
    except KafkaException as exception:
        yield info(
            "kafka's limits",
            f"not checked, since the brokers' settings may not be seen: {error_of(exception).str()}",
            "permit DESCRIBE_CONFIGS on the cluster to this user while the doctor runs",
        )
    if config:
        yield from judge_limits(settings, config)
    cluster = Cluster(admin, len(found.brokers), found.topics, config)
    for name in _INTERNAL:
        if name in cluster.topics:
            yield from judge_replicas(name, replicas_of(cluster.topics[name]), cluster.brokers)
    return cluster


def examine_group(settings: Settings, cluster: Cluster, shards: int) -> Generator[Finding, None, dict[int, Committed]]:
    """The relay's topics, its group and its right to transactions. Returns the committed positions."""
    try:
        check_own_topics(settings, shards)
    except OutboxTableMissing as error:
        says, _, remedy = str(error).rpartition(": ")
        yield failed("relay's topics", says, remedy)
        return {}
    if settings.election == "neli":
        topic = settings.leader_topic
        yield from judge_leader_topic(topic, len(cluster.topics[topic].partitions))
        yield from judge_operations(topic, ("READ", "WRITE"), operations_on(cluster, topic))
    else:
        yield ok("relay's topics", "are there, with partitions for all shards")
    with closing(position_reader(settings)) as reader:
        try:
            committed = committed_positions(reader, settings, range(shards))
        except Interrupted as error:
            yield failed("group", str(error), f"permit READ and DESCRIBE on group {settings.position_group_id}")
            return {}
        yield ok("group", f"{settings.position_group_id} keeps positions of {len(committed)} of {shards} shards")
        if settings.delivery == "exactly-once":
            yield from _examine_transaction(settings, reader)
            yield from _examine_path(settings)
    yield from _examine_members(settings, cluster.admin)
    return committed


def _examine_path(settings: Settings) -> Iterator[Finding]:
    """Which of the two ways shards publish on."""
    try:
        reason = detour(settings)
    except Interrupted as error:
        yield failed(
            "publishing", str(error), "see that the brokers can be reached from here as bootstrap.servers says"
        )
        return
    if reason is None:
        yield ok("publishing", "in Kafka's own protocol")
    else:
        yield info(
            "publishing",
            f"by librdkafka, which takes longer, since {reason}",
            "leave out what you do not need, or upgrade the brokers to Kafka 4",
        )


def _examine_transaction(settings: Settings, reader: Consumer) -> Iterator[Finding]:
    """Begin a transaction as the shards do, with a position in it, and abort it."""
    name = f"windrow.{settings.name}.doctor"
    try:
        producer = Producer(
            client_config(
                settings,
                {
                    **DEFAULTS,
                    **settings.base_kafka_config,
                    **settings.producer_kafka_config,
                    "transactional.id": name,
                    "transaction.timeout.ms": _SCRATCH_TIMEOUT,
                },
            )
        )
        producer.init_transactions(_WITHIN)
        producer.begin_transaction()
        try:
            position = TopicPartition(settings.position_topic, 0, 0)
            producer.send_offsets_to_transaction([position], reader.consumer_group_metadata(), _WITHIN)
        finally:
            producer.abort_transaction(_WITHIN)
    except KafkaException as exception:
        yield failed(
            "transactions",
            error_of(exception).str(),
            f"permit WRITE and DESCRIBE on transactional ids that begin with windrow.{settings.name}., READ on group"
            f" {settings.leader_group_id} and on topic {settings.position_topic}; Kafka must be 2.5 or newer",
        )
    else:
        yield ok("transactions", "one was begun, with a position in it, and aborted")


def _examine_members(settings: Settings, admin: AdminClient) -> Iterator[Finding]:
    group = settings.leader_group_id
    try:
        members = len(answer(lambda: admin.describe_consumer_groups([group], request_timeout=_WITHIN)[group]).members)
    except KafkaException as exception:
        yield info("leader", f"the group's members are not told: {error_of(exception).str()}")
    else:
        yield from (
            judge_members(settings.name, members) if settings.election == "neli" else judge_joined(group, members)
        )


def judge_unreachable(errors: Sequence[KafkaError], servers: str) -> Finding:
    """The first error is the cause, unless it only says that no broker is left; the others follow from it."""
    error = next(each for each in errors if each.code() != _NONE_LEFT or each is errors[-1])
    if error.code() == _MISTAKEN:
        return failed("kafka", error.str(), "correct baseKafkaConfig; its keys are librdkafka's")
    return failed(
        "kafka",
        f"bootstrap.servers {servers}: {error.str()}",
        "check that a broker runs there and that security.protocol and credentials are right",
    )


def judge_limits(settings: Settings, config: Mapping[str, str]) -> Iterator[Finding]:
    """Our time-outs against those that the brokers allow."""
    if settings.election == "neli":
        yield from judge_session(settings.limits, config)
    given = {**DEFAULTS, **settings.base_kafka_config, **settings.producer_kafka_config}
    ours, theirs = (
        int(given["transaction.timeout.ms"]),
        int(config.get("transaction.max.timeout.ms", given["transaction.timeout.ms"])),
    )
    if ours > theirs:
        yield failed(
            "transaction timeout",
            f"transaction.timeout.ms is {ours}, the brokers allow {theirs}",
            "lower it in producerKafkaConfig, or raise the brokers' transaction.max.timeout.ms",
        )
    else:
        yield ok("transaction timeout", f"{ours} ms, of {theirs} allowed")
    kept = int(config.get("offsets.retention.minutes", _DAY))
    if kept < _DAY:
        yield warning(
            "offsets retention",
            f"Kafka forgets positions {kept} minutes after the last relay has stopped; then the copy in the database"
            " serves, and after a crash what was published since it was saved comes again",
            "raise the brokers' offsets.retention.minutes",
        )
    else:
        yield ok("offsets retention", f"positions outlive a relay that is stopped by {kept // _DAY} days")


def judge_session(limits: Limits, config: Mapping[str, str]) -> Iterator[Finding]:
    """What the election over the group needs."""
    session = int(limits.session_timeout.total_seconds() * 1000)
    shortest, longest = (int(config.get(f"group.{end}.session.timeout.ms", session)) for end in ("min", "max"))
    if not shortest <= session <= longest:
        yield failed(
            "session timeout",
            f"limits.sessionTimeout is {session} ms, the brokers allow {shortest} to {longest}: no relay would lead",
            "change it, or the brokers' group.min.session.timeout.ms",
        )
    elif limits.heartbeat_timeout >= limits.session_timeout:
        yield warning(
            "session timeout",
            "limits.heartbeatTimeout is not below limits.sessionTimeout: a leader that is cut off steps down late",
            "make it the shorter one",
        )
    else:
        yield ok("session timeout", f"{session} ms, of {shortest} to {longest} allowed")


def judge_replicas(topic: str, replicas: int, brokers: int) -> Iterator[Finding]:
    if replicas == 1 and brokers > 1:
        yield warning(
            "replicas",
            f"{topic} has one replica on {brokers} brokers: what it holds is lost with one of them",
            "give it three",
        )


def judge_leader_topic(topic: str, partitions: int) -> Iterator[Finding]:
    if partitions > 1:
        yield warning(
            "relay's topics",
            f"leaderTopic {topic} has {partitions} partitions: a relay that joins may take the lead",
            "create it anew with one",
        )
    else:
        yield ok("relay's topics", "are there, with partitions for all shards")


def judge_operations(topic: str, wanted: Collection[str], permitted: Collection[str] | None) -> Iterator[Finding]:
    """What the relay may do on a topic; None where Kafka does not tell."""
    lacking = [] if permitted is None else [each for each in wanted if each not in permitted]
    if lacking:
        yield failed("permissions", f"the relay lacks {', '.join(lacking)} on topic {topic}", "permit it")


def judge_members(relay: str, members: int) -> Iterator[Finding]:
    if members == 0:
        yield warning("leader", f"no relay {relay} runs: nothing is published", 'run "windrow relay"')
    elif members == 1:
        yield ok("leader", "one relay runs; a second one, on another host, would stand by")
    else:
        yield ok("leader", f"{members} relays run, of which one leads")


def judge_joined(group: str, members: int) -> Iterator[Finding]:
    """Where the leader is chosen by lease, nobody joins the group."""
    if members:
        yield warning(
            "leader",
            f"group {group} has {members} members, though the leader is chosen by lease: they would take turns",
            "give all relays of the name the same election",
        )


def settings_of(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, str]:
    """The settings of a broker or a topic."""
    resource = ConfigResource(kind, name)
    entries = answer(lambda: admin.describe_configs([resource], request_timeout=_WITHIN)[resource])
    return {each.name: each.value for each in entries.values() if each.value is not None}


def operations_on(cluster: Cluster, topic: str) -> set[str] | None:
    """What this user may do on a topic; None where Kafka does not tell."""
    try:
        described = answer(
            lambda: cluster.admin.describe_topics(
                TopicCollection([topic]), include_authorized_operations=True, request_timeout=_WITHIN
            )[topic]
        )
    except KafkaException:
        return None
    operations = described.authorized_operations
    return None if operations is None else {each.name for each in operations}


def replicas_of(topic: TopicMetadata) -> int:
    """Of the partition that has the fewest."""
    return min(len(each.replicas) for each in topic.partitions.values())
