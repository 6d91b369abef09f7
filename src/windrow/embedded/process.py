"""A process with all its descendants, under a guard (see `guard`) that ends it when this process ends.

`stop`, `kill` and `pause` return when their effect is there, for every descendant. Commands that come first
may prepare the ground; they are guarded as well.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path

from windrow.embedded import guard
from windrow.embedded.folders import Account


@dataclass(frozen=True)
class Plan:
    """What to run and how it ends."""

    arguments: Sequence[str]
    log: Path
    folder: Path
    """The working directory."""
    preparations: Sequence[Sequence[str]] = ()
    stop_signal: signal.Signals = signal.SIGTERM
    grace: float = 10
    """Seconds that the stop signal has before force is used."""
    account: Account | None = None
    leftover: Path | None = None
    """A folder that the guard removes if this process dies."""


class GuardedProcess:
    """Starts at once. `held` are descriptors, of locks, that stay open for as long as the process lives."""

    def __init__(self, plan: Plan, held: Sequence[int] = ()) -> None:
        self._plan = plan
        self._pid: int | None = None
        order = guard.Order(
            parent=os.getpid(),
            arguments=list(plan.arguments),
            preparations=[list(command) for command in plan.preparations],
            log=str(plan.log),
            folder=str(plan.folder),
            stop_signal=plan.stop_signal,
            grace=plan.grace,
            uid=None if plan.account is None else plan.account.uid,
            gid=None if plan.account is None else plan.account.gid,
            leftover=None if plan.leftover is None else str(plan.leftover),
        )
        with plan.log.open("ab") as log:
            self._log_start = log.tell()
            # -I and -S: the guard needs the standard library alone, and is up in 20 ms.
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, order.encode()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                pass_fds=held,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        return self._guard.poll() is None

    @property
    def status(self) -> int | None:
        """The exit status, None while it runs."""
        return self._guard.poll()

    def pid(self, deadline: float) -> int | None:
        """The main process, once the preparations are done; None if they failed or take too long."""
        if self._pid is None and self._guard.stdout is not None:
            ready = connection.wait([self._guard.stdout.fileno()], max(0.0, deadline - time.monotonic()))
            line = self._guard.stdout.readline() if ready else b""
            self._pid = int(line) if line else None
        return self._pid

    def stop(self, *, wait: bool = True) -> None:
        """Ends it by its stop signal, or by force after the grace period."""
        if self._guard.returncode is None:
            self._guard.send_signal(signal.SIGTERM)
        if wait:
            self._forget()

    def kill(self) -> None:
        while self._guard.poll() is None:
            guard.signal_all(guard.descendants(self._guard.pid), signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._guard.wait(0.02)
        self._forget()

    def pause(self) -> None:
        # Again until nothing new turns up: a process may fork before its turn comes.
        while any(guard.state(pid) not in {"T", "Z", None} for pid in self._processes()):
            guard.signal_all(self._processes(), signal.SIGSTOP)

    def resume(self) -> None:
        guard.signal_all(self._processes(), signal.SIGCONT)

    def output(self) -> list[str]:
        """The lines that it and its preparations have written so far."""
        with self._plan.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace").splitlines()

    def _processes(self) -> list[int]:
        return guard.descendants(self._guard.pid)

    def _forget(self) -> None:
        self._guard.wait()
        if self._guard.stdout is not None:
            self._guard.stdout.close()
