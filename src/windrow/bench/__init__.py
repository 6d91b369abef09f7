"""Measures a relay on one machine: how fast, how soon, at what cost; and whether all came once and in order.

Speeds are given as ratios to what the same machine did in the same run without a relay, so that they can be compared
between machines and days. Writers, the receiving consumer and the ceiling's producers are processes of their own.
"""

from windrow.bench.bed import Bed, open_bed
from windrow.bench.figures import CAPTURES, keys, measure
from windrow.bench.size import FULL, QUICK, Size

__all__ = ["CAPTURES", "FULL", "QUICK", "Bed", "Size", "keys", "measure", "open_bed"]
