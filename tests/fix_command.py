"""The command line in processes of its own, which carry a mark by which they and all their children are found."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import psutil
import yaml


def windrow(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "windrow", *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


@contextmanager
def windrow_running(*arguments: str | Path, mark: str, talk: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """A command that runs until it is told to end. What it says goes to a pipe, or to the file `talk`."""
    with (
        talk.open("w") if talk else nullcontext(subprocess.PIPE) as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "windrow", *map(str, arguments)],
            env={**os.environ, "WINDROW_TEST_MARK": mark},
            stderr=stderr,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def marked(mark: str) -> list[int]:
    """The processes, of any user, that carry the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("WINDROW_TEST_MARK") == mark:
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def write_config(folder: Path, **settings: object) -> Path:
    path = folder / "relay.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path
