"""The benchmark against peers: each one relays all, once and in order; and what is made of the runs."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from pyspark.sql import SparkSession

from benchmarks.peers.connect import Connect
from benchmarks.peers.contenders import DISPATCHED, OURS, Contender, contenders
from benchmarks.peers.floor import FLOOR, measure_floor
from benchmarks.peers.loads import LOADS, QUICK, Run, Stage, latencies
from benchmarks.peers.plot import plot
from benchmarks.peers.report import Figure, Ratio, figures, page, ratios, table, verdicts
from windrow import bench, embedded
from windrow.bench.bed import Bed
from windrow.bench.receiver import Receipts
from windrow.settings import Limits

# The first time, Debezium is fetched.
pytestmark = pytest.mark.timeout(480)
SWEPT_AFTER_MS = Limits().sweep_after.total_seconds() * 1000
TINY = replace(QUICK, backlog=300, mixed=200, patience=60.0, warm_up=0.1, live=0.2, late=60.0)


@pytest.fixture(scope="module")
def stage(postgres: embedded.Postgres, kafka: embedded.Kafka, spark: SparkSession) -> Iterator[Stage]:
    with ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as helpers:
        # All processes are up before anything is timed.
        nothing = Receipts(np.array([1]), np.array([1]))
        for each in [helpers.submit(latencies, nothing, np.array([0, 0]), 0, 1) for _ in range(3)]:
            each.result()
        bed = Bed(bench.QUICK, postgres.url, kafka.client_config, spark, helpers, print, 1, 1, embedded_kafka=True)
        yield Stage(bed, TINY, partitions=2)


@pytest.fixture(scope="module")
def everybody(kafka: embedded.Kafka) -> Iterator[dict[str, Contender]]:
    with Connect(kafka.bootstrap_servers) as connect:
        yield {each.name: each for each in contenders(connect)}


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("windrow", "backlog"),
        (DISPATCHED, "1k"),
        ("Debezium", "mixed sizes"),
        ("Debezium, tuned", "1k"),
        ("goharvest's way", "hot key"),
        ("tomorrow-one's way", "backlog"),
        ("tomorrow-one's way, hurried", "1k"),
    ],
)
def test_a_contender_relays_all_once_and_in_order(
    stage: Stage, everybody: dict[str, Contender], name: str, load: str
) -> None:
    run = next(each for each in LOADS if each.name == load).run(stage, everybody[name])
    assert (run.load, run.contender, run.complete) == (load, name, True)
    assert (run.lost, run.duplicated, run.reordered) == (0, 0, 0)
    assert all(figure > 0 for figure in run.figures.values())
    assert name != DISPATCHED or run.figures["p50_ms"] < SWEPT_AFTER_MS


def test_transactions_alone_bring_all_once_and_in_order(stage: Stage) -> None:
    run = measure_floor(stage)
    assert (run.load, run.contender, run.complete) == ("1k", FLOOR, True)
    assert (run.lost, run.duplicated, run.reordered) == (0, 0, 0)
    assert 0 < run.figures["p50_ms"] <= run.figures["p99_ms"]


def test_what_is_dispatched_takes_part_in_live_loads_alone(everybody: dict[str, Contender]) -> None:
    assert [load.name for load in LOADS if load.has(everybody[DISPATCHED])] == ["1k", "10k"]
    assert all(load.has(everybody["windrow"]) for load in LOADS)


def runs(load: str, figure: str, **whose: list[float]) -> list[Run]:
    return [
        Run(load, name, {figure: each}, complete=name != "slow", lost=0, duplicated=0, reordered=0)
        for name, values in whose.items()
        for each in values
    ]


BACKLOGS = runs(
    "backlog", "records_per_s", windrow=[90.0, 110.0, 100.0], quick=[20.0, 25.0, 40.0], slow=[1.0, 1.0, 1.0]
)
LATENCIES = runs(
    "1k", "p50_ms", **{"windrow": [10.0], DISPATCHED: [6.0], "quick": [8.0], "slow": [900.0], FLOOR: [5.0]}
)


def test_a_figure_is_the_median_with_its_spread() -> None:
    found = figures(BACKLOGS)["backlog"]["records_per_s"]
    assert found["windrow"] == Figure(100.0, 90.0, 110.0, complete=True)
    assert str(found["slow"]) == "1* (1 to 1)"


def test_each_of_ours_is_compared_with_the_best_peer_of_each_figure() -> None:
    found = [*ratios(figures([*BACKLOGS, *LATENCIES]))]
    assert found == [
        Ratio("backlog", "records_per_s", "windrow", "quick", 4.0, bar=4.0),
        Ratio("1k", "p50_ms", "windrow", "quick", 1.25, bar=1.0),
        Ratio("1k", "p50_ms", DISPATCHED, "quick", 0.75, bar=1.0),
    ]
    assert [each.met for each in found] == [True, False, True]
    assert not replace(found[0], ratio=3.9).met
    assert [*verdicts(found)] == [
        "backlog, records/s: windrow ÷ quick = 4.00 (bar ≥ 4: met)",
        "1k, p50, ms: windrow ÷ quick = 1.25 (bar ≤ 1: NOT met)",
        "1k, p50, ms: windrow, dispatched ÷ quick = 0.75 (bar ≤ 1: met)",
    ]


def test_ours_without_peers_are_compared_with_nobody() -> None:
    ours = [each for each in LATENCIES if each.contender in OURS]
    assert [*ratios(figures(ours))] == []


def test_a_record_that_has_not_come_counts_with_the_time_it_was_waited_for() -> None:
    received = Receipts(np.array([0, 1, 2, 1]), np.array([0, 3_000_000, 4_000_000, 9_000_000]))
    committed = np.array([0, 1_000_000, 2_000_000, 3_000_000])
    assert latencies(received, committed, 0, until=1_003_000_000)[0] == 2.0
    assert latencies(received, committed, 2, until=1_003_000_000)[0] == 1_000.0


def test_the_report_names_every_contender_and_load() -> None:
    everything = [*BACKLOGS, *LATENCIES]
    measured = figures(everything)
    about = {
        "size": {name: getattr(TINY, name) for name in TINY.__slots__},
        "partitions": 4,
        "versions": {"windrow": "1"},
        "machine": "2 cores",
        "runs": [
            {"contender": each.contender, "lost": each.lost, "duplicated": each.duplicated, "reordered": each.reordered}
            for each in everything
        ],
    }
    shown = page(about, measured, [], "peers.svg")
    for text in (table(measured), shown, plot(measured)):
        assert all(name in text for name in ("windrow", "quick", "slow", FLOOR))
    assert "| windrow | 100 (90 to 110) |" in shown
    assert "windrow ÷ quick = 4.00 (bar ≥ 4: met)" in shown
    assert "| windrow, dispatched | 6 (6 to 6) |" in shown
    assert plot(measured).count('class="ours"') == len(["backlog", "1k", "1k, dispatched"])
