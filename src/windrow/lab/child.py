"""A process of our own that is killed, paused and resumed with all its descendants, and that does not outlive us.

It runs a function in a fresh interpreter. The function is told to end by SIGTERM; what it says goes to a log.
"""

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Final

from windrow.embedded.guard import descendants, signal_all, state

SPAWN: Final = multiprocessing.get_context("spawn")
_STOPPED_WITHIN: Final = 60.0


class Child:
    """Runs `work(*arguments)`; may be started anew after it has ended."""

    def __init__(
        self, log: Path, work: Callable[..., None], *arguments: Any, environment: Mapping[str, str] | None = None
    ) -> None:
        """The environment is what it has beside ours."""
        self._log, self._work, self._arguments = log, work, arguments
        self._environment = environment or {}
        self._process: SpawnProcess | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def start(self) -> None:
        if not self.running:
            given = (os.getpid(), self._log, self._work, self._arguments)
            self._process = SPAWN.Process(target=_run, args=given, name=self._log.stem)
            ours = {name: os.environ.get(name) for name in self._environment}
            os.environ.update(self._environment)
            try:
                self._process.start()
            finally:
                for name, value in ours.items():
                    if value is None:
                        del os.environ[name]
                    else:
                        os.environ[name] = value

    def pids(self) -> list[int]:
        pid = self._process.pid if self._process is not None and self._process.is_alive() else None
        return [] if pid is None else [pid, *descendants(pid)]

    def kill(self) -> None:
        """As a machine does that fails: all at once."""
        pids = self.pids()
        signal_all(pids, signal.SIGKILL)
        while any(state(pid) not in {"Z", None} for pid in pids):
            time.sleep(0.01)
        if self._process is not None:
            self._process.join()

    def pause(self) -> None:
        while any(state(pid) not in {"T", "Z", None} for pid in self.pids()):
            signal_all(self.pids(), signal.SIGSTOP)

    def resume(self) -> None:
        signal_all(self.pids(), signal.SIGCONT)

    def stop(self) -> None:
        """In good order; by force where that takes too long."""
        if self._process is not None and self._process.is_alive():
            self.resume()
            self._process.terminate()
            self._process.join(_STOPPED_WITHIN)
            self.kill()


def told_to_stop() -> threading.Event:
    """Set once this process is told to end; a terminal's Ctrl-C is for our parent alone."""
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return told


def python_workers(root: int) -> list[int]:
    """The Python workers of a Spark below a process: they are children of a daemon."""
    below = set(descendants(root))
    return [pid for daemon in below if runs(daemon, b"pyspark.daemon") for pid in descendants(daemon) if pid in below]


def runs(pid: int, program: bytes) -> bool:
    """Whether a process was started by a command that names the program."""
    return program in _told(pid, "cmdline")


def bears(pid: int, variable: bytes) -> bool:
    """Whether a process was started with the variable, `name=value`, in its environment."""
    return variable in _told(pid, "environ").split(b"\0")


def _told(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:  # gone by itself since it was listed
        return b""


def _run(parent: int, log: Path, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with log.open("ab", buffering=0) as said:
        os.dup2(said.fileno(), sys.stdout.fileno())
        os.dup2(said.fileno(), sys.stderr.fileno())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s", force=True)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    work(*arguments)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    signal_all([*descendants(os.getpid()), os.getpid()], signal.SIGKILL)
