"""A MySQL or MariaDB server: that it is recent, takes writes, keeps what it commits and clears away what is deleted.

Functions that begin with `judge` are pure; the others ask. Rights are tried, in statements that change nothing: they
may come by way of roles, patterns and defaults.
"""

import re
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from psycopg.sql import SQL, Composable, Identifier

from windrow.database.mysql import Connection, where
from windrow.database.queries import query
from windrow.database.tables import names
from windrow.doctor.clock import judge_clock
from windrow.doctor.finding import Finding, failed, info, ok, warning
from windrow.errors import DatabaseForbids
from windrow.settings import Settings

_OLDEST: Final = {"MySQL": (8, 0), "MariaDB": (10, 6)}
_LONG: Final = timedelta(minutes=5)


class MysqlServer:
    """A server, as the doctor sees it through one connection."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self._connection, self._settings = connection, settings

    def examine(self) -> Generator[Finding, None, str | None]:
        """Returns the user that we are there; None where the server is of no use."""
        asked = time.time()
        user, clock, version = self._row("session")
        took = time.time() - asked
        finding = judge_version(version, where(self._settings.data_source))
        yield finding
        if finding.verdict == "failed":
            return None
        yield from judge_clock(float(clock) - asked - took / 2, took)
        set_to: dict[str, str] = {name.lower(): value for name, value in self._rows("settings")}
        yield from judge_server(set_to)
        yield from judge_durability(set_to)
        try:
            holders = self._rows("holders", long=_LONG)
        except DatabaseForbids:
            says = "nobody's could be looked at"
            yield info("open transactions", says, self.grant("PROCESS", "*.*", user))
        else:
            yield from judge_holders(holders)
        return str(user)

    def grant(self, rights: str, table: str, user: str) -> str:
        """The user is named as the server names us: `user@host`."""
        name, _, host = user.rpartition("@")
        table = table.replace('"', "`")
        return f"GRANT {rights} ON {table} TO '{name}'@'{host}'"

    def lacking(self, table: str, rights: Sequence[str]) -> list[str]:
        """The rights on a table that this user does not have."""
        columns = self._connection.execute(query("layout", "columns", "mysql"), names(SQL(table))).fetchall()
        if not columns:  # who has no right on a table does not see it
            return list(rights)
        column = Identifier(columns[0][0])
        return [right for right in rights if not self._may(right, SQL(table), column)]

    def _may(self, right: str, table: Composable, column: Composable) -> bool:
        trial = query("doctor", f"try_{right.lower()}", "mysql").format(table=table, column=column)
        try:
            self._connection.execute(trial)
        except DatabaseForbids:
            return False
        return True

    def examine_outbox(self, user: str) -> Iterator[Finding]:  # noqa: ARG002 - as on PostgreSQL
        """What else the relay needs there: nothing."""
        yield from ()

    def free_connections(self) -> int:
        """How many there are; those of the relay, if it runs, count as taken."""
        return int(self._row("connections")[0]) - int(self._row("connected")[1])

    def _row(self, name: str, **parameters: Any) -> tuple[Any, ...]:
        (row,) = self._rows(name, **parameters)
        return row

    def _rows(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(query("doctor", name, "mysql"), parameters or None).fetchall()


def judge_version(version: str, place: str) -> Finding:
    """By what the server says of itself, such as 8.0.36 or 11.4.5-MariaDB."""
    product = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    number = tuple(int(each) for each in re.findall(r"\d+", version)[:2])
    oldest = _OLDEST[product]
    if number < oldest:
        wanted = ".".join(map(str, oldest))
        return failed("database", f"{product} {version} is too old", f"upgrade it to {wanted} or newer")
    return ok("database", f"{product} {'.'.join(map(str, number))} at {place}")


def judge_server(set_to: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the server takes what the relay does."""
    if set_to.get("read_only") == "ON":
        yield failed("replica", "the server is read-only, as replicas are", "name the primary in dataSource")
    if set_to.get("log_bin") == "ON" and set_to.get("binlog_format") == "STATEMENT":
        yield failed(
            "binary log",
            "binlog_format is STATEMENT, with which no row can be changed in transactions that read what is committed",
            "set it to ROW or MIXED",
        )
    if set_to.get("wsrep_on") == "ON":
        yield warning(
            "cluster",
            "the server is part of a Galera cluster, whose nodes give ids in no common order",
            "have all who write messages, and the relay, use the same node",
        )


def judge_durability(set_to: Mapping[str, str]) -> Iterator[Finding]:
    """Whether a row that was published can be lost in a crash."""
    what = "a message can be published and its row then be lost in a crash of the database"
    wanted = {"innodb_flush_log_at_trx_commit": "1"}
    if set_to.get("log_bin") == "ON":
        wanted["sync_binlog"] = "1"
    loose = [f"{name} is {set_to.get(name)}" for name, value in wanted.items() if set_to.get(name) != value]
    if loose:
        yield warning("durability", f"{' and '.join(loose)}: {what}", "set it to 1")
    else:
        yield ok("durability", "commits wait for the disk")


def judge_holders(holders: Sequence[tuple[Any, ...]]) -> Iterator[Finding]:
    """Each connection with a transaction that is old, and its age in seconds."""
    for connection, age in holders:
        yield warning(
            "open transactions",
            f"connection {connection} has kept deleted rows from being cleared away for {float(age) / 60:.0f} minutes",
            f"end it if it is not at work: KILL {connection}",
        )
    if not holders:
        yield ok("open transactions", f"none for longer than {_LONG.total_seconds() / 60:.0f} minutes")
