"""Live load: how long from the return of a commit until a consumer has the record, in multiples of T."""

from statistics import median
from typing import Any, Final

import numpy as np

from windrow.bench.bed import Bed
from windrow.bench.plain import relay_transactions, round_trips
from windrow.bench.receiver import receive
from windrow.bench.writers import WRITERS, write_live

_SLOW: Final = 1_000
_FAST: Final = 10_000
_TRIPS: Final = 300
_LOG: Final[dict[str, Any]] = {"capture": "tail", "shards": 1}


def at_1k(bed: Bed) -> dict[str, float]:
    before, (p50, p99), after = round_trip(bed), _latency(bed, _SLOW, durably=True), round_trip(bed)
    t = (before + after) / 2
    return {"p50_ratio": p50 / t, "p99_ratio": p99 / t, "p50_ms": p50, "p99_ms": p99, "t_ms": t}


def tail_at_1k(bed: Bed) -> dict[str, float]:
    before, (p50, p99), after = round_trip(bed), _latency(bed, _SLOW, durably=True, **_LOG), round_trip(bed)
    t = (before + after) / 2
    return {"tail_p50_ratio": p50 / t, "tail_p99_ratio": p99 / t, "tail_p50_ms": p50, "t_ms": t}


def at_10k(bed: Bed) -> dict[str, float]:
    """Writers do not wait for the disk here: few disks flush so often, and it is the relay that is measured."""
    before, (_, p99), after = round_trip(bed), _latency(bed, _FAST, durably=False), round_trip(bed)
    return {"p99_ratio_10k": p99 / ((before + after) / 2)}


def round_trip(bed: Bed) -> float:
    """T, in milliseconds."""
    with bed.lane() as lane:
        t = median(bed.helpers.submit(round_trips, lane.settings, lane.topic, _TRIPS).result()) * 1e3
    bed.say(f"  T: {t:.2f} ms")
    return t


def warm_up(bed: Bed) -> None:
    """A broker that has just started takes ten times as long for a small transaction as a warm one."""
    bed.say(f"warming the broker up: {bed.size.small_transactions:,} small transactions of either kind …")
    with bed.lane() as lane, bed.lane() as other:
        plain = bed.helpers.submit(round_trips, lane.settings, lane.topic, bed.size.small_transactions)
        bed.helpers.submit(relay_transactions, other.settings, other.topic, bed.size.small_transactions).result()
        trips = plain.result()
    ends = [median(part) * 1e3 for part in (trips[:50], trips[-50:])]
    bed.say(f"  a transaction took {ends[0]:.1f} ms at first, {ends[1]:.1f} ms at the end")


def _latency(bed: Bed, rate: int, *, durably: bool, **settings: Any) -> tuple[float, float]:
    """Median and 99th percentile, in milliseconds."""
    ignored = int(rate * bed.size.warm_up)
    count = ignored + int(rate * bed.size.live)
    with bed.lane(bed.size.epoch, bed.live_partitions, **settings) as lane, lane.relaying() as relay:
        bed.say(f"  {WRITERS} writers, {rate:,} records/s for {count / rate:.0f} s …")
        receipts = bed.helpers.submit(receive, lane.settings, lane.topic, count + 1, live=True)
        written = bed.helpers.submit(write_live, lane.settings, lane.topic, count, rate, durably=durably)
        committed = written.result()
        received = receipts.result()
        epochs = relay.epochs
    bed.judge(received.numbers, count + 1)
    counted = (received.numbers > ignored) & (received.numbers <= count)
    latencies = (received.times[counted] - committed[received.numbers[counted]]) / 1e6
    p50, p99, longest = np.percentile(latencies, [50, 99, 100])
    reached = (count - ignored) / ((committed.max() - committed[ignored + 1]) / 1e9)
    bed.say(f"  p50 {p50:.1f} ms, p99 {p99:.1f}, longest {longest:.0f}; {reached:,.0f} records/s, {epochs} epochs")
    return float(p50), float(p99)
