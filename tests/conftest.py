"""The servers that the tests run on, started once, and a pipeline of its own for each test."""

import os
import sys
from pathlib import Path

# Brokers and Sparks that live for seconds: their Java is to start quickly, not to run fast for long.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
_ARCHIVE = Path(sys.prefix, "spark.jsa")
if _ARCHIVE.exists():
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-XX:SharedArchiveFile={_ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off")

pytest_plugins = [
    "fix_servers",
    "fix_mariadb",
    "fix_pipeline",
    "fix_habits",
    "fix_consumer",
    "fix_queue",
    "fix_tracing",
    "fix_browser",
]
