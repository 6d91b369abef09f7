"""Make ready what a relay needs: the outbox and its row in the database, its topics in Kafka. Safe to repeat."""

import os
from dataclasses import dataclass
from typing import Final, Literal

from windrow.capture.choice import require_snapshot
from windrow.database.additions import additions
from windrow.database.adoption import adopted, table_of
from windrow.database.connections import connect
from windrow.database.migrations import Migration, migrate, script
from windrow.database.ring import Ring, ring_of
from windrow.errors import SettingsInvalid
from windrow.kafka.clients import create_own_topics
from windrow.relay.registry import Registry
from windrow.relay.slot import by_hand, publication, refuse_unready, slot
from windrow.settings import Settings

Storage = Literal["plain", "partitioned"]
STORAGES: Final[tuple[Storage, ...]] = ("plain", "partitioned")


@dataclass(frozen=True, slots=True)
class Prepared:
    """What `prepare` found or did."""

    migrations: list[Migration]
    storage: Storage
    shards: int
    created_topics: list[str]
    created_slot: str | None


def default_shards(settings: Settings | None = None) -> int:
    """A shard for every core but one, which the rest of the world needs; eight at most. A log has one reader."""
    if settings and settings.tails:
        return 1
    return min(max(len(os.sched_getaffinity(0)) - 1, 1), 8)


def takeover(settings: Settings) -> str | None:
    """What `prepare` is going to do to a table that is there already; None where it leaves it as it is."""
    tables = Registry(settings).tables
    with connect(settings.data_source) as connection:
        table = table_of(connection, tables)
    layout = adopted(table, settings)
    added = [each.words for each in additions(layout, settings.capture, table)]
    if not table.columns or not added:
        return None
    return (
        f"{settings.outbox_table} is there, a table of {layout.name} layout. It is taken over with its rows: it gets"
        f" {'; '.join(added)}. Its other columns and those who write to it stay as they are."
    )


def wanted_ring(settings: Settings, storage: Storage | None) -> Ring | None:
    """What a new outbox is to be: a ring that outlasts the retention, or a plain table."""
    return Ring.keeping(settings.purge.retention) if storage == "partitioned" else None


def prepared_by_hand(settings: Settings, storage: Storage | None = None) -> str:
    """What `prepare` does in the database, as SQL for a new outbox."""
    published, slot_made = ([each] for each in by_hand(settings)) if settings.tails else ([], [])
    shards = settings.shards or default_shards(settings)
    return script(settings, shards, wanted_ring(settings, storage), published, slot_made)


def prepare(settings: Settings, storage: Storage | None = None) -> Prepared:
    """Bring the tables to this version, enter the relay, create its topics; say what was done.

    The storage is chosen when the outbox is made; where it is there, the same or none has to be named.
    """
    registry = Registry(settings)
    if storage == "partitioned":
        require_snapshot(settings, "rows of a partitioned outbox are not deleted one by one; give storage plain")
    with connect(settings.data_source) as connection:
        if settings.tails:
            refuse_unready(connection, settings)
        applied = migrate(connection, settings, wanted_ring(settings, storage))
        found: Storage = "partitioned" if ring_of(connection, registry.tables) else "plain"
        if storage not in {None, found}:
            raise SettingsInvalid(
                [f"storage: outbox {settings.outbox_table} is {found}, which is fixed; give {found} or leave it out"]
            )
        if settings.marks and (others := registry.others(connection)):
            mistake = (
                f"capture: {settings.capture}: rows are over once one relay has published them, and"
                f" {', '.join(others)} reads outbox {settings.outbox_table} too;"
                " give another outboxTable, or capture: snapshot"
            )
            raise SettingsInvalid([mistake])
        registry.enter(connection, settings.shards or default_shards(settings))
        if settings.tails:
            publication(connection, settings)
    shards = registry.fit_shards()
    made = slot(settings) if settings.tails else None
    return Prepared(applied, found, shards, create_own_topics(settings, shards), made)
