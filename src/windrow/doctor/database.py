"""The database: that it is reached, that it keeps what it commits, that the tables are there and may be used.

Functions that begin with `judge` are pure; the others ask.
"""

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from psycopg.sql import Identifier

from windrow.database.adoption import layout_of
from windrow.database.connections import interruptible
from windrow.database.layouts import Layout
from windrow.database.migrations import check
from windrow.database.postgres import Connection, connect, where
from windrow.database.queries import query
from windrow.database.tables import Tables
from windrow.doctor.finding import Finding, failed, info, ok, warning
from windrow.election.lease import is_held
from windrow.errors import DatabaseForbids, DatabaseUnreachable, OutboxTableMissing, SettingsInvalid
from windrow.relay.registry import Registry
from windrow.relay.setup import default_shards
from windrow.settings import Settings

_OLDEST: Final = 130_000
_CONNECTIONS_A_SHARD: Final = 3
_CONNECTIONS_OF_THE_DRIVER: Final = 4
_LONG: Final = timedelta(minutes=5)
_SKEW: Final = 2.0
_RIGHTS: Final = {
    "relay": ("SELECT", "UPDATE"),
    "position": ("SELECT", "INSERT", "UPDATE"),
    "dead_letter": ("SELECT", "INSERT"),
    "in_flight": ("SELECT", "INSERT", "UPDATE"),
    "migration": ("SELECT",),
}


def examine_database(settings: Settings) -> Generator[Finding, None, int | None]:
    """Returns how many shards the relay has, None where that cannot be told."""
    try:
        connection = connect(settings.data_source, "windrow doctor")
    except DatabaseUnreachable as error:
        says, _, remedy = str(error).rpartition("\n")
        yield failed("database", " ".join(says.split()), remedy)
        return None
    with interruptible(), connection:
        number = connection.info.server_version
        if number < _OLDEST:
            yield failed("database", f"PostgreSQL {number // 10_000} is too old", "upgrade it to 13 or newer")
            return None
        yield ok("database", f"PostgreSQL {number // 10_000} at {where(settings.data_source)}")
        user = yield from _examine_server(connection)
        shards = yield from _examine_tables(connection, settings, user)
        allowed, used = _row(connection, "connections", own=f"windrow {settings.name} ")
        yield from judge_connections(allowed - used, shards or settings.shards or default_shards())
        return shards


def _examine_server(connection: Connection) -> Generator[Finding, None, str]:
    """Returns the user that we are there."""
    asked = time.time()
    user, clock, replica, sees_all, backend = _row(connection, "session")
    yield from judge_clock(clock - (asked + time.time()) / 2, time.time() - asked)
    yield from judge_pooler(connection.info.backend_pid, backend)
    if replica:
        yield failed("replica", "the server is a replica, which takes no writes", "name the primary in dataSource")
    set_to: dict[str, str] = dict(connection.execute(query("doctor", "settings")).fetchall())
    relaxed = [role for (role,) in connection.execute(query("doctor", "relaxed")).fetchall()]
    yield from judge_durability(set_to, relaxed)
    yield from judge_autovacuum(set_to)
    holders = connection.execute(query("doctor", "holders"), {"long": _LONG}).fetchall()
    yield from judge_holders(holders, user, sees_all=sees_all)
    return str(user)


def _examine_tables(connection: Connection, settings: Settings, user: str) -> Generator[Finding, None, int | None]:
    """Returns the relay's number of shards."""
    tables = Tables.of(settings)
    try:
        with interruptible():
            check(connection, tables)
            layout = layout_of(connection, settings, settings.capture)
            yield ok("outbox", f"{settings.outbox_table} is there, at this version")
            yield from _examine_rights(connection, tables, rights_on_outbox(settings, layout), user)
        shards = Registry(settings).shards()
    except OutboxTableMissing as error:
        says, _, remedy = str(error).rpartition(": ")
        yield failed("outbox", says, remedy)
        return None
    except SettingsInvalid as error:
        says, _, remedy = str(error).partition("; ")
        yield failed("relay", says, remedy)
        return None
    except DatabaseForbids as error:
        says, _, remedy = str(error).rpartition(": ")
        yield failed("rights", says, remedy)
        return None
    yield ok("relay", f"{settings.name} is entered; shards: {shards}")
    if settings.election == "lease":
        yield from judge_lease(settings.name, held=is_held(settings))
    return shards


def rights_on_outbox(settings: Settings, layout: Layout) -> tuple[str, ...]:
    """What a relay does to rows: read them, mark them, delete them unless they are kept for ever."""
    marks, keeps = settings.marks, layout.processed and not settings.purge.retention
    return ("SELECT", *(("UPDATE",) if marks else ()), *(() if keeps else ("DELETE",)))


