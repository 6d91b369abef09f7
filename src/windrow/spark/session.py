"""Spark sessions: `local[*]` by default, the user's cluster if the settings name one.

On `local[*]` the session is quiet and opens no port to the outside; whatever the settings give wins.
"""

import os
import sys
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkAttributeError, PySparkException
from pyspark.sql import SparkSession

from windrow.java import find_java

JOB_FAILED: Final = (PySparkException, Py4JError)
"""What a job raises that was cancelled or has lost its executors, in classic sessions and over Spark Connect."""

_LOCAL: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={files(__package__) / 'log4j2.properties'}",
}


def session(settings: Mapping[str, str], name: str) -> SparkSession:
    """A session with `spark.*` settings; `master` and `remote` say where it runs."""
    given = {f"spark.{key}" if key in {"master", "remote"} else key: value for key, value in settings.items()}
    builder = SparkSession.builder.appName(f"windrow {name}")
    if "spark.remote" not in given:
        find_java()
        given.setdefault("spark.master", "local[*]")
    if given.get("spark.master", "").startswith("local"):
        # Workers are to be this interpreter, not whichever python3 is on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        given = {**_LOCAL, **given}
    for key, value in given.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def slots(spark: SparkSession) -> int | None:
    """How many tasks can run at once; None where the session does not tell (Spark Connect)."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkAttributeError:
        return None
