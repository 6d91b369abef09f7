"""Backlogs: how many records a second, from the backlog's commit until a consumer has received all of it."""

from statistics import median
from typing import Any

from windrow.bench.bed import Bed
from windrow.bench.load import KEYS
from windrow.bench.plain import produce
from windrow.bench.receiver import receive


def throughput(bed: Bed) -> dict[str, float]:
    """The relay and the ceiling in turns. The first of them is not counted: servers that have just started have code to
    compile and files of their logs to make.
    """
    ours, plain = [], []
    for _ in range(1 + bed.size.rounds):
        ours.append(relayed(bed, bed.size.backlog))
        plain.append(_plain(bed, bed.size.backlog))
        bed.say(f"  relay {ours[-1]:,.0f} records/s, ceiling {plain[-1]:,.0f}")
    return {"throughput_ratio": median(ours[1:]) / median(plain[1:]), "records_per_s": median(ours[1:])}


def hot_key(bed: Bed) -> dict[str, float]:
    """One key and many keys in turns."""
    one, many = [], []
    for _ in range(bed.size.rounds):
        one.append(relayed(bed, bed.size.backlog, keys=1))
        many.append(relayed(bed, bed.size.backlog))
        bed.say(f"  one key {one[-1]:,.0f} records/s, {KEYS:,} keys {many[-1]:,.0f}")
    return {"hot_key_ratio": median(one) / median(many)}


def growth(bed: Bed) -> dict[str, float]:
    """A small backlog before and after the large one."""
    small = [relayed(bed, bed.size.small_backlog)]
    large = relayed(bed, bed.size.large_backlog)
    small.append(relayed(bed, bed.size.small_backlog))
    bed.say(f"  {bed.size.large_backlog:,} records: {large:,.0f}/s, {bed.size.small_backlog:,}: {median(small):,.0f}/s")
    return {"growth_ratio": large / median(small)}


def relayed(bed: Bed, records: int, keys: int = KEYS, **settings: Any) -> float:
    """Records a second, by a relay of these settings."""
    with bed.lane(**settings) as lane, lane.relaying():
        receipts = bed.helpers.submit(receive, lane.settings, lane.topic, records + 1, live=False)
        committed = lane.write_backlog(range(1, records + 1), keys)
        received = receipts.result()
    bed.judge(received.numbers, records + 1, keys)
    return records / received.after(committed, records + 1)


def _plain(bed: Bed, records: int) -> float:
    """The same records from memory, by as many processes as there are shards."""
    with bed.lane() as lane:
        receipts = bed.helpers.submit(receive, lane.settings, lane.topic, records, live=False)
        parts = [
            bed.helpers.submit(produce, lane.settings, lane.topic, shard, range(shard, records, bed.shards))
            for shard in range(bed.shards)
        ]
        started = min(part.result() for part in parts)
        return records / receipts.result().after(started, records)
