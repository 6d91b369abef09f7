"""One server and its life: start, stop, pause, resume, kill, restart.

Every call returns when its effect is there: after `start` and `restart` the server answers, after `stop`
and `kill` none of its processes is left, after `pause` all of them stand still. Port and data stay the same
over kills and restarts; one folder has one server at a time, and a lock in it says so.
"""

import os
import shutil
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from windrow.embedded import ports
from windrow.embedded.folders import LOCK, Account, locked, make_folder
from windrow.embedded.process import GuardedProcess, Plan
from windrow.errors import EnvironmentUnfit


@dataclass(frozen=True)
class Commands:
    """The server's command, and those that make its data folder where there is none yet."""

    server: Sequence[str]
    preparations: Sequence[Sequence[str]] = ()


class Server(ABC):
    """A server on the loopback, on one port, with its data in one folder."""

    name: ClassVar[str]
    start_seconds: ClassVar[float] = 60
    grace: ClassVar[float] = 15
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """Ends the server in good order."""
    discard_signal: ClassVar[signal.Signals] = signal.SIGKILL
    """Ends it quickly where its data go anyway."""

    def __init__(self, folder: str | os.PathLike[str] | None, port: int | None) -> None:
        self._given_folder = None if folder is None else Path(folder)
        self._given_port = port
        self._folder: Path | None = None
        self._port = port
        self._process: GuardedProcess | None = None
        self._pid: int | None = None
        self.account: Account | None = None

    @abstractmethod
    def _commands(self) -> Commands:
        """Writes the configuration for the present folder and port; the commands to run."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the server does its work for a client now."""

    def _clean_up(self) -> None:  # noqa: B027 - most servers leave nothing
        """Removes what dead processes left outside the folder, and what would hinder the next start."""

    @property
    def folder(self) -> Path:
        if self._folder is None:
            raise RuntimeError(f"{self.name} is not started")
        return self._folder

    @property
    def port(self) -> int:
        if self._port is None:
            raise RuntimeError(f"{self.name} is not started")
        return self._port

    @property
    def pid(self) -> int:
        """The server's main process."""
        if self._pid is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._pid

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        self._refuse_twice()
        try:
            self.launch()
            self.await_answer()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the server, and removes its folder if that is a temporary one."""
        self.tell_to_stop()
        self._forget_process()
        if self._folder is not None:
            self._clean_up()
            if self._given_folder is None:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        self._port = self._given_port

    def kill(self) -> None:
        """Ends all processes of the server with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._forget_process()

    def pause(self) -> None:
        """Stops all processes of the server with SIGSTOP: connections stay open, nothing answers."""
        if self._process is not None:
            self._process.pause()

    def resume(self) -> None:
        """Undoes `pause`."""
        if self._process is not None:
            self._process.resume()

    def restart(self) -> None:
        """Stops the server in good order, unless it is dead, and starts it on the same port and data."""
        self.halt()
        self.launch()
        self.await_answer()

    def launch(self) -> None:
        """The first half of `start`: does not wait for an answer."""
        self._refuse_twice()
        if self._folder is None:
            self._folder = make_folder(self._given_folder, self.name.lower(), self.account)
        if self._port is None:
            self._port = ports.free_port()
        ports.claim(self._port, self.name)
        busy = f"another {self.name} uses {self.folder}"
        with locked(self.folder / LOCK, wait=self.grace + 1, busy=busy) as lock:
            self._clean_up()
            commands = self._commands()
            plan = Plan(
                arguments=commands.server,
                preparations=commands.preparations,
                log=self.log,
                folder=self.folder,
                stop_signal=self.discard_signal if self._leftover else self.stop_signal,
                grace=self.grace,
                account=self.account,
                leftover=self._leftover,
            )
            self._process = GuardedProcess(plan, [lock])

    def await_answer(self) -> None:
        """The second half of `start`."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not launched")
        deadline = time.monotonic() + self.start_seconds
        self._pid = self._process.pid(deadline)
        if self._pid is None:
            raise self._unfit("could not be prepared")
        while not self._answers():
            if not self.running:
                raise self._unfit("ended at once")
            if time.monotonic() > deadline:
                raise self._unfit(f"does not answer after {self.start_seconds:.0f} s")
            time.sleep(0.02)

    def halt(self) -> None:
        """Ends the server in good order and keeps its data, temporary or not."""
        self.tell_to_halt()
        deadline = time.monotonic() + self.grace
        while self.running and time.monotonic() < deadline:
            time.sleep(0.02)
        self.kill()

    def tell_to_halt(self) -> None:
        """The first half of `halt`."""
        if self._pid is not None and self.running:
            self.resume()
            os.kill(self._pid, self.stop_signal)

    def tell_to_stop(self) -> None:
        """The first half of `stop`."""
        if self._process is not None:
            self._process.stop(wait=False)

    @property
    def _leftover(self) -> Path | None:
        """The folder whose content nobody wants once the server is gone."""
        return self.folder if self._given_folder is None else None

    def _refuse_twice(self) -> None:
        if self.running:
            raise RuntimeError(f"{self.name} runs already")

    def _forget_process(self) -> None:
        if self._process is not None:
            self._process.stop()
        self._process, self._pid = None, None

    def _write(self, name: str, content: str) -> Path:
        """A file in the folder that the server, and nobody else, may read."""
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(content)
        if self.account is not None:
            os.chown(path, self.account.uid, self.account.gid)
        return path

    def _unfit(self, what: str) -> EnvironmentUnfit:
        lines = [] if self._process is None else self._process.output()
        shown = "".join(f"\n  {line}" for line in lines[-15:])
        return EnvironmentUnfit(f"{self.name} {what}; mend what the end of its log says:{shown}")
