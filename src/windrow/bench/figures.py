"""Which figures there are, and which measurement yields them."""

import platform
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from importlib.metadata import version
from typing import Any, Final

import confluent_kafka

from windrow.bench import backlog, held, idle, inserts, latency, strategies, succession
from windrow.bench.bed import Bed
from windrow.database.connections import connect
from windrow.embedded.broker import VERSION as KAFKA_VERSION

_Measurements = Mapping[str, tuple[Callable[[Bed], dict[str, float]], tuple[str, ...]]]
_MEASUREMENTS: Final[_Measurements] = {
    "backlog against the ceiling": (backlog.throughput, ("throughput_ratio", "records_per_s")),
    "backlog of a single key": (backlog.hot_key, ("hot_key_ratio",)),
    "small and large backlog": (backlog.growth, ("growth_ratio",)),
    "latency at 1,000 records/s": (latency.at_1k, ("p50_ratio", "p99_ratio", "p50_ms", "p99_ms", "t_ms")),
    "latency at 10,000 records/s": (latency.at_10k, ("p99_ratio_10k",)),
    "leader killed": (succession.takeover, ("takeover_s",)),
    "leader stopped": (succession.handover, ("handover_s",)),
    "idle": (idle.idle, ("idle_statements_per_s", "idle_cpu_cores")),
    "backlog while a foreign transaction is open": (held.held_xmin, ("held_xmin_ratio",)),
    "inserts": (inserts.inserts, ("insert_ratio",)),
}
_OF_MARKS: Final[_Measurements] = {
    "snapshots, marks, and marks without transactions": (
        strategies.mark,
        ("mark_ratio", "at_least_once_ratio", "records_per_s"),
    ),
    "marks on MariaDB": (strategies.mariadb, ("mariadb_ratio",)),
    "statements of marks": (strategies.statements, ("mark_statements_per_1000",)),
}
_OF_LOG: Final[_Measurements] = {
    "snapshots and the log": (strategies.tail, ("tail_ratio", "tail_records_per_s")),
    "latency of the log at 1,000 records/s": (
        latency.tail_at_1k,
        ("tail_p50_ratio", "tail_p99_ratio", "tail_p50_ms", "t_ms"),
    ),
}
_OF_CAPTURE: Final[Mapping[str, _Measurements]] = {"snapshot": _MEASUREMENTS, "mark": _OF_MARKS, "tail": _OF_LOG}
CAPTURES: Final = tuple(_OF_CAPTURE)
_OF_ALL: Final = ("lost", "duplicated", "reordered")


def keys(capture: str) -> tuple[str, ...]:
    """The figures of a capture."""
    return (*(key for _, keys in _OF_CAPTURE[capture].values() for key in keys), *_OF_ALL, "versions")


def measure(bed: Bed, only: Collection[str] = (), capture: str = "snapshot") -> dict[str, Any]:
    """The figures named, or all; what is measured along with them; and the faults of all runs."""
    figures: dict[str, Any] = {}
    latency.warm_up(bed)
    for title, run in _wanted(only, _OF_CAPTURE[capture]):
        bed.say(f"{title} …")
        figures |= {key: _rounded(figure) for key, figure in run(bed).items()}
    found = bed.faults
    figures |= {"lost": found.lost, "duplicated": found.duplicated, "reordered": found.reordered}
    return figures | {"versions": versions(bed)}


def _wanted(
    only: Collection[str], measurements: _Measurements
) -> Iterator[tuple[str, Callable[[Bed], dict[str, float]]]]:
    """Without names all; so also where the faults are asked for alone."""
    everything = not set(only).difference(_OF_ALL, {"versions"})
    for title, (run, keys) in measurements.items():
        if everything or set(only) & set(keys):
            yield title, run


def _rounded(figure: float) -> float:
    return float(f"{figure:.4g}") if figure < 1000 else round(figure)


def versions(bed: Bed) -> dict[str, str]:
    with closing(connect(bed.database)) as connection:
        row = connection.execute("SHOW server_version").fetchone()
    return {
        "windrow": version("windrow"),
        "python": platform.python_version(),
        "spark": bed.spark.version,
        "postgresql": row[0].split()[0] if row else "?",
        "kafka": KAFKA_VERSION if bed.embedded_kafka else "the user's",
        "librdkafka": confluent_kafka.libversion()[0],
    }
