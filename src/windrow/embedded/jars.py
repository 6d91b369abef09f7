"""Java archives by their Maven coordinates, fetched once per user by the Ivy that comes inside pyspark.

A set of archives is whole or not there (see `folders.cached`). WINDROW_IVY_SETTINGS may name an Ivy settings
file, for mirrors and proxies. What Ivy says is kept for the error message, shortened and without addresses.
"""

import importlib.util
import os
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from windrow.embedded.folders import cache_folder, cached, require_space
from windrow.embedded.process import GuardedProcess, Plan
from windrow.embedded.progress import Progress
from windrow.errors import EnvironmentUnfit
from windrow.extras import missing
from windrow.java import find_java

STALLED_AFTER = 90.0
"""Seconds without a single new byte."""


@dataclass(frozen=True)
class Coordinates:
    organisation: str
    module: str
    revision: str


@dataclass(frozen=True)
class JarSet:
    """A named set of archives with everything that they depend on."""

    title: str
    wanted: tuple[Coordinates, ...]
    megabytes: int
    """About, all together; for the progress that is shown."""

    @property
    def name(self) -> str:
        return f"{self.wanted[0].module}-{self.wanted[0].revision}"


def fetch(jars: JarSet) -> Path:
    """The folder with the archives; downloads them if they are not there yet."""
    return cached(cache_folder() / "jars" / jars.name, lambda part: download(jars, part))


def download(jars: JarSet, folder: Path) -> None:
    """Puts the archives into the folder, whatever is cached."""
    require_space(folder)
    # Ivy keeps a cache of its own, of which nothing is needed afterwards.
    with tempfile.TemporaryDirectory(prefix="ivy-", dir=folder) as scratch:
        command = _ivy_command(jars, folder, Path(scratch))
        ivy = GuardedProcess(Plan([str(part) for part in command], Path(scratch, "output"), Path(scratch)))
        try:
            stalled = _follow(ivy, jars, Path(scratch))
        finally:
            ivy.kill()
        if stalled or ivy.status != 0 or not any(folder.glob("*.jar")):
            raise _failure(jars, ivy.output(), stalled=stalled)


def _follow(ivy: GuardedProcess, jars: JarSet, scratch: Path) -> bool:
    """Shows progress until Ivy is done; whether it had to be given up."""
    seen, since = -1, time.monotonic()
    with Progress(f"fetching {jars.title} ({jars.megabytes} MB)", jars.megabytes * 1_000_000) as progress:
        while ivy.running:
            size = _size(scratch)
            progress.update(size)
            now = time.monotonic()
            if size != seen:
                seen, since = size, now
            elif now - since > STALLED_AFTER:
                return True
            time.sleep(0.1)
        if ivy.status == 0:
            progress.finish()
    return False


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # moved into place meanwhile
            continue
    return total


def _ivy_command(jars: JarSet, folder: Path, scratch: Path) -> list[str | Path]:
    description = scratch / "ivy.xml"
    description.write_text(_ivy_file(jars))
    command: list[str | Path] = [
        find_java(),
        "-Dsun.net.client.defaultConnectTimeout=10000",
        "-Dsun.net.client.defaultReadTimeout=30000",
        f"-Divy.default.ivy.user.dir={scratch}",
        "-jar",
        _find_ivy(),
        *("-cache", scratch / "cache"),
        *("-ivy", description),
        *("-confs", "default"),
        *("-types", "jar", "bundle"),
        *("-retrieve", f"{folder}/[artifact]-[revision].[ext]"),
    ]
    settings = os.environ.get("WINDROW_IVY_SETTINGS")
    if settings:
        if not Path(settings).is_file():
            raise EnvironmentUnfit(f"WINDROW_IVY_SETTINGS names {settings}, which is no file; correct or unset it")
        command += ["-settings", settings]
    return command


def _ivy_file(jars: JarSet) -> str:
    lines = [
        f"<dependency org={quoteattr(c.organisation)} name={quoteattr(c.module)} rev={quoteattr(c.revision)}"
        ' conf="default->default"/>'
        for c in jars.wanted
    ]
    return (
        '<ivy-module version="2.0"><info organisation="windrow" module="embedded"/>'
        f'<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )


def _find_ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise missing("pyspark", "embedded")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar"))
    if not found:
        raise EnvironmentUnfit(
            "the installed pyspark holds no Ivy; reinstall it: pip install --force-reinstall pyspark"
        )
    return found[-1]


def _failure(jars: JarSet, output: list[str], *, stalled: bool) -> EnvironmentUnfit:
    cause = f"nothing arrived for {STALLED_AFTER:.0f} s" if stalled else "the registry did not give it"
    said = "".join(f"\n  {line}" for line in telling_lines(output))
    return EnvironmentUnfit(
        f"could not fetch {jars.title}: {cause}; check the network, or name a mirror in an Ivy settings file "
        f"and set WINDROW_IVY_SETTINGS to its path, then try again{said}"
    )


def telling_lines(output: list[str], limit: int = 5) -> list[str]:
    """The lines of Ivy's output that name a cause, without the addresses in them."""
    telling = re.compile(r"not found|access error|exception|\[FAILED|timed out|refused|unknown host", re.IGNORECASE)
    lines = [re.sub(r"\w+://\S+", "<address>", line).strip(": \t") for line in output if telling.search(line)]
    return list(dict.fromkeys(lines))[-limit:]
