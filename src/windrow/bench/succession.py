"""How long the outbox waits when the leader goes: killed, until its session is over; or stopped, at once.

Both relays are processes of their own, each with its own Spark, as on two hosts. The successor's first record is the
one that ends the longest pause at the consumer.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Final

import numpy as np

from windrow.bench.bed import Bed, Lane
from windrow.bench.receiver import Receipts, receive
from windrow.bench.writers import write_live
from windrow.embedded.guard import descendants
from windrow.errors import EnvironmentUnfit
from windrow.relay import Relay
from windrow.relay.events import Event, LeaderAcquired, LeaderRefreshed
from windrow.settings import Settings

_RATE: Final = 200
_BEFORE: Final = 5.0
_AFTER: Final = 15.0
_WITHIN: Final = 60.0
_WARM: Final = 8.0
"""Seconds after which a standby has a warm Spark."""


def takeover(bed: Bed) -> dict[str, float]:
    with bed.lane() as lane:
        seconds = _pause(bed, lane, _Candidate.kill) - lane.settings.limits.session_timeout.total_seconds()
    bed.say(f"  {seconds:.2f} s beyond the session timeout")
    return {"takeover_s": seconds}


def handover(bed: Bed) -> dict[str, float]:
    with bed.lane() as lane:
        seconds = _pause(bed, lane, _Candidate.stop)
    bed.say(f"  {seconds:.2f} s")
    return {"handover_s": seconds}


def _pause(bed: Bed, lane: Lane, end: Callable[["_Candidate"], None]) -> float:
    """Seconds from the leader's end until the successor's first record."""
    count = int(_RATE * (_BEFORE + _AFTER))
    with _candidate(lane.settings) as leader:
        leader.wait_for(LeaderAcquired)
        with _candidate(lane.settings):
            leader.wait_for(LeaderRefreshed)  # the standby has joined
            time.sleep(_WARM)
            receipts = bed.helpers.submit(receive, lane.settings, lane.topic, count, live=True)
            written = bed.helpers.submit(write_live, lane.settings, lane.topic, count, _RATE, durably=True)
            time.sleep(_BEFORE)
            ended = time.monotonic_ns()
            end(leader)
            written.result()
            received = receipts.result()
    bed.judge(np.append(received.numbers, 0), count + 1)
    return _resumed(received, ended)


def _resumed(received: Receipts, ended: int) -> float:
    """Seconds from `ended` until the longest pause after it was over."""
    after = np.append(ended, received.times[received.times > ended])
    return float(after[np.argmax(np.diff(after)) + 1] - ended) / 1e9


@dataclass(frozen=True)
class _Candidate:
    """A relay in a process of its own, and what it tells."""

    process: SpawnProcess
    events: Connection

    def wait_for(self, event: type[Event]) -> None:
        deadline = time.monotonic() + _WITHIN
        with suppress(EOFError):  # it has ended
            while self.events.poll(max(0.0, deadline - time.monotonic())):
                if self.events.recv() == event.__name__:
                    return
        raise EnvironmentUnfit(
            f"a relay did not come to {event.__name__} in {_WITHIN:.0f} s; look at the servers' logs"
        )

    def kill(self) -> None:
        """End the driver, its Spark and its Python workers, as a machine does that fails."""
        pid = self.process.pid
        for each in [pid, *descendants(pid)] if pid else []:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def stop(self) -> None:
        self.process.terminate()


@contextmanager
def _candidate(settings: Settings) -> Iterator[_Candidate]:
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_relay, args=(settings, sending), name="windrow bench candidate")
    process.start()
    sending.close()
    candidate = _Candidate(process, receiving)
    try:
        yield candidate
    finally:
        candidate.stop()
        process.join(_WITHIN)
        if process.is_alive():
            candidate.kill()


def _relay(settings: Settings, events: Connection) -> None:
    """Run a relay until SIGTERM."""
    over = threading.Event()
    with Relay(settings, on_event=lambda event: events.send(type(event).__name__)) as relay:
        signal.signal(signal.SIGTERM, lambda *_: over.set())
        while not over.wait(0.02) and not relay.wait(0):
            pass
    relay.wait()
