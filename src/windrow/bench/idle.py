"""What a relay costs that has nothing to do: statements at the database, and CPU."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

from windrow.bench.bed import Bed
from windrow.database.connections import connect
from windrow.embedded.guard import descendants


def idle(bed: Bed) -> dict[str, float]:
    with bed.lane() as lane, lane.relaying():
        time.sleep(bed.size.settle)
        began, statements, cpu = time.monotonic(), transactions(bed.database), _cpu_seconds()
        time.sleep(bed.size.idle)
        seconds, statements, cpu = (
            time.monotonic() - began,
            transactions(bed.database) - statements,
            _cpu_seconds() - cpu,
        )
    bed.say(f"  {statements / seconds:.1f} statements/s, {cpu / seconds:.3f} cores")
    return {"idle_statements_per_s": statements / seconds, "idle_cpu_cores": cpu / seconds}


def transactions(database: str) -> int:
    """Transactions ended at the database so far: the relay's statements are one each (autocommit)."""
    with connect(database, "windrow bench") as connection:
        row = connection.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    return int(row[0]) if row else 0


def _cpu_seconds() -> float:
    """Of this process, which is the driver, of Spark's JVM and of its Python workers."""
    spark = [pid for pid in descendants(os.getpid()) if b"org.apache.spark.deploy.SparkSubmit" in _command(pid)]
    workers = [pid for jvm in spark for pid in descendants(jvm)]
    return _ticks([os.getpid()], waited_for=False) + _ticks([*spark, *workers], waited_for=True)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def _ticks(pids: Iterable[int], *, waited_for: bool) -> float:
    total = 0
    for pid in set(pids):
        try:
            after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # its parent has its time now
            continue
        total += sum(map(int, after_name[11 : 15 if waited_for else 13]))
    return total / os.sysconf("SC_CLK_TCK")
