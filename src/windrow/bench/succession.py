"""How long the outbox waits when the leader goes: killed, until its session is over; or stopped, at once.

Both relays are processes of their own, each with its own Spark, as on two hosts. The successor's first record is the
one that ends the longest pause at the consumer.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from windrow.bench.bed import Bed, Lane
from windrow.bench.receiver import Receipts, receive
from windrow.bench.writers import write_live
from windrow.lab.candidate import Candidate
from windrow.relay.events import LeaderAcquired, LeaderRefreshed
from windrow.settings import Settings

_RATE: Final = 200
_BEFORE: Final = 5.0
_AFTER: Final = 15.0
_WARM: Final = 8.0
"""Seconds after which a standby has a warm Spark."""


def takeover(bed: Bed) -> dict[str, float]:
    with bed.lane() as lane:
        seconds = _pause(bed, lane, Candidate.kill) - lane.settings.limits.session_timeout.total_seconds()
    bed.say(f"  {seconds:.2f} s beyond the session timeout")
    return {"takeover_s": seconds}


def handover(bed: Bed) -> dict[str, float]:
    with bed.lane() as lane:
        seconds = _pause(bed, lane, Candidate.stop)
    bed.say(f"  {seconds:.2f} s")
    return {"handover_s": seconds}


def _pause(bed: Bed, lane: Lane, end: Callable[[Candidate], None]) -> float:
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


@contextmanager
def _candidate(settings: Settings) -> Iterator[Candidate]:
    with TemporaryDirectory(prefix="windrow-bench-") as folder:
        candidate = Candidate(settings, Path(folder, "relay.log"))
        candidate.start()
        try:
            yield candidate
        finally:
            candidate.stop()
