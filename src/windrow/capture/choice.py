"""Which capture the settings name, and what differs between captures for those who only ask about rows."""

from contextlib import closing
from typing import NamedTuple
from uuid import UUID

from psycopg.sql import SQL, Composable, Literal

from windrow.capture.log_position import LogPosition, of_log
from windrow.capture.mark import MarkCapture
from windrow.capture.marks import MarkPosition
from windrow.capture.position import NOTHING, Position
from windrow.capture.protocol import Capture, selected
from windrow.capture.shards import predicate
from windrow.capture.snapshot import SnapshotCapture, unseen
from windrow.capture.tail import TailCapture
from windrow.database.adoption import layout_of
from windrow.database.connections import connect, interruptible
from windrow.database.layouts import Layout
from windrow.database.tables import Tables
from windrow.errors import SettingsInvalid
from windrow.record import Record, Shard
from windrow.settings import Settings


class Ahead(NamedTuple):
    """The rows ahead of a position: among these rows, those for which this holds."""

    rows: Composable
    holds: Composable


def capture_of(settings: Settings, shard: Shard, epoch: UUID, target: str | None = None) -> Capture:
    """The shard's capture for the task of an epoch; with a target, it goes on to that position and no further."""
    if settings.marks:
        return MarkCapture(settings, shard, epoch, target)
    if settings.tails:
        return TailCapture(settings, shard)
    return SnapshotCapture(settings, shard, target)


def require_snapshot(settings: Settings, why: str) -> None:
    """Refuse what only makes sense where published rows are kept and positions are snapshots."""
    if settings.marks:
        raise SettingsInvalid([f"capture: {settings.capture}: {why}"])


def peek(settings: Settings, shard: Shard, committed: str | None) -> list[Record]:
    """The next rows after a position, a page at most; changes nothing."""
    if not settings.marks:
        with closing(SnapshotCapture(settings, shard)) as capture:
            capture.start(_rows_of(committed))
            return list(capture.next().records)
    tables = Tables.of(settings)
    with interruptible(), connect(settings.data_source, "windrow peek") as connection:
        layout = layout_of(connection, settings, settings.capture)
        rows, holds = ahead(settings, layout, committed)
        statement = tables.query(
            "mark",
            "peek",
            columns=SQL(", ".join(selected(layout))),
            rows=rows,
            ahead=holds,
            mine=predicate(shard, layout),
            **layout.fragments(),
        )
        found = connection.execute(statement, {"records": settings.limits.records_at_once}).fetchall()
    return [Record(*row) for row in found]


def _rows_of(committed: str | None) -> str | None:
    """What a position says of the table's rows."""
    return LogPosition.decode(committed).rows.encode() if committed and of_log(committed) else committed


def ahead(settings: Settings, layout: Layout, position: str | None) -> Ahead:
    """What is still to be published after a committed position, or without one. Of a log's position, rows that were
    published since it last looked at the table count as well.
    """
    tables, columns = Tables.of(settings), layout.fragments()
    if settings.marks:
        published = [
            tables.query(
                "mark",
                "published",
                **columns,
                given=tables.literal(each.mark),
                first=tables.literal(each.first),
                last=tables.literal(each.last),
            )
            for each in (MarkPosition.decode(position).published if position else ())
        ]
        among = SQL(" OR ").join(published) if published else SQL("false")
        holds = SQL("{unprocessed} AND ({among}) IS NOT TRUE").format(among=among, **columns)
        return Ahead(tables.fill(SQL("SELECT * FROM {outbox}")), holds)
    at = Position.decode(position) if position else Position("")  # of the log's positions, what they say of rows
    snapshots = {"lo": Literal(str(at.lo)), "hi": Literal(str(at.hi or NOTHING)), "after": Literal(at.after)}
    return Ahead(
        unseen(tables, snapshots["lo"])["unseen"],
        tables.query("snapshot", "beyond", **snapshots, **columns),
    )
