"""Spark sessions: `local[*]` by default, the user's cluster if the settings or spark-submit name one.

On `local[*]` the session is quiet and opens no port to the outside; whatever the settings give wins. What a classic
session and Spark Connect do in different ways is settled here, so that nobody else has to know which one it is.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkAttributeError, PySparkException
from pyspark.sql import SparkSession

from windrow.java import find_java
from windrow.spark.orphan import no_orphan

JOB_FAILED: Final = (PySparkException, Py4JError)
"""What a job raises that was cancelled or has lost its executors, in classic sessions and over Spark Connect."""

_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""The variable by which spark-submit leads us to the JVM that it has set up, master and all."""
_GONE_WITHIN: Final = 1.0
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_COMPILED_QUICKLY: Final = "-XX:TieredStopAtLevel=1"
"""Half the work of a start is compiling what Java then hardly runs."""
_LOCAL: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={files(__package__) / 'log4j2.properties'}",
}


def session(settings: Mapping[str, str], name: str, *, for_python: bool = False) -> SparkSession:
    """A session with `spark.*` settings; `master` and `remote` say where it runs.

    One for tasks in Python alone, whose Java only hosts them, starts sooner where it is local.
    """
    given = {f"spark.{key}" if key in {"master", "remote"} else key: value for key, value in settings.items()}
    builder = SparkSession.builder.appName(f"windrow {name}")
    if "spark.remote" not in given:
        find_java()
        given.setdefault("spark.ui.showConsoleProgress", "false")
    if "spark.remote" not in given and _SUBMITTED not in os.environ:
        given.setdefault("spark.master", "local[*]")
    if python := given.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = python  # Spark itself heeds the setting in spark-submit only
    if given.get("spark.master", "").startswith("local"):
        # Workers are to be this interpreter, not whichever python3 is on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        options = f"{_LOCAL[_JAVA_OPTIONS]} {_COMPILED_QUICKLY}" if for_python else _LOCAL[_JAVA_OPTIONS]
        given = {**_LOCAL, _JAVA_OPTIONS: options, **given}
    for key, value in given.items():
        builder = builder.config(key, value)
    with no_orphan():
        return builder.getOrCreate()


def slots(spark: SparkSession) -> int | None:
    """How many tasks can run at once now; None where the session does not tell, or finds room for as many as wait."""
    context = _context(spark)
    if context is None or context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        return None
    # Not defaultParallelism, which never says less than 2.
    scheduler = context._jsc.sc()  # noqa: SLF001 - PySpark has no other name for it
    return int(scheduler.maxNumConcurrentTasks(scheduler.resourceProfileManager().defaultResourceProfile()))


def group_jobs(spark: SparkSession, group: str) -> None:
    """Put the jobs of the calling thread into a group, so that `cancel` ends these and no others of the session."""
    if context := _context(spark):
        context.setJobGroup(group, group, interruptOnCancel=True)
    else:
        spark.addTag(group)


def has_lost_java(error: BaseException) -> bool:
    """Whether that is why something could not be asked of Spark."""
    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark has no other name for it
    java: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if java is None or not isinstance(error, (OSError, Py4JError)):
        return False
    try:
        java.wait(_GONE_WITHIN)  # its connections end a moment before it does
    except subprocess.TimeoutExpired:
        return False
    return True


def end(spark: SparkSession) -> None:
    """Stop a session; one that has lost its Java has nothing to stop."""
    try:
        spark.stop()
    except (OSError, Py4JError) as error:
        if not has_lost_java(error):
            raise


def cancel(spark: SparkSession, group: str) -> None:
    """End the running jobs of a group."""
    if context := _context(spark):
        context.cancelJobGroup(group)
    else:
        spark.interruptTag(group)


def _context(spark: SparkSession) -> SparkContext | None:
    """The context of a classic session; None over Spark Connect."""
    try:
        return spark.sparkContext
    except PySparkAttributeError:
        return None
