"""Finds the Java that the broker and Spark run on.

Spark's own launcher takes JAVA_HOME first and PATH second, so the same order holds here: a Java that is
fit for us is then the one that Spark gets. Imports nothing but the standard library, since it is asked
before any dependency is installed.
"""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from windrow.errors import EnvironmentUnfit

FIT = (17, 21)
REMEDY = "install it, e.g. apt-get install openjdk-17-jre-headless, or set JAVA_HOME to one"


def find_java() -> Path:
    """The path of a Java 17 or 21; raises `EnvironmentUnfit` where there is none."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise EnvironmentUnfit(
                f"JAVA_HOME is {home}, but there is no bin/java in it; set it to a Java 17 or 21, or unset it"
            )
    else:
        found = shutil.which("java")
        if found is None:
            raise EnvironmentUnfit(f"Java 17 or 21 is needed, found none on PATH; {REMEDY}")
        java = Path(found)
    major = parse_major(java_banner(java))
    if major not in FIT:
        raise EnvironmentUnfit(f"Java 17 or 21 is needed, found {major or 'an unknown one'} at {java}; {REMEDY}")
    return java


@functools.cache
def java_banner(java: Path) -> str:
    """What `java -version` says."""
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentUnfit(f"{java} does not run ({error}); {REMEDY}") from error
    return run.stderr + run.stdout


def parse_major(banner: str) -> int | None:
    """17 from `openjdk version "17.0.15"`, 8 from `java version "1.8.0_402"`."""
    match = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(match[1]) if match else None
