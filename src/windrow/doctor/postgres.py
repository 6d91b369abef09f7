"""A PostgreSQL server: that it is recent, keeps what it commits and clears away what is deleted.

Functions that begin with `judge` are pure; the others ask.
"""

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from psycopg.sql import Identifier

from windrow.capture.log_position import LogPosition, announced, of_log
from windrow.database.postgres import Connection, where
from windrow.database.queries import query
from windrow.database.tables import Tables
from windrow.doctor.clock import judge_clock
from windrow.doctor.finding import Finding, failed, info, ok, warning
from windrow.relay.registry import Registry
from windrow.relay.slot import OLDEST
from windrow.settings import Settings

_OLDEST: Final = 130_000
_LONG: Final = timedelta(minutes=5)


class PostgresServer:
    """A server, as the doctor sees it through one connection."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self._connection, self._settings = connection, settings

    def examine(self) -> Generator[Finding, None, str | None]:
        """Returns the user that we are there; None where the server is of no use."""
        number = self._connection.info.server_version
        if number < _OLDEST:
            yield failed("database", f"PostgreSQL {number // 10_000} is too old", "upgrade it to 13 or newer")
            return None
        yield ok("database", f"PostgreSQL {number // 10_000} at {where(self._settings.data_source)}")
        asked = time.time()
        user, clock, replica, sees_all, backend = self._row("session")
        yield from judge_clock(clock - (asked + time.time()) / 2, time.time() - asked)
        yield from judge_pooler(self._connection.info.backend_pid, backend)
        if replica:
            yield failed("replica", "the server is a replica, which takes no writes", "name the primary in dataSource")
        set_to: dict[str, str] = dict(self._rows("settings"))
        relaxed = [role for (role,) in self._rows("relaxed")]
        yield from judge_durability(set_to, relaxed)
        yield from judge_autovacuum(set_to)
        if self._settings.tails:
            (readiness,) = self._of_log("readiness")
            yield from judge_log(user, *readiness)
        yield from judge_holders(self._rows("holders", long=_LONG), user, sees_all=sees_all)
        return str(user)

    def grant(self, rights: str, table: str, user: str) -> str:
        return f"GRANT {rights} ON {table} TO {quoted_user(user)}"

    def lacking(self, table: str, rights: Sequence[str]) -> list[str]:
        """The rights on a table that this user does not have."""
        return [right for (right,) in self._rows("lacking", table=table, rights=list(rights))]

    def examine_outbox(self, user: str) -> Iterator[Finding]:
        """What else the relay needs there."""
        table = Tables.of(self._settings).outbox.as_string()
        if not self._row("may_identify")[0]:
            yield failed(
                "identity",
                "the relay may not ask which database cluster this is, and so could not tell a restored dump",
                f"GRANT EXECUTE ON FUNCTION pg_control_system() TO {quoted_user(user)}",
            )
        if self._row("never_vacuumed", table=table)[0]:
            yield warning(
                "autovacuum",
                "it is switched off for the outbox, which grows without end",
                f"ALTER TABLE {table} RESET (autovacuum_enabled)",
            )

        if self._settings.tails:
            yield from self._examine_slot()

    def _examine_slot(self) -> Iterator[Finding]:
        saved = Registry(self._settings).saved().get(0)
        if saved is None or not of_log(saved.position) or announced(saved.position):
            yield failed("slot", f"relay {self._settings.name} has none to read the log by", 'run "windrow init"')
            return
        name = LogPosition.decode(saved.position).slot
        yield from judge_slot(name, self._of_log("slot", slot=name), self._settings.limits.max_slot_wal)

    def _of_log(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(query("tail", name), parameters or None).fetchall()

    def free_connections(self) -> int:
        """How many there are, those of this relay's own counted as free."""
        allowed, used = self._row("connections", own=f"windrow {self._settings.name} ")
        return int(allowed - used)

    def _row(self, name: str, **parameters: Any) -> tuple[Any, ...]:
        (row,) = self._rows(name, **parameters)
        return row

    def _rows(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(query("doctor", name), parameters or None).fetchall()


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


def judge_log(user: str, level: str, version: int, permitted: bool, free: int) -> Iterator[Finding]:  # noqa: FBT001 - a row
    """Whether the server's log can be read by a slot."""
    if version < OLDEST:
        yield failed("log", f"PostgreSQL {version // 10_000} is too old for capture: tail", "upgrade it to 14 or newer")
    elif level != "logical":
        yield failed("log", f"wal_level is {level}, which cannot be decoded", "set it to logical, restart the server")
    elif not permitted:
        yield failed("log", f"{user} may not read it", f"ALTER ROLE {quoted_user(user)} REPLICATION")
    else:
        yield ok("log", f"can be decoded; free replication slots: {free}")


def judge_slot(name: str, found: Sequence[tuple[Any, ...]], limit: int) -> Iterator[Finding]:
    """The relay's slot: whether it is of this database, whether it is lost, and how much of the log it holds back."""
    mine, lost, held = found[0] if found else (False, True, 0)
    if not mine or lost:
        yield failed("slot", f"{name} is lost", "docs/reference/errors.md says how to go on, under SlotLost")
    elif held > limit:
        yield warning(
            "slot",
            f"{name} holds back {held / 1e6:,.0f} MB of the database's log",
            "run the relay, look for transactions that are open for long, set max_slot_wal_keep_size",
        )
    else:
        yield ok("slot", f"{name} holds back {held / 1e6:,.0f} MB of the database's log")


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
        yield info("open transactions", says, f"GRANT pg_read_all_stats TO {quoted_user(user)}")
    elif not holders:
        yield ok("open transactions", f"none for longer than {_LONG.total_seconds() / 60:.0f} minutes")


def quoted_user(user: str) -> str:
    return Identifier(user).as_string()
