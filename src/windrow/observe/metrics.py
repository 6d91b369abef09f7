"""Every metric that there is, in one table; from it come the expositions, the reference page, and what tests check.

Figures are gathered where they are, as samples; here they only get their names, and a sample whose name is not in the
table is a mistake. A metric of a new part is a line in the table and a sample where it is gathered.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from windrow.errors import EnvironmentUnfit
from windrow.observe.histogram import BOUNDS, Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """Its name is what Prometheus calls it, a counter's with its `_total`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str


class Sample(NamedTuple):
    """A metric's value, for these values of its labels, in their order."""

    name: str
    labels: tuple[str, ...]
    value: float | Histogram


def _relay(name: str, kind: Kind, text: str) -> Metric:
    return Metric(f"windrow_{name}", kind, ("relay",), text)


def _shard(name: str, kind: Kind, text: str) -> Metric:
    return Metric(f"windrow_{name}", kind, ("relay", "shard"), text)


def _queue(name: str, kind: Kind, text: str) -> Metric:
    return Metric(f"windrow_queue_{name}", kind, ("topic", "queue"), text)


def _inbox(name: str, text: str) -> Metric:
    return Metric(f"windrow_inbox_{name}", Kind.COUNTER, ("group",), text)


METRICS: Final[Mapping[str, tuple[Metric, ...]]] = {
    "The relay, as this process is part of it": (
        _relay("leader", Kind.GAUGE, "1 where this process leads, 0 where it stands by"),
        Metric("windrow_term_info", Kind.GAUGE, ("relay", "term"), "1 for the term that this process leads in"),
        _relay("elections_total", Kind.COUNTER, "terms that this process has begun"),
        _relay("deposals_total", Kind.COUNTER, "times that this process found another leading in its place"),
        _relay("epochs_total", Kind.COUNTER, "epochs, jobs of resident tasks, that this process has begun"),
        _relay("records_purged_total", Kind.COUNTER, "published rows that this process has deleted in purges"),
        _relay("ready", Kind.GAUGE, "1 where /readyz says so, 0 where it tells why not"),
        _relay("database_silent_seconds", Kind.GAUGE, "seconds since the database last told the figures"),
        _relay("kafka_silent_seconds", Kind.GAUGE, "seconds since Kafka last told the positions"),
    ),
    "The relay as a whole; each of its processes tells the same": (
        _relay("led", Kind.GAUGE, "1 where the database names a leader"),
        _relay("active", Kind.GAUGE, "1 where a shard had something to do in the last seconds"),
        _relay("shards", Kind.GAUGE, "the number of shards"),
        _relay("dead_letters", Kind.GAUGE, "dead letters that are kept"),
        _relay("slot_held_bytes", Kind.GAUGE, "with capture: tail, what the database keeps of its log for the relay"),
        _relay("slot_unread_bytes", Kind.GAUGE, "with capture: tail, what of the log is not published yet"),
        _relay("latency_seconds", Kind.HISTOGRAM, "from a message's writing to Kafka's acknowledgement"),
        _relay("page_seconds", Kind.HISTOGRAM, "reading a page that had messages"),
        _relay("transaction_seconds", Kind.HISTOGRAM, "publishing a page in a Kafka transaction"),
    ),
    "Each shard, since it exists; each process tells the same": (
        _shard("backlog_records", Kind.GAUGE, "rows that wait to be published"),
        _shard("oldest_age_seconds", Kind.GAUGE, "how long the oldest of them has waited; 0 where none does"),
        _shard("in_flight_records", Kind.GAUGE, "records that are read and not yet committed"),
        _shard("in_flight_keys", Kind.GAUGE, "keys of these records"),
        _shard("records_published_total", Kind.COUNTER, "records published, by the position that Kafka has"),
        _shard("records_captured_total", Kind.COUNTER, "records read; those read again after a failure count again"),
        _shard("records_dead_lettered_total", Kind.COUNTER, "records that became dead letters"),
        _shard("transactions_total", Kind.COUNTER, "transactions that published records"),
        _shard("fencings_total", Kind.COUNTER, "times that the shard was fenced, by a successor or a new generation"),
        _shard("interruptions_total", Kind.COUNTER, "times that the database or Kafka broke off"),
        _shard("kafka_sent_bytes", Kind.GAUGE, "bytes that the shard's present producers have sent"),
        _shard("kafka_requests", Kind.GAUGE, "requests that they have sent"),
        _shard("kafka_errors", Kind.GAUGE, "requests of theirs that failed or got no answer in time"),
        _shard("kafka_queued_messages", Kind.GAUGE, "messages that wait in them"),
        _shard("kafka_round_trip_seconds", Kind.GAUGE, "average round trip to the slowest broker"),
    ),
    "Queues; each tracker with an address tells the same": (
        _queue("depth_messages", Kind.GAUGE, "messages that no consumer has taken yet"),
        _queue("in_flight_messages", Kind.GAUGE, "messages that consumers hold"),
        _queue("delayed_messages", Kind.GAUGE, "messages that wait for their time"),
        _queue("oldest_age_seconds", Kind.GAUGE, "how long the oldest that no consumer has taken has waited"),
        _queue("redelivered_total", Kind.COUNTER, "attempts after the first: messages that were delivered again"),
        _queue("dead_lettered_total", Kind.COUNTER, "messages that became dead letters"),
        _queue("dead_letters", Kind.GAUGE, "dead letters that are neither replayed nor discarded"),
        _queue("consumers", Kind.GAUGE, "consumers that are there"),
        _queue("paused", Kind.GAUGE, "1 where the queue is paused"),
        Metric(
            "windrow_tracker_lag_markers",
            Kind.GAUGE,
            ("topic", "partition"),
            "markers behind the tracker's committed offset; those of messages in flight are among them",
        ),
        Metric("windrow_tracker_leader", Kind.GAUGE, ("topic",), "1 where this process leads, 0 where it stands by"),
    ),
    "Inbox consumers; each process tells its own": (
        _inbox("accepted_total", "messages that were handled, once each"),
        _inbox("duplicates_total", "messages that were refused, since they had been handled before"),
        _inbox("retries_total", "times that the handler failed on a message"),
        _inbox("dead_lettered_total", "messages that went to the dead-letter topic"),
        _inbox("interruptions_total", "times that the database or Kafka broke off"),
    ),
}
BY_NAME: Final = {metric.name: metric for metrics in METRICS.values() for metric in metrics}


