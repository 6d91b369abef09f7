"""Kafka clients of one relay, and the client library's errors in our own words.

librdkafka's own log is kept to what is critical: what matters reaches the caller as an error, once.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from windrow.errors import Interrupted, KafkaUnreachable, OutboxTableMissing
from windrow.record import Committed
from windrow.settings import Settings

T = TypeVar("T")

_ANSWER_WITHIN: Final = 10.0
_ASK_AGAIN_AFTER: Final = 0.1
_ANSWERED_SOON: Final = 0.02
_NOBODYS: Final = 2**31 - 1
"""A partition that no topic has."""
# What a broker says that has just started, or that keeps the first offsets of its life.
SETTLING: Final = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_COMMON: Final[Mapping[str, Any]] = {
    "log_level": 2,
    "reconnect.backoff.max.ms": 1000,
    # Otherwise a client whose brokers were all silent begins anew with its bootstrap servers; librdkafka 2.16 then may
    # wait for a group's coordinator on a connection that is no more, for ever.
    "metadata.recovery.strategy": "none",
}


def own_exception(raised: KafkaException | SystemError) -> KafkaException:
    """Kafka's exception behind what was raised. While a fatal error is pending, a fenced producer's for instance,
    confluent-kafka goes on to call back; Python takes the first call from there for a mistake in C.
    """
    if isinstance(raised, KafkaException):
        return raised
    if isinstance(raised.__cause__, KafkaException):
        return raised.__cause__
    raise raised


def error_of(exception: KafkaException) -> KafkaError:
    error: KafkaError = exception.args[0]
    return error


class Configured(Protocol):
    """Settings that say how Kafka is reached."""

    @property
    def base_kafka_config(self) -> Mapping[str, str]: ...


def client_config(settings: Configured, own: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A client's configuration: what the user gave for all clients, under what is this one's own."""
    return {**_COMMON, **settings.base_kafka_config, **(own or {})}


def create_topic(settings: Configured, topic: str, partitions: int, **config: str) -> bool:
    """Create a topic; False where one of the name is there already."""
    admin = AdminClient(client_config(settings))
    if topic in _topics(admin, settings):
        return False
    try:
        admin.create_topics([NewTopic(topic, partitions, config=config)])[topic].result(_ANSWER_WITHIN)
    except KafkaException as exception:
        if error_of(exception).code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise KafkaUnreachable(
            f"topic {topic} could not be created: {error_of(exception).str()}\n"
            f"Create it with {partitions} partitions, or permit this user to do it."
        ) from exception
    deadline = time.monotonic() + _ANSWER_WITHIN
    while topic not in _topics(admin, settings) and time.monotonic() < deadline:  # brokers learn of it in their time
        time.sleep(_ASK_AGAIN_AFTER)
    return True


def create_own_topics(settings: Settings, shards: int) -> list[str]:
    """Create the topics that the relay itself needs; returns those that were not there."""
    kept = {settings.leader_topic: {"retention.ms": "3600000"}}
    return [
        topic
        for _, topic, partitions in _own_topics(settings, shards)
        if create_topic(settings, topic, partitions, **kept.get(topic, {}))
    ]


def widen_position_topic(settings: Settings, shards: int) -> None:
    """See that the position topic has a partition for each of so many shards."""
    admin, topic = AdminClient(client_config(settings)), settings.position_topic
    if _topics(admin, settings).get(topic, 0) >= shards:
        return
    try:
        admin.create_partitions([NewPartitions(topic, shards)])[topic].result(_ANSWER_WITHIN)
    except KafkaException as exception:
        raise KafkaUnreachable(
            f"positionTopic {topic} could not be given {shards} partitions: {error_of(exception).str()}\n"
            "Add them with Kafka's own tools, or permit this user to do it."
        ) from exception


def check_own_topics(settings: Settings, shards: int) -> None:
    """Raise unless Kafka answers and has the relay's own topics, with a partition for every shard's position."""
    found = _topics(AdminClient(client_config(settings)), settings)
    for key, topic, partitions in _own_topics(settings, shards):
        if topic not in found:
            raise OutboxTableMissing(f'{key} {topic} is not there: run "windrow init"')
        if found[topic] < partitions:
            raise OutboxTableMissing(
                f"{key} {topic} has {found[topic]} partitions for {shards} shards: add the missing ones"
            )


def position_reader(settings: Settings, **own: Any) -> Consumer:
    """A consumer that never subscribes: it reads the positions that the group has committed."""
    group = {"group.id": settings.position_group_id, "enable.auto.commit": False}
    return Consumer(client_config(settings, {**group, **own}))


