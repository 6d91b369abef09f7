"""Records a second once somebody has kept a transaction open for ten minutes of traffic, against without one.

The traffic is written as fast as it goes, a second's worth a transaction, and has been relayed and purged by the time
that the backlog is measured. What is left of it are the deleted rows, which cannot be cleared away while the foreign
transaction is open.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import mean
from typing import Final

from psycopg.sql import SQL

from windrow.bench.bed import Bed, Lane
from windrow.bench.receiver import receive
from windrow.errors import EnvironmentUnfit

_A_SECOND: Final = 1_000
_PURGED_WITHIN: Final = 120.0
_LEFT: Final = SQL("SELECT FROM {outbox} LIMIT 1")


def held_xmin(bed: Bed) -> dict[str, float]:
    """One run with a transaction open; one without before and, where rounds are repeated, after it."""
    free, held = [_after_traffic(bed)], _after_traffic(bed, held=True)
    if bed.size.rounds > 1:
        free.append(_after_traffic(bed))
    return {"held_xmin_ratio": held / mean(free)}


def _after_traffic(bed: Bed, *, held: bool = False) -> float:
    traffic, backlog = bed.size.traffic, bed.size.backlog
    with bed.lane(purge={"interval": "1s"}) as lane, _foreign(lane, held=held), lane.relaying() as relay:
        receipts = bed.helpers.submit(receive, lane.settings, lane.topic, 1 + traffic + backlog, live=False)
        for first in range(1, traffic + 1, _A_SECOND):
            lane.write_backlog(range(first, min(first + _A_SECOND, traffic + 1)))
        deadline = time.monotonic() + _PURGED_WITHIN
        while _rows_left(lane):
            relay.wait(0)
            if time.monotonic() > deadline:
                raise EnvironmentUnfit(f"the outbox was not purged in {_PURGED_WITHIN:.0f} s: the machine is too slow")
            time.sleep(0.2)
        committed = lane.write_backlog(range(traffic + 1, traffic + backlog + 1))
        received = receipts.result()
    bed.judge(received.numbers, 1 + traffic + backlog)
    rate = backlog / received.after(committed, 1 + traffic + backlog)
    bed.say(f"  {rate:,.0f} records/s {'with a transaction open' if held else 'without'}")
    return rate


@contextmanager
def _foreign(lane: Lane, *, held: bool) -> Iterator[None]:
    """Somebody else's transaction, with a number of its own, open meanwhile."""
    with lane.connect() as connection:
        if not held:
            yield
            return
        with connection.transaction():
            connection.execute("SELECT pg_current_xact_id()")
            yield


def _rows_left(lane: Lane) -> bool:
    with lane.connect() as connection:
        return connection.execute(lane.tables.fill(_LEFT)).fetchone() is not None
