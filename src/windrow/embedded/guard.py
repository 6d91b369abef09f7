"""Keeps one server from outliving the process that started it. Run as a script; nobody imports windrow here.

The guard starts the server, waits, and ends it when it is told to (SIGTERM) or when its own parent is gone,
however that died. It is a subreaper, so every process that descends from the server stays below the guard,
backends of a dead postmaster included; and the server dies with the guard (PR_SET_PDEATHSIG, sound because
the guard has a single thread). It lives in a session of its own: a terminal's Ctrl-C does not reach it.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
WAKING = {signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP}


@dataclass(frozen=True)
class Order:
    """What a guard is to run, as its parent sends it. Preparations run first, one after the other."""

    parent: int
    arguments: list[str]
    preparations: list[list[str]]
    log: str
    folder: str
    stop_signal: int
    grace: float
    uid: int | None
    gid: int | None
    leftover: str | None
    """A folder to remove if the parent dies: then nobody else can."""

    def encode(self) -> str:
        return json.dumps(asdict(self))


def descendants(root: int) -> list[int]:
    """All processes below `root`, the nearest first; zombies are left out."""
    children: dict[int, list[int]] = {}
    for pid, (state, parent) in _processes():
        if state != "Z":
            children.setdefault(parent, []).append(pid)
    found, ahead = [], [root]
    while ahead:
        below = children.get(ahead.pop(0), [])
        found += below
        ahead += below
    return found


def signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def state(pid: int) -> str | None:
    """The kernel's letter for the process: R, S, D, T (stopped), Z; None when it is gone."""
    try:
        return _stat(pid)[0]
    except (OSError, IndexError):
        return None


def _processes() -> Iterator[tuple[int, tuple[str, int]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), _stat(int(entry.name))
            except (OSError, IndexError):
                continue


def _stat(pid: int) -> tuple[str, int]:
    # The name in brackets may itself hold brackets and blanks.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[1])


class _ToldToEnd(Exception):
    """The parent told the guard to end, or is gone."""


class _Guard:
    def __init__(self, order: Order) -> None:
        self.order = order
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.children: list[subprocess.Popen[bytes]] = []
        self.running: int | None = None
        self.status = 0

    def run(self) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, WAKING)
        self.libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            self._serve()
        except _ToldToEnd:
            self._end()
        finally:
            if self.order.leftover is not None and self._abandoned():
                shutil.rmtree(self.order.leftover, ignore_errors=True)
        return self.status

    def _serve(self) -> None:
        for arguments in self.order.preparations:
            self._start(arguments)
            self._watch()
            if self.status != 0:
                return
        pid = self._start(self.order.arguments)
        with contextlib.suppress(BrokenPipeError):
            os.write(1, f"{pid}\n".encode())
        os.close(1)
        self._watch()
        # The server is dead: what it leaves behind does not stay.
        self._kill_after(5)

    def _start(self, arguments: list[str]) -> int:
        order = self.order
        with Path(order.log).open("ab") as log:
            child = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=order.folder,
                user=order.uid,
                group=order.gid,
                extra_groups=None if order.uid is None else [],
                preexec_fn=self._in_child,  # noqa: PLW1509 - the guard has one thread
            )
        # Kept, or its destructor would collect the exit status before `_reap` sees it.
        self.children.append(child)
        self.running = child.pid
        return child.pid

    def _in_child(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        self.libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def _watch(self) -> None:
        """Returns when the running child has ended."""
        while self._still_runs():
            if self._abandoned():
                raise _ToldToEnd
            woken = signal.sigtimedwait(WAKING, 0.2)
            if woken is not None and woken.si_signo == signal.SIGTERM:
                raise _ToldToEnd

    def _end(self) -> None:
        """Gracefully for as long as the order allows, then by force."""
        signal_all(descendants(os.getpid()), signal.SIGCONT)
        if self.running is not None:
            signal_all([self.running], self.order.stop_signal)
        self._kill_after(self.order.grace)

    def _kill_after(self, seconds: float) -> None:
        while not self._await_children(seconds):
            signal_all(descendants(os.getpid()), signal.SIGKILL)
            seconds = 0.02

    def _await_children(self, seconds: float) -> bool:
        """Whether all children ended in time."""
        deadline = time.monotonic() + seconds
        while not self._reap():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            signal.sigtimedwait({signal.SIGCHLD}, min(left, 0.2))
        return True

    def _still_runs(self) -> bool:
        self._reap()
        return self.running is not None

    def _reap(self) -> bool:
        """Collects the dead children; whether none is left at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.running:
                self.running, self.status = None, abs(os.waitstatus_to_exitcode(status))

    def _abandoned(self) -> bool:
        return os.getppid() != self.order.parent


if __name__ == "__main__":
    sys.exit(_Guard(Order(**json.loads(sys.argv[1]))).run())