def _examine_rights(connection: Connection, tables: Tables, on_outbox: tuple[str, ...], user: str) -> Iterator[Finding]:
    lacking: dict[str, list[str]] = {}
    for name, rights in {"outbox": on_outbox, **_RIGHTS}.items():
        table = getattr(tables, name).as_string()
        parameters = {"table": table, "rights": list(rights)}
        lacking[table] = [right for (right,) in connection.execute(query("doctor", "lacking"), parameters).fetchall()]
    yield from judge_rights(lacking, user)
    if not _row(connection, "may_identify")[0]:
        yield failed(
            "identity",
            "the relay may not ask which database cluster this is, and so could not tell a restored dump",
            f"GRANT EXECUTE ON FUNCTION pg_control_system() TO {_quoted(user)}",
        )
    if _row(connection, "never_vacuumed", table=tables.outbox.as_string())[0]:
        yield warning(
            "autovacuum",
            "it is switched off for the outbox, which grows without end",
            f"ALTER TABLE {tables.outbox.as_string()} RESET (autovacuum_enabled)",
        )


def judge_lease(relay: str, *, held: bool) -> Iterator[Finding]:
    if held:
        yield ok("leader", "one relay runs and holds the lease; others would stand by")
    else:
        yield warning("leader", f"no relay {relay} runs: nothing is published", 'run "windrow relay"')


def judge_clock(skew: float, uncertain: float) -> Iterator[Finding]:
    """By how many seconds the database's clock is ahead of ours, give or take."""
    if abs(skew) - uncertain > _SKEW:
        yield warning(
            "clock",
            f"the database's clock and this machine's differ by {abs(skew):.1f} s; ages and purge.retention go by the"
            " database's",
            "let both follow a time server",
        )
    else:
        yield ok("clock", "the database's clock and this machine's agree")


def judge_pooler(told: int, real: int) -> Iterator[Finding]:
    """The server process as the connection was told of it, and as it is: a pooler in between tells its own."""
    if told != real:
        yield warning(
            "pooler",
            "a pooler stands between; one that hands out connections per transaction breaks the relay",
            "connect to PostgreSQL directly, or let the pooler hand them out per session",
        )


def judge_durability(set_to: Mapping[str, str], relaxed: Sequence[str]) -> Iterator[Finding]:
    """Whether a row that was published can be lost in a crash."""
    what = "a message can be published and its row then be lost in a crash of the database"
    if set_to["fsync"] == "off":
        yield warning("durability", f"fsync is off: {what}", "switch it on")
    elif set_to["synchronous_commit"] == "off":
        yield warning(
            "durability", f"synchronous_commit is off: {what}", "leave it on in transactions that write messages"
        )
    elif relaxed:
        yield warning(
            "durability",
            f"synchronous_commit is off for {', '.join(relaxed)}: {what}",
            "leave it on for roles that write messages",
        )
    else:
        yield ok("durability", "commits wait for the disk, unless a transaction chooses otherwise")


def judge_autovacuum(set_to: Mapping[str, str]) -> Iterator[Finding]:
    off = [name for name in ("autovacuum", "track_counts") if set_to[name] == "off"]
    if off:
        yield warning("autovacuum", f"{' and '.join(off)} is off: the outbox grows without end", "switch it on")
    else:
        yield ok("autovacuum", "is on")


def judge_holders(holders: Sequence[tuple[Any, ...]], user: str, *, sees_all: bool) -> Iterator[Finding]:
    """Each with its age in seconds, None where that is unknown."""
    for who, age in holders:
        since = "" if age is None else f" for {age / 60:.0f} minutes"
        yield warning(
            "open transactions",
            f"{who} has kept deleted rows from being cleared away{since}",
            "end it if it is not at work",
        )
    if not sees_all:
        says = "only this user's own sessions were looked at"
        yield info("open transactions", says, f"GRANT pg_read_all_stats TO {_quoted(user)}")
    elif not holders:
        yield ok("open transactions", f"none for longer than {_LONG.total_seconds() / 60:.0f} minutes")


def judge_connections(free: int, shards: int) -> Iterator[Finding]:
    """Whether there is room for the relay, of whose own connections none are counted as taken."""
    wanted = shards * _CONNECTIONS_A_SHARD + _CONNECTIONS_OF_THE_DRIVER
    if free < wanted:
        yield warning(
            "connections",
            f"{max(free, 0)} are free; a relay with {shards} shards uses up to {wanted}",
            "raise max_connections, or let others use fewer",
        )
    else:
        yield ok("connections", f"{free} are free; up to {wanted} are used")


def judge_rights(lacking: Mapping[str, Sequence[str]], user: str) -> Iterator[Finding]:
    """By table, what the user may not do."""
    for table, rights in lacking.items():
        if rights:
            wanted = ", ".join(rights)
            yield failed("rights", f"{user} lacks {wanted} on {table}", f"GRANT {wanted} ON {table} TO {_quoted(user)}")
    if not any(lacking.values()):
        yield ok("rights", f"{user} has those that a relay needs in the database")


def _quoted(user: str) -> str:
    return Identifier(user).as_string()


def _row(connection: Connection, name: str, **parameters: Any) -> tuple[Any, ...]:
    row = connection.execute(query("doctor", name), parameters or None).fetchone()
    if row is None:
        raise AssertionError(f"the query {name} always has a row")
    return row
