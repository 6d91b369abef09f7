"""A relay in a process of its own, with its own Spark, as on a host of its own; and the events that it tells.

Its tasks run below it, or on the hosts of a cluster that several relays share: there they bear its name.
"""

import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from windrow.embedded.guard import descendants, signal_all
from windrow.embedded.spark import Cluster
from windrow.errors import EnvironmentUnfit
from windrow.lab.child import SPAWN, Child, bears, python_workers, runs, told_to_stop
from windrow.lab.clock import PRELOAD, Clock
from windrow.relay import Relay
from windrow.relay.events import Event, LeaderAcquired, LeaderRevoked
from windrow.settings import Settings

_WITHIN: Final = 60.0
_NAME: Final = "WINDROW_LAB_RELAY"


class Candidate:
    """Leads or stands by."""

    def __init__(self, settings: Settings, log: Path, cluster: Cluster | None = None) -> None:
        self.name = log.stem
        self.clock = Clock(log.with_suffix(".clock"))
        # On a cluster, the environment is that of Java, too, which does not go by such a clock.
        environment = {_NAME: self.name} if cluster else self.clock.environment
        workers = {f"spark.executorEnv.{name}": value for name, value in environment.items()}
        self._settings, self._log = replace(settings, spark={**settings.spark, **workers}), log
        self._cluster = cluster
        self._told: list[tuple[float, str]] = []
        self._child: Child | None = None
        self._up = threading.Event()
        self._warm = False

    @property
    def warm(self) -> bool:
        """Whether its present life has come so far as to have Python workers: it can lead, or take over, at once."""
        if not self._warm and self._up.is_set():
            self._warm = bool(self._workers())
        return self._warm

    @property
    def told(self) -> list[tuple[float, str]]:
        """The events so far, each with its time, over all its lives."""
        return list(self._told)

    @property
    def leads_since(self) -> float | None:
        """When it came to lead, as far as it has told."""
        for at, event in reversed(self._told):
            if event == LeaderAcquired.__name__:
                return at
            if event == LeaderRevoked.__name__:
                return None
        return None

    def count(self, event: type[Event]) -> int:
        return sum(name == event.__name__ for _, name in self.told)

    def wait_for(self, event: type[Event]) -> None:
        """Until it has told so at least once."""
        deadline = time.monotonic() + _WITHIN
        while not self.count(event):
            if time.monotonic() > deadline:
                raise EnvironmentUnfit(
                    f"a relay did not come to {event.__name__} in {_WITHIN:.0f} s; look at the servers' logs"
                )
            time.sleep(0.02)

    def start(self) -> None:
        if self._child and self._child.running:
            return
        self._up.clear()
        self._warm = False
        receiving, sending = SPAWN.Pipe(duplex=False)
        self._child = Child(self._log, _relay, self._settings, sending, environment=self.clock.environment)
        self._child.start()
        sending.close()
        threading.Thread(target=self._listen, args=(receiving,), daemon=True).start()

    def kill(self) -> None:
        """End the driver and all below it, as a machine does that fails; what runs on a cluster finds out by itself."""
        if self._child:
            self._child.kill()
            self._gone()

    def stop(self) -> None:
        if self._child:
            self._child.stop()
            self._gone()

    def pause(self) -> None:
        if self._child:
            self._child.pause()

    def resume(self) -> None:
        """Let go on what was paused, tasks included."""
        if self._child:
            self._child.resume()
        signal_all(self._with_all_below(self._executors()), signal.SIGCONT)

    def kill_workers(self) -> None:
        signal_all(self._workers(), signal.SIGKILL)

    def pause_workers(self) -> None:
        signal_all(self._workers(), signal.SIGSTOP)

    def kill_executors(self) -> None:
        """Their Python workers find out by themselves."""
        self._warm = False
        signal_all(self._executors(), signal.SIGKILL)

    def pause_executors(self) -> None:
        signal_all(self._with_all_below(self._executors()), signal.SIGSTOP)

    def _executors(self) -> list[int]:
        """Java processes that host its tasks: its own, or those that a cluster has given it."""
        if self._cluster is None:
            return [pid for pid in (self._child.pids() if self._child else ()) if runs(pid, b"SparkSubmit")]
        return [
            pid
            for host in self._cluster.workers
            if host.running
            for pid in descendants(host.pid)
            if runs(pid, b"CoarseGrainedExecutorBackend") and bears(pid, f"{_NAME}={self.name}".encode())
        ]

    def _workers(self) -> list[int]:
        """The Python workers of its Spark."""
        return [pid for executor in self._executors() for pid in python_workers(executor)]

    @staticmethod
    def _with_all_below(pids: list[int]) -> list[int]:
        return [each for pid in pids for each in (pid, *descendants(pid))]

    def _gone(self) -> None:
        if self.leads_since is not None:
            self._told.append((time.monotonic(), LeaderRevoked.__name__))

    def _listen(self, events: Connection) -> None:
        with suppress(EOFError, OSError):  # it has ended
            while True:
                at, event = events.recv()
                self._up.set()
                if event:
                    self._told.append((at, event))


def _relay(settings: Settings, events: Connection) -> None:
    """Run a relay until SIGTERM."""
    os.environ.pop(PRELOAD, None)  # Spark's Java is spared

    def tell(event: Event) -> None:
        events.send((time.monotonic(), type(event).__name__))

    with Relay(settings, on_event=tell) as relay:
        events.send((time.monotonic(), ""))
        stop = told_to_stop()  # only now: Spark takes Ctrl-C for itself
        while not stop.wait(0.02) and not relay.wait(0):
            pass
    relay.wait()
