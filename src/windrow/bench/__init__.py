"""Measures, on one machine, a relay (how fast, how soon, at what cost; whether all came once and in order) and writers.

Speeds are given as ratios to what the same machine did in the same run without a relay, so that they can be compared
between machines and days. Writers, the receiving consumer and the ceiling's producers are processes of their own.
"""

from windrow.bench.bed import Bed, open_bed
from windrow.bench.figures import CAPTURES, keys, measure
from windrow.bench.inbox import FULL_INBOX, QUICK_INBOX, measure_inbox
from windrow.bench.queue import FULL_QUEUE, QUICK_QUEUE, measure_queue
from windrow.bench.size import FULL, QUICK, Size
from windrow.bench.writes import FULL_ROUNDS, QUICK_ROUNDS, measure_writes

__all__ = [
    "CAPTURES",
    "FULL",
    "FULL_INBOX",
    "FULL_QUEUE",
    "FULL_ROUNDS",
    "QUICK",
    "QUICK_INBOX",
    "QUICK_QUEUE",
    "QUICK_ROUNDS",
    "Bed",
    "Size",
    "keys",
    "measure",
    "measure_inbox",
    "measure_queue",
    "measure_writes",
    "open_bed",
]
