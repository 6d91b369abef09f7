"""Queues, measured: one consumer process against other ways to take messages one by one, and the tracker."""

import platform
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import confluent_kafka
from confluent_kafka.admin import AdminClient

from windrow import embedded
from windrow.bench.queue_rates import measure_rates
from windrow.bench.queue_tracker import followed, measure_tracker
from windrow.embedded.broker import VERSION as KAFKA_VERSION
from windrow.kafka.clients import client_config, topic_partitions
from windrow.queue.settings import QueueSettings


@dataclass(frozen=True, slots=True)
class QueueSize:
    """How much is measured."""

    messages: int
    rounds: int
    expiring: int
    in_flight: int


FULL_QUEUE: Final = QueueSize(messages=500_000, rounds=3, expiring=1_000, in_flight=100_000)
QUICK_QUEUE: Final = QueueSize(messages=5_000, rounds=1, expiring=100, in_flight=1_000)


def measure_queue(kafka: str | None, size: QueueSize, say: Callable[[str], None]) -> dict[str, Any]:
    """All figures, on these brokers or on an embedded one."""
    with ExitStack() as stack:
        config: Mapping[str, str] = {"bootstrap.servers": kafka or ""}
        if kafka is None:
            say("starting Kafka …")
            config = stack.enter_context(embedded.Kafka()).client_config
        settings = QueueSettings(base_kafka_config=config)
        topic_partitions(settings)  # brokers that are away are a mistake before there is anything to remove
        stack.callback(_remove, settings)
        say("one consumer process, in turns with others …")
        rates = measure_rates(settings, size.messages, size.rounds, say)
        tracked_rate = followed(rates.settings, size.messages)
        tracked = measure_tracker(settings, size.expiring, size.in_flight, say)
        return {
            "per_message_ratio": round(rates.ours / rates.rivals["one by one"], 1),
            "plain_ratio": round(rates.ours / rates.rivals["plain"], 3),
            "share_group_ratio": round(rates.ours / rates.rivals["share group"], 3),
            "messages_per_s": round(rates.ours),
            "redelivery_late_p99_ms": round(tracked.late_p99_ms),
            "tracker_ratio": round(tracked_rate / rates.ours, 2),
            "restart_s": round(tracked.restart_s, 2),
            "spurious": tracked.spurious,
            "marker_bytes_ratio": round(rates.marker_bytes_ratio, 4),
            "lost": rates.lost,
            "handled_twice": rates.handled_twice,
            "wrong_queue": tracked.wrong_queue,
            "versions": {
                "windrow": version("windrow"),
                "python": platform.python_version(),
                "kafka": KAFKA_VERSION if kafka is None else "?",
                "librdkafka": confluent_kafka.libversion()[0],
            },
        }


def _remove(settings: QueueSettings) -> None:
    there = [each for each in topic_partitions(settings) if each.startswith("windrow_bench_")]
    admin = AdminClient(client_config(settings))  # which must outlive what it was asked for
    for future in admin.delete_topics(there).values() if there else ():
        future.result(10)
