"""PostgreSQL: connections, and what keeps them from being made, in our own words.

Invariant: no message that leaves this module carries a password.
"""

from collections.abc import Mapping
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from windrow.errors import DatabaseUnreachable

Connection = psycopg.Connection[tuple[Any, ...]]

# A peer that vanished without a word is noticed in seconds, not in hours.
_VIGILANT: Final[Mapping[str, str | int]] = {
    "connect_timeout": 10,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_PLANS: Final[Mapping[str, str]] = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",  # its rows have no order: the whole backlog would be sorted for every page
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}


def settled(**further: str) -> str:
    """A statement that has a session's queries planned as they are written for: a table that fills and empties misleads
    the planner. Further settings of the session go along.
    """
    return "SELECT " + ", ".join(f"set_config('{name}', '{to}', false)" for name, to in {**_PLANS, **further}.items())


def connection_string(data_source: str, application: str) -> str:
    """The data source, URL or key=value, with our defaults for what it does not say."""
    try:
        given = conninfo_to_dict(data_source)
    except psycopg.ProgrammingError as error:
        raise DatabaseUnreachable(_sentence("cannot be read as a URL or as key=value pairs", data_source)) from error
    return make_conninfo("", **{**_VIGILANT, "application_name": application, **given})


def connect(data_source: str, application: str = "windrow", *, autocommit: bool = True) -> Connection:
    """Connect, in autocommit; the error names the setting, the server and the remedy."""
    try:
        return psycopg.connect(connection_string(data_source, application), autocommit=autocommit)
    except psycopg.OperationalError as error:
        raise unreachable(str(error), data_source) from error


def unreachable(why: str, data_source: str) -> DatabaseUnreachable:
    return DatabaseUnreachable(_sentence(why.strip(), data_source))


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
