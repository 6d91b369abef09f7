"""The topics of queues, as they have to be: created, and checked.

Invariant: one clock stamps what is in the queue, markers and dead-letter topics, the broker's (LogAppendTime). A marker
can hold any message that the queue topic takes.
"""

from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, but not in mypy's sense
    AdminClient,
    ConfigResource,
    ResourceType,
)

from windrow.errors import KafkaUnreachable, QueueTopicMissing
from windrow.kafka.clients import client_config, create_topic, error_of, topic_partitions
from windrow.queue.settings import QueueSettings

_ANSWER_WITHIN: Final = 10.0
_MESSAGE_BYTES: Final = 1_048_588
_MARKER_ROOM: Final = 64 * 1024
_WEEK: Final = str(7 * 24 * 3600 * 1000)
_STAMPED: Final = {"message.timestamp.type": "LogAppendTime"}


def create_topics(settings: QueueSettings, partitions: int = 4, marker_partitions: int = 4) -> list[str]:
    """Create the topics that queues need; returns those that were not there."""
    wanted: dict[str, tuple[int, dict[str, str]]] = {
        settings.message_topic: (
            partitions,
            {**_STAMPED, "retention.ms": _WEEK, "max.message.bytes": str(_MESSAGE_BYTES)},
        ),
        settings.marker_topic: (
            marker_partitions,
            {**_STAMPED, "retention.ms": _WEEK, "max.message.bytes": str(_MESSAGE_BYTES + _MARKER_ROOM)},
        ),
        settings.dead_letter_topic: (
            partitions,
            {**_STAMPED, "retention.ms": "-1", "max.message.bytes": str(_MESSAGE_BYTES + _MARKER_ROOM)},
        ),
        settings.control_topic: (2, {"cleanup.policy": "compact"}),
        settings.leader_topic: (1, {"retention.ms": "3600000"}),
    }
    return [topic for topic, (count, config) in wanted.items() if create_topic(settings, topic, count, **config)]


def check_topics(settings: QueueSettings) -> int:
    """Raise unless the topics are there and stamped by the broker; returns how many partitions the markers have."""
    found = topic_partitions(settings)
    needed = {
        "messageTopic": settings.message_topic,
        "markerTopic": settings.marker_topic,
        "deadLetterTopic": settings.dead_letter_topic,
        "controlTopic": settings.control_topic,
        "the tracker's leader topic": settings.leader_topic,
    }
    for key, topic in needed.items():
        if topic not in found:
            raise QueueTopicMissing(f'{key} {topic} is not there: run "windrow queue init"')
    for key in ("messageTopic", "markerTopic"):
        if _timestamps(settings, needed[key]) != "LogAppendTime":
            raise QueueTopicMissing(
                f"{key} {needed[key]} keeps its senders' time: set its message.timestamp.type to LogAppendTime"
            )
    return found[settings.marker_topic]


def _timestamps(settings: QueueSettings, topic: str) -> str:
    admin = AdminClient(client_config(settings))
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        entries = admin.describe_configs([resource], request_timeout=_ANSWER_WITHIN)[resource].result(_ANSWER_WITHIN)
    except KafkaException as exception:
        raise KafkaUnreachable(f"topic {topic} could not be looked at: {error_of(exception).str()}") from exception
    return str(entries["message.timestamp.type"].value)
