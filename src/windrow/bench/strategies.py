"""The other strategies against the default ones, on backlogs: marks, publishing without transactions, what marking
asks of the database, and the log.
"""

from statistics import median
from typing import Final

from windrow import embedded
from windrow.bench.backlog import relayed
from windrow.bench.bed import Bed
from windrow.bench.idle import transactions

# As much memory as PostgreSQL has here.
_ROOMY: Final = {"innodb_buffer_pool_size": "512M", "innodb_log_file_size": "512M"}


def mark(bed: Bed) -> dict[str, float]:
    """Snapshots, marks, and marks without transactions, in turns."""
    snapshots, marked, loose = [], [], []
    for _ in range(bed.size.rounds):
        snapshots.append(relayed(bed, bed.size.small_backlog))
        marked.append(relayed(bed, bed.size.small_backlog, capture="mark"))
        loose.append(relayed(bed, bed.size.small_backlog, capture="mark", delivery="at-least-once"))
        bed.say(f"  snapshot {snapshots[-1]:,.0f} records/s, mark {marked[-1]:,.0f}, at least once {loose[-1]:,.0f}")
    return {
        "mark_ratio": median(marked) / median(snapshots),
        "at_least_once_ratio": median(loose) / median(marked),
        "records_per_s": median(marked),
    }


def mariadb(bed: Bed) -> dict[str, float]:
    """Marks on a MariaDB of the measurement's own, and on PostgreSQL, in turns."""
    bed.say("  starting MariaDB …")
    here, there = [], []
    with embedded.MariaDB(settings=_ROOMY) as server:
        for _ in range(bed.size.rounds):
            there.append(relayed(bed, bed.size.small_backlog, data_source=server.url))
            here.append(relayed(bed, bed.size.small_backlog, capture="mark"))
            bed.say(f"  MariaDB {there[-1]:,.0f} records/s, PostgreSQL {here[-1]:,.0f}")
    return {"mariadb_ratio": median(there) / median(here)}


def statements(bed: Bed) -> dict[str, float]:
    """Statements at the database while a backlog is relayed, for each thousand of its records."""
    before = transactions(bed.database)
    relayed(bed, bed.size.small_backlog, capture="mark")
    count = transactions(bed.database) - before
    bed.say(f"  {count:,} statements for {bed.size.small_backlog:,} records")
    return {"mark_statements_per_1000": count / bed.size.small_backlog * 1000}


def tail(bed: Bed) -> dict[str, float]:
    """Snapshots and the log in turns. A log has one reader, so both have one shard."""
    snapshots, tailed = [], []
    for _ in range(bed.size.rounds):
        snapshots.append(relayed(bed, bed.size.log_backlog, shards=1))
        tailed.append(relayed(bed, bed.size.log_backlog, capture="tail", shards=1))
        bed.say(f"  snapshot {snapshots[-1]:,.0f} records/s, tail {tailed[-1]:,.0f}")
    return {"tail_ratio": median(tailed) / median(snapshots), "tail_records_per_s": median(tailed)}
