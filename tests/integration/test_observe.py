"""What a relay shows of itself while it runs, on real servers: metrics, readiness, and the way back."""

import http.client
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fix_pipeline import DATABASES, Pipeline, limit_message_size, wait_for
from windrow import embedded
from windrow.observe.metrics import BY_NAME, series
from windrow.observe.server import Server
from windrow.relay import Relay
from windrow.relay.exposure import exposed

ANYWHERE = {"address": "127.0.0.1:0"}


def get(server: Server, path: str) -> tuple[int, str]:
    with closing(http.client.HTTPConnection(*server.address, timeout=20)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()


class Shown:
    """The metrics of a relay, as Prometheus would read them, five times a second at most."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._read: dict[str, float] = {}
        self._read_at = 0.0

    def all(self) -> dict[str, float]:
        """The sums over all labels, but each bound of a histogram by itself."""
        if time.monotonic() - self._read_at > 0.2:
            self._read, self._read_at = self._fresh(), time.monotonic()
        return self._read

    def _fresh(self) -> dict[str, float]:
        status, text = get(self._server, "/metrics")
        assert status == 200
        found: dict[str, float] = {}
        for sample in itertools.chain.from_iterable(each.samples for each in text_string_to_metric_families(text)):
            name = sample.name + (f"<{sample.labels['le']}" if "le" in sample.labels else "")
            found[name] = found.get(name, 0) + sample.value
        return found

    def __getitem__(self, name: str) -> float:
        return self.all().get(name, -1)


@pytest.fixture
def shown(make_pipeline: Callable[..., Pipeline]) -> Iterator[tuple[Pipeline, Shown, Relay, Server]]:
    pipeline = make_pipeline(observe=ANYWHERE)
    with Relay(pipeline.settings, pipeline.spark) as relay, exposed(relay) as server:
        assert server
        yield pipeline, Shown(server), relay, server


@DATABASES
def test_figures_move_while_an_epoch_runs(shown: tuple[Pipeline, Shown, Relay, Server]) -> None:
    pipeline, metrics, relay, server = shown
    limit_message_size(pipeline, 10_000)
    wait_for(lambda: metrics["windrow_leader"] == metrics["windrow_led"] == 1, "a leader")
    pipeline.write(*(pipeline.message("first", f"{number}") for number in range(10)))
    wait_for(lambda: metrics["windrow_records_published_total"] == 10, "the first messages")
    pipeline.write(pipeline.message("x" * 20_000), *(pipeline.message("second", f"{each}") for each in range(100)))
    wait_for(lambda: relay.published() == 110, "the second messages")
    soon = 10  # two seconds, on a machine that has nothing else to do
    wait_for(lambda: metrics["windrow_records_published_total"] == 110, "their number", soon)
    wait_for(lambda: metrics["windrow_latency_seconds_count"] == 111, "their latency", soon)
    now = metrics.all()
    assert relay.epochs == now["windrow_epochs_total"] == 1
    assert now["windrow_records_captured_total"] >= 111
    assert now["windrow_records_dead_lettered_total"] == 1
    assert now["windrow_latency_seconds_count"] == now["windrow_latency_seconds_bucket<+Inf"] == 111
    assert 0 < now["windrow_latency_seconds_sum"] < 111 * 30
    assert now["windrow_latency_seconds_bucket<300.0"] == 111
    assert now["windrow_transaction_seconds_count"] == now["windrow_transactions_total"] > 0
    wait_for(lambda: metrics["windrow_dead_letters"] == 1, "the dead letter")
    wait_for(lambda: metrics["windrow_backlog_records"] == 0, "no backlog")
    wait_for(lambda: metrics["windrow_active"] == metrics["windrow_in_flight_records"] == 0, "an idle relay")
    assert get(server, "/livez") == (200, "alive\n")
    assert get(server, "/readyz") == (200, "ready\n")
    names = {name for metric in BY_NAME.values() for name in series(metric)}
    assert {name.partition("<")[0] for name in metrics.all()} <= names


def test_kafkas_own_figures_are_shown(shown: tuple[Pipeline, Shown, Relay, Server]) -> None:
    pipeline, metrics, _, _ = shown
    numbers = itertools.count()

    def told() -> bool:
        pipeline.write(pipeline.message(f"{next(numbers)}"))
        return metrics["windrow_kafka_sent_bytes"] > 0 and metrics["windrow_kafka_round_trip_seconds"] > 0

    wait_for(told, "the producers' statistics")


@pytest.mark.faults
def test_relay_that_stalls_is_not_ready_and_says_why(
    make_pipeline: Callable[..., Pipeline], kafka: embedded.Kafka
) -> None:
    pipeline = make_pipeline(observe={**ANYWHERE, "stalledAfter": "3s"})
    with Relay(pipeline.settings, pipeline.spark) as relay, exposed(relay) as server:
        assert server
        pipeline.write(pipeline.message("through"))
        pipeline.wait_published(relay, 1, 120)
        wait_for(lambda: Shown(server)["windrow_records_published_total"] == 1, "the message in the figures")
        assert get(server, "/readyz") == (200, "ready\n")
        kafka.pause()
        try:
            pipeline.write(pipeline.message("stuck"))
            wait_for(lambda: "1 messages wait, and nothing has been published" in get(server, "/readyz")[1], "a stall")
            status, why = get(server, "/readyz")
            assert status == 503
            assert "Kafka has not answered for" in why
            assert get(server, "/livez")[0] == 200
            assert Shown(server)["windrow_ready"] == 0
        finally:
            kafka.resume()
        pipeline.wait_published(relay, 2)
        wait_for(lambda: get(server, "/readyz") == (200, "ready\n"), "a relay that is ready again")
    assert get_after_end(relay) == 503


def get_after_end(relay: Relay) -> int:
    with exposed(relay) as server:
        assert server
        return get(server, "/livez")[0]
