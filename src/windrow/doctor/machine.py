"""The machine that the relay's driver runs on: Java, Spark, and whether there are slots for the shards."""

import os
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version

from windrow.doctor.finding import Finding, failed, info, ok, warning
from windrow.errors import EnvironmentUnfit
from windrow.java import find_java, java_banner, parse_major
from windrow.relay.epoch import warm_up
from windrow.settings import Settings
from windrow.spark.session import JOB_FAILED, session, slots


def examine_machine(spark: Mapping[str, str]) -> Iterator[Finding]:
    """What needs no server."""
    if "remote" in spark or "spark.remote" in spark:
        yield ok("java", "not needed here: the driver speaks to Spark Connect")
    else:
        try:
            java = find_java()
            yield ok("java", f"{parse_major(java_banner(java))} at {java}")
        except EnvironmentUnfit as error:
            says, _, remedy = str(error).partition("; ")
            yield failed("java", says, remedy)
    yield ok("spark", f"pyspark {version('pyspark')} is installed")


def examine_spark(settings: Settings, shards: int | None) -> Iterator[Finding]:
    """Start a session and run a Python worker in it; the session is stopped in the end."""
    try:
        running = session(settings.spark, f"{settings.name} doctor")
    except (EnvironmentUnfit, *JOB_FAILED) as error:
        yield failed("spark session", _first_line(error), "check spark.master or spark.remote, and that it is up")
        return
    try:
        warm_up(running)
        yield ok("spark session", f"Spark {running.version} runs Python workers that know windrow")
        yield from judge_slots(shards, slots(running))
    except JOB_FAILED as error:
        yield failed("spark session", _first_line(error), "install windrow[relay] where the executors' Python is")
    finally:
        running.stop()


def judge_slots(shards: int | None, found: int | None) -> Iterator[Finding]:
    """Whether every shard has a task of its own."""
    if shards is None:
        return
    if found is None:
        yield info("slots", f"shards: {shards}; how many tasks run at once is not known", "give --spark to ask Spark")
    elif shards > found:
        yield warning(
            "slots",
            f"{shards} shards share {found} task slots, so that some run in one process",
            f"give Spark {shards} cores, and one besides for the rest; or live with fewer",
        )
    else:
        yield ok("slots", f"shards: {shards}, task slots: {found}")


def slots_of(master: str, cores: int) -> int | None:
    """How many tasks a local master runs at once; None for a cluster, which has to be asked."""
    if master == "local":
        return 1
    found = re.fullmatch(r"local\[(\*|\d+)(?:,\s*\d+)?\]", master)
    if found is None:
        return None
    return cores if found[1] == "*" else int(found[1])


def expected_slots(spark: Mapping[str, str]) -> int | None:
    """What the settings alone tell of it."""
    if "remote" in spark or "spark.remote" in spark:
        return None
    return slots_of(spark.get("spark.master", spark.get("master", "local[*]")), os.cpu_count() or 1)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
