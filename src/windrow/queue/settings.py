"""What producers, consumers and trackers of queues need to know, parsed and checked as the relay's settings are.

The names are those of kafka-mq-go where it has them: `consumerReceiveBufferCapacity`,
`redeliveryTracker.numOffsetsPerCommit`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

from windrow.errors import SettingsInvalid
from windrow.parse import bounds, out_of_bounds, read, setting, values_of
from windrow.sources import gathered

_OURS: Final = ("group.id", "transactional.id", "enable.auto.commit", "isolation.level", "enable.idempotence", "acks")
LARGEST_LEASE: Final = 100_000
"""Messages."""
_POSITIVE: Final = bounds(timedelta(milliseconds=1), timedelta.max, "1ms or more")


def _kafka(config: Mapping[str, str]) -> Iterator[str]:
    if not config.get("bootstrap.servers"):
        yield "bootstrap.servers is missing: name the brokers, for example host:9092"
    for key in _OURS:
        if key in config:
            yield f"{key} is set by windrow itself, because delivery depends on it: leave it out"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerSettings:
    """The tracker's own."""

    use_now_if_no_marker_seen: timedelta = setting(
        "after so long without a marker the tracker asks the broker for the time",
        _POSITIVE,
        default=timedelta(seconds=10),
    )
    num_offsets_per_commit: int = setting(
        "markers read between two commits of the tracker's offset", bounds(1, 10_000_000, "1 or more"), default=1000
    )
    carry_after: timedelta = setting(
        "a message held for longer is copied into the markers topic, so that no retention outruns it",
        _POSITIVE,
        default=timedelta(minutes=10),
    )
    epoch: timedelta = setting(
        "how long one Spark job of resident tasks runs",
        bounds(timedelta(seconds=1), timedelta.max, "1s or more"),
        default=timedelta(minutes=10),
    )
    heartbeat_timeout: timedelta = setting(
        "how long a tracker leads that does not hear itself", _POSITIVE, default=timedelta(seconds=5)
    )
    session_timeout: timedelta = setting(
        "how long Kafka waits for a tracker that died; brokers refuse less than 6s unless told otherwise",
        bounds(timedelta(seconds=1), timedelta(minutes=5), "1s to 5m"),
        default=timedelta(seconds=6),
    )

    def __post_init__(self) -> None:
        if mistakes := [*out_of_bounds(TrackerSettings, values_of(self), "redeliveryTracker.")]:
            raise SettingsInvalid(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """What queues need to know; `QueueSettings.load` reads them."""

    base_kafka_config: Mapping[str, str] = setting(
        "settings of every Kafka client, bootstrap.servers among them",
        _kafka,
        "give the brokers, for example bootstrap.servers: host:9092, or set WINDROW_KAFKA_BOOTSTRAP_SERVERS",
    )
    message_topic: str = setting("topic of the messages of all queues", default="windrow.queue")
    marker_topic: str = setting("topic of their markers; without it <messageTopic>.markers", default="")
    control_topic: str = setting(
        "topic that says which queues are paused; without it <messageTopic>.control", default=""
    )
    dead_letter_topic: str = setting("topic of dead letters; without it <messageTopic>.dead-letters", default="")
    redelivery_timeout: timedelta = setting(
        "how long a message may go without an acknowledgement or a keep-alive", _POSITIVE, default=timedelta(seconds=30)
    )
    max_processing_time: timedelta = setting(
        "keep-alives of a message stop after this", _POSITIVE, default=timedelta(hours=1)
    )
    max_attempts: int = setting(
        "deliveries of a message before it becomes a dead letter", bounds(1, 1_000_000, "1 or more"), default=5
    )
    consumer_receive_buffer_capacity: int = setting(
        "messages that a consumer holds ready at most", bounds(1, 1_000_000, "1 to 1000000"), default=10_000
    )
    consumer_next_message_timeout: timedelta = setting(
        "how long a consumer waits for a message before it looks whether it is paused or closed",
        _POSITIVE,
        default=timedelta(milliseconds=100),
    )
    consumer_max_messages_per_commit: int = setting(
        "messages in one lease at most", bounds(1, LARGEST_LEASE, f"1 to {LARGEST_LEASE}"), default=10_000
    )
    redelivery_tracker: TrackerSettings = setting("the tracker's own", default_factory=TrackerSettings)
    spark: Mapping[str, str] = setting("the tracker's Spark: its settings, and master or remote", default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("marker", "control", "dead_letter"):
            if not getattr(self, f"{name}_topic"):
                suffix = {"marker": "markers", "control": "control", "dead_letter": "dead-letters"}[name]
                object.__setattr__(self, f"{name}_topic", f"{self.message_topic}.{suffix}")
        if mistakes := [*out_of_bounds(QueueSettings, values_of(self))]:
            raise SettingsInvalid(mistakes)

    @property
    def leader_topic(self) -> str:
        """The topic that the tracker is elected on."""
        return f"{self.message_topic}.tracker-leader"

    def group(self, queue: str) -> str:
        """The consumer group of a queue's consumers. No topic's name has a slash in it."""
        return f"{self.message_topic}/{queue}"

    @property
    def tracker_group(self) -> str:
        """The consumer group that elects it, and keeps its offsets of the markers topic."""
        return f"windrow.{self.message_topic}.tracker"

    @classmethod
    def beside(cls, kafka: Mapping[str, str], message_topic: str) -> Self:
        """Queues on the Kafka that other settings name; what windrow sets by itself is left out."""
        return cls(
            base_kafka_config={name: value for name, value in kafka.items() if name not in _OURS},
            message_topic=message_topic,
        )

    @classmethod
    def load(cls, file: Path | None = None, environment: Mapping[str, str] | None = None, **overrides: Any) -> Self:
        """Settings from a YAML file, then the environment, then those keyword arguments that are not None."""
        return read(cls, gathered(cls, file, environment, overrides))
