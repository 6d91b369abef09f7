"""Repair after a move: positions and rows of another database cluster made to belong to this one.

A restored dump brings rows along with the transaction numbers of the cluster that wrote them, and Kafka has positions
in terms of that cluster. Here both mean nothing, or something else; so the relay stops. But together they still tell
which of those rows were published: those visible in the position. They get the number of a transaction before all
others, the waiting ones that of the repair's own, and the position becomes `AFRESH`, which sees the former and nothing
else.

Invariant: no row is skipped. A row counts as published only if it was provably written in another cluster and is
visible in that cluster's position. Rows written here count as new, whatever their numbers mean in the old position;
where a database was set back, they are published again. Every step can be repeated: first the rows, then the
positions in Kafka, then the saved ones.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from psycopg.sql import SQL, Composable, Composed, Literal

from windrow.capture.choice import require_snapshot
from windrow.capture.position import Position, Snapshot, objection, objection_to_rows
from windrow.capture.shards import predicate
from windrow.database.adoption import layout_of
from windrow.database.connections import Connection, connect, interruptible
from windrow.database.layouts import Layout
from windrow.database.tables import Tables
from windrow.election.lease import is_held
from windrow.errors import PositionForeign, SettingsInvalid, UserError
from windrow.kafka.clients import committed_positions, members, position_reader
from windrow.publish.transaction import TransactionalPublisher
from windrow.record import Committed, Shard
from windrow.relay.registry import Registry
from windrow.settings import Settings

_FIRST: Final = 3  # the first number that PostgreSQL gives to a transaction of users
AFRESH: Final = Snapshot(_FIRST + 1, _FIRST + 1)


@dataclass(frozen=True, slots=True)
class Findings:
    """What does not belong together, and what a repair does to the rows."""

    reasons: tuple[str, ...]
    """A sentence on each thing that keeps the relay from running; none where nothing does."""
    published: int
    """Rows of another cluster that were published; they do not come again."""
    waiting: int
    """Rows of another cluster that wait; they are published."""
    native: int
    """Rows written in this cluster, which the positions say nothing about; they are published, maybe again."""


@dataclass(frozen=True, slots=True)
class _Shard:
    """One shard: its committed or saved position, what it says, and what is wrong with it."""

    shard: Shard
    committed: Committed | None
    position: Position | None
    reason: str | None


class Repair:
    """Looks at one relay's positions and rows, and repairs them if told to."""

    def __init__(self, settings: Settings) -> None:
        require_snapshot(settings, "its positions name marks on rows, which hold in every copy: nothing to repair")
        if settings.tails:
            raise SettingsInvalid(["capture: tail: a log's place means nothing in another one: give another name"])
        self._settings = settings
        self._registry = Registry(settings)
        self._tables = Tables.of(settings)

    def look(self) -> Findings:
        """Say what is wrong and what would be done; changes nothing."""
        with interruptible(), connect(self._settings.data_source, "windrow repair") as connection:
            return self._findings(connection, self._shards(connection))

    def mend(self) -> Findings:
        """Make rows and positions belong to this cluster; returns what was found."""
        with interruptible(), connect(self._settings.data_source, "windrow repair") as connection:
            self._refuse_company(connection)
            shards = self._shards(connection)
            findings = self._findings(connection, shards)
            if findings.reasons:
                connection.execute(self._filled(connection, "rewrite", shards))
            identity = self._identity(connection)[0]
        self._commit(Position(identity, lo=AFRESH), [each for each in shards if each.reason])
        return findings

    def _refuse_company(self, connection: Connection) -> None:
        if is_held(self._settings):
            raise UserError(f"relay {self._settings.name} runs, and holds the lease: stop it first")
        if running := members(self._settings):
            raise UserError(
                f"relay {self._settings.name} runs ({running} in group {self._settings.leader_group_id}): stop it first"
            )
        statement = self._tables.query("repair", "others")
        if others := [name for (name,) in connection.execute(statement, {"relay": self._settings.name}).fetchall()]:
            raise UserError(
                f"outbox {self._settings.outbox_table} has other relays, whose positions a repair would make wrong:"
                f" {', '.join(others)}\nRemove them from {self._settings.outbox_table}_relay first; entered anew"
                ' ("windrow init --name …"), they publish all that is in the table.'
            )

    def _shards(self, connection: Connection) -> list[_Shard]:
        database, horizon, _ = self._identity(connection)
        count = self._registry.shards()
        with closing(position_reader(self._settings)) as reader:
            committed = committed_positions(reader, self._settings, range(count))
        known = self._registry.saved() | committed
        return [
            _judged(shard, known.get(shard.index), database, horizon)
            for shard in (Shard(index, count) for index in range(count))
        ]

    def _identity(self, connection: Connection) -> tuple[str, int, int | None]:
        row = connection.execute(self._tables.query("snapshot", "identity")).fetchone()
        database, horizon, newest = row or ("", "0", None)
        return database, int(horizon), None if newest is None else int(newest)

    def _findings(self, connection: Connection, shards: list[_Shard]) -> Findings:
        _, horizon, newest = self._identity(connection)
        reasons = [f"shard {each.shard.index}: {each.reason}" for each in shards if each.reason]
        if of_rows := objection_to_rows(newest, horizon):
            reasons.append(of_rows)
        row = connection.execute(self._filled(connection, "count", shards)).fetchone()
        return Findings(tuple(reasons), *(row or (0, 0, 0)))

    def _filled(self, connection: Connection, name: str, shards: list[_Shard]) -> Composed:
        layout = layout_of(connection, self._settings, "snapshot")
        judged = self._tables.query(
            "repair",
            "judged",
            **layout.fragments(),
            table=Literal(self._tables.outbox.as_string()),
            unsettled=_any(predicate(each.shard, layout) for each in shards if each.reason or not each.committed),
            published=_any(_published(each, layout) for each in shards if each.reason and each.position),
        )
        first, number = Literal(str(_FIRST)), SQL(layout.columns.id)
        return self._tables.query("repair", name, judged=judged, first=first, id=number)

    def _commit(self, position: Position, displaced: list[_Shard]) -> None:
        done: dict[int, Committed] = {}
        with closing(position_reader(self._settings)) as reader:
            membership = reader.consumer_group_metadata()
            for shard, committed in ((each.shard, each.committed) for each in displaced):
                with closing(TransactionalPublisher(self._settings, shard)) as publisher:
                    publisher.open(membership, committed)
                    publisher.publish([], position)
                    if publisher.committed:
                        done[shard.index] = publisher.committed
        self._registry.save(done)


def _judged(shard: Shard, committed: Committed | None, database: str, horizon: int) -> _Shard:
    if committed is None:
        return _Shard(shard, None, None, None)
    try:
        position = Position.decode(committed.position)
    except PositionForeign as error:
        return _Shard(shard, committed, None, str(error).partition("\n")[0])
    return _Shard(shard, committed, position, objection(position, database, horizon))


def _published(shard: _Shard, layout: Layout) -> Composable:
    """A condition that holds for the rows that the shard's position counts as published."""
    position = shard.position or Position("")
    return SQL(
        "{mine} AND (pg_visible_in_snapshot(tx, {lo}) OR (pg_visible_in_snapshot(tx, {hi}) AND {id} <= {after}))"
    ).format(
        mine=predicate(shard.shard, layout),
        lo=_snapshot(position.lo),
        hi=_snapshot(position.hi or position.lo),
        id=SQL(layout.columns.id),
        after=Literal(position.after),
    )


def _snapshot(snapshot: Snapshot) -> Composable:
    return SQL("{}::pg_snapshot").format(Literal(str(snapshot)))


def _any(conditions: Iterable[Composable]) -> Composable:
    return SQL(" OR ").join([SQL("false"), *(SQL("({})").format(each) for each in conditions)])
