"""What a consumer with an inbox needs to know, parsed and checked as the relay's settings are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

from windrow.errors import SettingsInvalid
from windrow.parse import bounds, out_of_bounds, read, setting, values_of
from windrow.sources import gathered
from windrow.table import remedies

_OURS: Final = ("group.id", "enable.auto.commit", "enable.auto.offset.store", "isolation.level", "auto.offset.reset")
_POSITIVE: Final = bounds(timedelta.resolution, timedelta.max, "more than 0")


def _kafka(config: Mapping[str, str]) -> Iterator[str]:
    if not config.get("bootstrap.servers"):
        yield "bootstrap.servers is missing: name the brokers, for example host:9092"
    for key in _OURS:
        if key in config:
            yield f"{key} is set by windrow itself, because once depends on it: leave it out"


def _some(topics: tuple[str, ...]) -> Iterator[str]:
    if not topics:
        yield "name one topic at least"


def _group(name: str) -> Iterator[str]:
    if not 0 < len(name) <= 200:
        yield f"give 1 to 200 characters, not {len(name)}"


def _start(value: str) -> Iterator[str]:
    if value not in {"earliest", "latest"}:
        yield f"give earliest or latest, not {value!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """What an `InboxConsumer` needs to know; `ConsumerSettings.load` reads them."""

    base_kafka_config: Mapping[str, str] = setting(
        "settings of every Kafka client, bootstrap.servers among them",
        _kafka,
        "give the brokers, for example bootstrap.servers: host:9092, or set WINDROW_KAFKA_BOOTSTRAP_SERVERS",
    )
    group: str = setting(
        "the consumer group, which is the inbox's name as well", _group, "name the consumer group, or set WINDROW_GROUP"
    )
    topics: tuple[str, ...] = setting("the topics", _some, "name the topics, or set WINDROW_TOPICS")
    data_source: str = setting("the database: postgresql://… or mysql://…; where no connect is given", default="")
    inbox_table: str = setting("the inbox, as table or schema.table", remedies, default="inbox")
    start: str = setting(
        "where to begin in a partition that neither the inbox nor the group has an offset of: earliest or latest",
        _start,
        default="earliest",
    )
    batch_records: int = setting("messages in one database transaction", bounds(1, 10_000, "1 to 10000"), default=500)
    max_attempts: int = setting(
        "how often a handler may fail on a message", bounds(1, 1_000_000, "1 or more"), default=5
    )
    backoff: timedelta = setting(
        "pause after a handler failed; it doubles", _POSITIVE, default=timedelta(milliseconds=200)
    )
    max_backoff: timedelta = setting("what that pause grows to", _POSITIVE, default=timedelta(seconds=30))
    dead_letter_topic: str = setting(
        "where messages go that the handler fails on for good; without it the consumer stops at them", default=""
    )
    retention: timedelta = setting(
        "how long the inbox remembers a message",
        bounds(timedelta(), timedelta.max, "0s or more"),
        default=timedelta(days=7),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "topics", tuple(self.topics))
        mistakes = [*out_of_bounds(ConsumerSettings, values_of(self))]
        if self.dead_letter_topic in self.topics:
            mistakes.append("deadLetterTopic: give another one than those that are consumed")
        if mistakes:
            raise SettingsInvalid(mistakes)

    @classmethod
    def load(cls, file: Path | None = None, environment: Mapping[str, str] | None = None, **overrides: Any) -> Self:
        """Settings from a YAML file, then the environment, then those keyword arguments that are not None."""
        return read(cls, gathered(cls, file, environment, overrides))

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row."""
        wanted = self.backoff * 2.0 ** min(failures - 1, 40) if failures else timedelta()
        return min(wanted, self.max_backoff).total_seconds()
