"""Backlogs: how many records a second, from the backlog's commit until a consumer has received all of it."""

from statistics import median

from windrow.bench.bed import Bed
from windrow.bench.load import KEYS
from windrow.bench.plain import produce
from windrow.bench.receiver import receive


def throughput(bed: Bed) -> dict[str, float]:
    """The relay and the ceiling in turns."""
    relayed, plain = [], []
    for _ in range(bed.size.rounds):
        relayed.append(_relayed(bed, bed.size.backlog))
        plain.append(_plain(bed, bed.size.backlog))
        bed.say(f"  relay {relayed[-1]:,.0f} records/s, ceiling {plain[-1]:,.0f}")
    return {"throughput_ratio": median(relayed) / median(plain), "records_per_s": median(relayed)}


def hot_key(bed: Bed) -> dict[str, float]:
    """One key and many keys in turns."""
    one, many = [], []
    for _ in range(bed.size.rounds):
        one.append(_relayed(bed, bed.size.backlog, keys=1))
        many.append(_relayed(bed, bed.size.backlog))
        bed.say(f"  one key {one[-1]:,.0f} records/s, {KEYS:,} keys {many[-1]:,.0f}")
    return {"hot_key_ratio": median(one) / median(many)}


def growth(bed: Bed) -> dict[str, float]:
    """A small backlog before and after the large one."""
    small = [_relayed(bed, bed.size.small_backlog)]
    large = _relayed(bed, bed.size.large_backlog)
    small.append(_relayed(bed, bed.size.small_backlog))
    bed.say(f"  {bed.size.large_backlog:,} records: {large:,.0f}/s, {bed.size.small_backlog:,}: {median(small):,.0f}/s")
    return {"growth_ratio": large / median(small)}


def _relayed(bed: Bed, records: int, keys: int = KEYS) -> float:
    with bed.lane() as lane, lane.relaying():
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
