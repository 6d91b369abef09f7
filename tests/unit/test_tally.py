"""What a task counts, how it adds up, and what Kafka's clients say of themselves."""

import json
from collections.abc import Mapping

import pytest

from windrow.kafka.statistics import Statistics
from windrow.observe.histogram import BOUNDS, Histogram
from windrow.relay.tally import ShardFigures, Tally


def test_figures_of_successive_tasks_add_up() -> None:
    first, second = Tally(), Tally()
    first.captured(10, 0.002)
    first.committed(10, 0.02)
    second.captured(5, 0.2)
    second.count("fencings")
    row = ShardFigures()
    for tally in (first, second, first):
        row.add(tally.take())
        row = ShardFigures.decode(row.encode())
    assert row.counts == {
        "captured": 15,
        "published": 10,
        "dead_lettered": 0,
        "transactions": 1,
        "fencings": 1,
        "interruptions": 0,
    }
    assert (row.times["page"].count, row.times["page"].sum) == (2, pytest.approx(0.202))


def test_what_could_not_be_told_is_told_the_next_time() -> None:
    tally = Tally()
    tally.count("captured", 3)
    lost = tally.take()
    assert not tally.take()
    tally.count("captured", 4)
    tally.give_back(lost)
    assert tally.take().counts["captured"] == 7


def test_figures_of_another_version_are_read_as_far_as_they_are_known() -> None:
    old = ShardFigures.decode(json.dumps({"captured": 3, "novelty": 1, "latency": [1, 2, 3]}))
    assert (old.counts["captured"], old.times["latency"].count) == (3, 0)
    assert not ShardFigures.decode(None)


def test_latency_counts_every_record_though_few_are_timed() -> None:
    tally = Tally()
    tally.arrived([None if each % 64 else 9_500_000 for each in range(1_000)], now=10.0)
    tally.arrived([9_900_000] * 10_000, now=10.0)
    tally.arrived([11_000_000], now=10.0)  # the database's clock is ahead
    tally.arrived([None], now=10.0)
    latency = tally.take().times["latency"]
    assert latency.count == 11_001
    assert latency.sum == pytest.approx(1_000 * 0.5 + 10_000 * 0.1)
    assert latency.counts[0] == 1


def test_quantiles_lie_between_the_bounds() -> None:
    histogram = Histogram()
    assert histogram.quantile(0.5) is None
    for milliseconds in range(1, 101):
        histogram.add(milliseconds / 1000)
    assert histogram.quantile(0.5) == pytest.approx(0.05)
    assert histogram.quantile(1) == pytest.approx(0.1)
    histogram.add(10_000, 1_000)
    assert histogram.quantile(0.99) == BOUNDS[-1]


def test_statistics_of_several_clients_are_one_row() -> None:
    told: list[Mapping[str, float]] = []
    receive = Statistics(told.append).config()["stats_cb"]
    for number in (1, 2, 1):
        broker = {"txerrs": 1, "req_timeouts": number, "rtt": {"avg": 1500 * number}}
        receive(json.dumps({"name": f"p{number}", "tx": 10, "tx_bytes": 500, "msg_cnt": 2, "brokers": {"b": broker}}))
    receive(" " * 600_000 + "{}")
    assert len(told) == 3
    assert told[-1] == {"sent_bytes": 1000, "requests": 20, "queued_messages": 4, "errors": 5, "round_trip": 0.003}