def series(metric: Metric) -> tuple[str, ...]:
    """The names under which Prometheus keeps a metric."""
    if metric.kind is Kind.HISTOGRAM:
        return tuple(f"{metric.name}_{part}" for part in ("bucket", "count", "sum"))
    return (metric.name,)


def buckets(histogram: Histogram) -> Iterator[tuple[str, int]]:
    """How many values lie under each bound; the last has none."""
    below = 0
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), histogram.counts, strict=True):
        below += count
        yield bound, below


def exposition(samples: Iterable[Sample]) -> str:
    """Samples in Prometheus's text format."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 - only where they are served
    except ImportError as error:
        raise EnvironmentUnfit('metrics need prometheus-client: pip install "windrow[metrics]"') from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(samples))
    return generate_latest(registry).decode()


class _Collected:
    """Samples as prometheus_client wants them."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def describe(self) -> Iterable[Any]:
        return ()

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily  # noqa: PLC0415

        families: dict[str, Any] = {}
        kinds = {
            Kind.COUNTER: CounterMetricFamily,
            Kind.GAUGE: GaugeMetricFamily,
            Kind.HISTOGRAM: HistogramMetricFamily,
        }
        for name, labels, value in self._samples:
            metric = BY_NAME[name]
            if name not in families:
                families[name] = kinds[metric.kind](name, metric.help, labels=metric.labels)
            if isinstance(value, Histogram):
                families[name].add_metric(labels, [*buckets(value)], value.sum)
            else:
                families[name].add_metric(labels, value)
        yield from families.values()


def reference() -> str:
    """The tables of the reference page."""
    parts = []
    for title, metrics in METRICS.items():
        rows = [
            f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.help} |"
            for each in metrics
        ]
        head = (f"## {title}", "", "| metric | kind | labels | what it is |", "|---|---|---|---|")
        parts.append("\n".join((*head, *rows)))
    return "\n\n".join(parts) + "\n"
