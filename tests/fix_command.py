"""The command line: in this process, or in processes of its own, which carry a mark by which they and all their
children are found.
"""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import psutil
import pytest
import yaml

from windrow.cli import main
from windrow.settings import Settings


def windrow(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in this process: what the console script does, without the start of an interpreter."""
    said, complained = io.StringIO(), io.StringIO()
    status: str | int | None = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(complained):
        patch.setattr(sys, "argv", ["windrow", *map(str, arguments)])
        try:
            main()
        except SystemExit as end:
            status = end.code
    return subprocess.CompletedProcess(sys.argv, int(status or 0), said.getvalue(), complained.getvalue())


def windrow_apart(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "windrow", *map(str, arguments)],
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


def signal_marked(mark: str, number: int) -> None:
    """Send a signal to all processes that carry the mark: a command, its Spark, its Python workers."""
    for process in marked(mark):
        with suppress(ProcessLookupError):  # some of them live for a moment only
            os.kill(process, number)


def write_config(folder: Path, **settings: object) -> Path:
    path = folder / "relay.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def relay_config(folder: Path, settings: Settings, **more: object) -> Path:
    """A settings file for the relay of these settings, as far as it says where everything is; and more."""
    return write_config(
        folder,
        name=settings.name,
        outboxTable=settings.outbox_table,
        dataSource=settings.data_source,
        baseKafkaConfig=dict(settings.base_kafka_config),
        **more,
    )