def meet_coordinator(reader: Consumer, settings: Settings) -> None:
    """Have a connection to whoever keeps the positions. It is asked of a place where nobody has one: of the others it
    tells nothing while a transaction is open that moves them, as one is that was left behind.
    """
    with suppress(Interrupted):
        committed_offsets(reader, [TopicPartition(settings.position_topic, _NOBODYS)])


def committed_position(reader: Consumer, settings: Settings, shard: int) -> Committed | None:
    """What one shard has committed; None where that is nothing yet."""
    return committed_positions(reader, settings, range(shard, shard + 1)).get(shard)


def committed_positions(reader: Consumer, settings: Settings, shards: range) -> dict[int, Committed]:
    """What each shard has committed, once transactions under way have settled; without an entry, nothing yet."""
    answers = committed_offsets(reader, [TopicPartition(settings.position_topic, shard) for shard in shards])
    return {each.partition: Committed.read(each.offset, each.metadata or "") for each in answers}


def committed_offsets(reader: Consumer, wanted: list[TopicPartition]) -> list[TopicPartition]:
    """What the group has committed, once transactions under way have settled; without those where it has nothing."""
    deadline = time.monotonic() + _ANSWER_WITHIN
    while True:
        try:
            answers = reader.committed(wanted, timeout=_ANSWER_WITHIN)
        except KafkaException as exception:
            error: KafkaError | None = error_of(exception)
        else:
            error = next((answer.error for answer in answers if answer.error), None)
        if error is None:
            return [each for each in answers if each.offset >= 0]
        if not (error.retriable() or error.code() in SETTLING) or time.monotonic() >= deadline:
            raise Interrupted(f"Kafka did not tell the committed positions: {error.str()}")
        time.sleep(_ASK_AGAIN_AFTER)


def sent(producer: Producer, within: float, topic: str, **parts: Any) -> Message:
    """Send one message and wait for Kafka's answer, which is returned; raises a KafkaException where it is no."""
    answers: list[tuple[KafkaError | None, Message]] = []
    producer.produce(topic, on_delivery=lambda error, answer: answers.append((error, answer)), **parts)
    deadline = time.monotonic() + within
    while not answers and time.monotonic() < deadline:
        producer.poll(_ANSWERED_SOON)
    error, answer = answers[0] if answers else (KafkaError(KafkaError._TIMED_OUT, "no answer"), None)  # noqa: SLF001
    if error or answer is None:
        raise KafkaException(error)
    return answer


def answer(ask: "Callable[[], Future[T]]") -> T:
    """What Kafka answers, also if it has to be asked again because it is about to settle something."""
    deadline = time.monotonic() + _ANSWER_WITHIN
    while True:
        try:
            return ask().result()
        except KafkaException as exception:
            error = error_of(exception)
            if not (error.retriable() or error.code() in SETTLING) or time.monotonic() > deadline:
                raise
            time.sleep(_ASK_AGAIN_AFTER)


def members(settings: Settings) -> int:
    """How many relays are in the group at present, whether they lead or stand by."""
    group = settings.leader_group_id
    admin = AdminClient(client_config(settings))  # kept: it takes its answers along when it goes
    try:
        return len(
            answer(lambda: admin.describe_consumer_groups([group], request_timeout=_ANSWER_WITHIN)[group]).members
        )
    except KafkaException as exception:
        if error_of(exception).code() == KafkaError.GROUP_ID_NOT_FOUND:
            return 0
        raise KafkaUnreachable(f"group {group} could not be looked at: {error_of(exception).str()}") from exception


def _own_topics(settings: Settings, shards: int) -> Iterator[tuple[str, str, int]]:
    """The topics that the relay itself needs: the setting, the name, how many partitions."""
    if settings.election == "neli":
        # One partition: with more, Kafka spreads them, and whoever joins may take the first from the leader.
        yield "leaderTopic", settings.leader_topic, 1
    yield "positionTopic", settings.position_topic, shards


def topic_partitions(settings: Configured) -> dict[str, int]:
    """All topics and how many partitions they have."""
    return _topics(AdminClient(client_config(settings)), settings)


def _topics(admin: AdminClient, settings: Configured) -> dict[str, int]:
    try:
        topics = admin.list_topics(timeout=_ANSWER_WITHIN).topics
    except KafkaException as exception:
        servers = settings.base_kafka_config["bootstrap.servers"]
        raise KafkaUnreachable(
            f"baseKafkaConfig: bootstrap.servers {servers}: {error_of(exception).str()}\n"
            "Check that a broker runs there and that security.protocol and credentials are right."
        ) from exception
    return {name: len(topic.partitions) for name, topic in topics.items()}
