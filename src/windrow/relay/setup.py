"""Make ready what a relay needs: the outbox and its row in the database, its topics in Kafka. Safe to repeat."""

import os
from dataclasses import dataclass

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


def prepare(settings: Settings) -> Prepared:
    """Bring the tables to this version, enter the relay, create its topics; say what was done."""
    registry = Registry(settings)
    with connect(settings.data_source) as connection:
        applied = migrate(connection, registry.tables)
        registry.enter(connection, settings.shards or default_shards())
    shards = registry.fit_shards()
    return Prepared(applied, shards, create_own_topics(settings, shards))
