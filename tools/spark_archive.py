#!/usr/bin/env python3
"""Writes an archive of the classes that Spark loads (class data sharing), with which the tests' Sparks start with half
of the work.

It fits the very Java and jars that it was made with; with others Java goes on without it.
"""

import os
import sys
from pathlib import Path

_END_WITHIN = 120


def main() -> None:
    archive = Path(sys.argv[1]).absolute()
    part = archive.with_suffix(".part")
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={part} -Xlog:cds=off -Xlog:cds+dynamic=off"
    sys.stderr.write("preparing Spark for quick starts (once) ...\n")

    from windrow.relay.epoch import warm_up  # noqa: PLC0415 - after the variable that its Java reads
    from windrow.spark.session import session  # noqa: PLC0415 - as above

    spark = session({}, "training")
    warm_up(spark)
    spark.sql("SELECT id % 7 AS part, count(*) AS count FROM range(100) GROUP BY 1 ORDER BY 1").collect()
    java = spark.sparkContext._gateway.proc  # noqa: SLF001 - PySpark has no other name for it
    spark.stop()
    java.stdin.close()
    java.wait(_END_WITHIN)
    part.replace(archive)


if __name__ == "__main__":
    main()
