"""Make ready what a relay needs: the outbox and its row in the database, its topics in Kafka. Safe to repeat."""

import os
from dataclasses import dataclass

from windrow.database.layouts import TX, columns_of, fit
from windrow.database.migrations import Migration, migrate
from windrow.database.postgres import connect
from windrow.kafka.clients import create_own_topics
from windrow.relay.registry import Registry
from windrow.settings import Settings


@dataclass(frozen=True, slots=True)
class Prepared:
    """What `prepare` found or did."""

    migrations: list[Migration]
    shards: int
    created_topics: list[str]


def default_shards() -> int:
    """A shard for every core but one, which the rest of the world needs; eight at most."""
    return min(max(len(os.sched_getaffinity(0)) - 1, 1), 8)


def takeover(settings: Settings) -> str | None:
    """What `prepare` is going to do to a table that is there already; None where it leaves it as it is."""
    tables = Registry(settings).tables
    with connect(settings.data_source) as connection:
        columns = columns_of(connection, tables)
    if not columns or TX in columns:
        return None
    return (
        f"{settings.outbox_table} is there, a table of {fit(columns, tables).name} layout. It is taken over with its"
        f" rows: it gets a column {TX} (the writing transaction), for which it is rewritten once, and an index on it;"
        " writers wait meanwhile. Its other columns and those who write to it stay as they are."
    )


def prepare(settings: Settings) -> Prepared:
    """Bring the tables to this version, enter the relay, create its topics; say what was done."""
    registry = Registry(settings)
    with connect(settings.data_source) as connection:
        applied = migrate(connection, registry.tables)
        registry.enter(connection, settings.shards or default_shards())
    shards = registry.shards()
    return Prepared(applied, shards, create_own_topics(settings, shards))
