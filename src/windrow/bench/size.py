"""How much is measured: the sizes that the figures are defined with, and small ones for trying it out."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Size:
    """Records, seconds and rounds; rates are the same in every size."""

    backlog: int
    rounds: int
    """Backlogs are repeated so often, in turns with what they are compared with."""
    small_backlog: int
    large_backlog: int
    log_backlog: int
    """What is read from the database's log, against as many rows of the table."""
    traffic: int
    """Records that were relayed and purged while somebody kept a transaction open."""
    warm_up: float
    """Seconds of a live run that come before its latencies count."""
    live: float
    epoch: float
    settle: float
    """Seconds until a relay without messages counts as idle."""
    idle: float
    inserts: int
    small_transactions: int
    """Transactions, a producer, that warm the broker up: its code is compiled as it is used."""


FULL: Final = Size(
    backlog=300_000,
    rounds=3,
    small_backlog=200_000,
    large_backlog=2_000_000,
    log_backlog=500_000,
    traffic=600_000,
    warm_up=60.0,
    live=60.0,
    epoch=30.0,
    settle=10.0,
    idle=30.0,
    inserts=100_000,
    small_transactions=4_000,
)
QUICK: Final = Size(
    backlog=30_000,
    rounds=1,
    small_backlog=20_000,
    large_backlog=100_000,
    log_backlog=30_000,
    traffic=20_000,
    warm_up=2.0,
    live=4.0,
    epoch=3.0,
    settle=2.0,
    idle=3.0,
    inserts=5_000,
    small_transactions=100,
)
