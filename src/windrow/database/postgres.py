"""PostgreSQL: connections, the tables of an outbox, and the driver's errors in our own words.

Invariant: no message that leaves this module carries a password.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Final

import adbc_driver_manager
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Composable, Composed

from windrow.errors import DatabaseForbids, DatabaseUnreachable, Interrupted
from windrow.table import quoted

Connection = psycopg.Connection[tuple[Any, ...]]

# A peer that vanished without a word is noticed in seconds, not in hours.
_VIGILANT: Final[Mapping[str, str | int]] = {
    "connect_timeout": 10,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
PLANS: Final = (
    "SET enable_seqscan = off",
    "SET enable_bitmapscan = off",  # its rows have no order: the whole backlog would be sorted for every page
    "SET max_parallel_workers_per_gather = 0",
    "SET jit = off",
    "SET plan_cache_mode = force_generic_plan",
)
"""Settings for the plans that the queries are written for: a table that fills and empties misleads the planner."""
# Connection lost or refused, resources short, shutdown under way, serialisation failure.
_FORBIDDEN: Final = "42501"
_PASSING: Final = ("08", "40", "53", "57")


@dataclass(frozen=True, slots=True)
class Tables:
    """The outbox and the tables beside it, as quoted identifiers for composed SQL."""

    outbox: SQL
    relay: SQL
    position: SQL
    dead_letter: SQL
    in_flight: SQL
    migration: SQL

    @classmethod
    def beside(cls, outbox: str) -> "Tables":
        def name(suffix: str = "") -> SQL:
            return SQL(quoted(outbox, suffix))

        beside = ("_relay", "_position", "_dead_letter", "_in_flight", "_migration")
        return cls(name(), *map(name, beside))

    def slot(self, number: int) -> SQL:
        """One of the slots of a partitioned outbox."""
        unclosed = self.outbox.as_string().removesuffix('"')
        return SQL(f'{unclosed}_slot_{number}"')

    def fill(self, template: SQL, **fragments: Composable) -> Composed:
        names = {each.name: getattr(self, each.name) for each in fields(self)}
        return template.format(**names, **fragments)


def connection_string(data_source: str, application: str) -> str:
    """The data source, URL or key=value, with our defaults for what it does not say."""
    try:
        given = conninfo_to_dict(data_source)
    except psycopg.ProgrammingError as error:
        raise DatabaseUnreachable(_sentence("cannot be read as a URL or as key=value pairs", data_source)) from error
    return make_conninfo("", **{**_VIGILANT, "application_name": application, **given})


def connect(data_source: str, application: str = "windrow") -> Connection:
    """Connect, in autocommit; the error names the setting, the server and the remedy."""
    try:
        return psycopg.connect(connection_string(data_source, application), autocommit=True)
    except psycopg.OperationalError as error:
        raise DatabaseUnreachable(_sentence(str(error).strip(), data_source)) from error


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `Interrupted` for errors that may pass on a new connection; others propagate."""
    try:
        yield
    except (psycopg.Error, adbc_driver_manager.Error) as error:
        state = error.sqlstate
        if state == _FORBIDDEN:
            raise DatabaseForbids(f"{str(error).strip()}: grant the right to the user that dataSource names") from error
        if state and not state.startswith(_PASSING):
            raise
        raise Interrupted(f"the database broke off: {str(error).strip()}") from error


def where(data_source: str) -> str:
    """The server and database that a data source names, without user and password."""
    try:
        given = conninfo_to_dict(data_source)
    except psycopg.ProgrammingError:
        return "(unreadable)"
    return f"{given.get('host', 'localhost')}:{given.get('port', 5432)}/{given.get('dbname', '')}"


def _sentence(what: str, data_source: str) -> str:
    return (
        f"dataSource {where(data_source)}: {what}\n"
        "Check that the server runs and that host, port, database, user and password are right."
    )
