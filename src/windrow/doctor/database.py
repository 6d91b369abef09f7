"""The database: that it is reached, that it keeps what it commits, that the tables are there and may be used.

Functions that begin with `judge` are pure; the others ask.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from windrow.database import mysql
from windrow.database.adoption import layout_of
from windrow.database.connections import Connection, connect, interruptible
from windrow.database.layouts import Layout
from windrow.database.migrations import check
from windrow.database.tables import Tables
from windrow.doctor.finding import Finding, failed, ok, warning
from windrow.doctor.mysql import MysqlServer
from windrow.doctor.postgres import PostgresServer
from windrow.election.lease import is_held
from windrow.errors import DatabaseForbids, DatabaseUnreachable, OutboxTableMissing, SettingsInvalid
from windrow.relay.registry import Registry
from windrow.relay.setup import default_shards
from windrow.settings import Settings

if TYPE_CHECKING:
    import psycopg

_CONNECTIONS_A_SHARD: Final = 3
_CONNECTIONS_OF_THE_DRIVER: Final = 4
_RIGHTS: Final = {
    "relay": ("SELECT", "UPDATE"),
    "position": ("SELECT", "INSERT", "UPDATE"),
    "dead_letter": ("SELECT", "INSERT"),
    "in_flight": ("SELECT", "INSERT", "UPDATE"),
    "migration": ("SELECT",),
}


Grant: TypeAlias = Callable[[str, str, str], str]


class Server(Protocol):
    """A database server, as the doctor sees it through one connection."""

    def examine(self) -> Generator[Finding, None, str | None]:
        """Returns the user that we are there; None where the server is of no use."""

    def grant(self, rights: str, table: str, user: str) -> str:
        """The statement that grants the user rights on a table."""

    def lacking(self, table: str, rights: Sequence[str]) -> list[str]:
        """The rights on a table that this user does not have."""

    def examine_outbox(self, user: str) -> Iterator[Finding]:
        """What else the relay needs there."""

    def free_connections(self) -> int:
        """How many there are, those of this relay's own counted as free where they can be told."""


def examine_database(settings: Settings) -> Generator[Finding, None, int | None]:
    """Returns how many shards the relay has, None where that cannot be told."""
    try:
        connection = connect(settings.data_source, "windrow doctor")
    except DatabaseUnreachable as error:
        says, _, remedy = str(error).rpartition("\n")
        yield failed("database", " ".join(says.split()), remedy)
        return None
    with interruptible(), connection:
        server = _server(connection, settings)
        user = yield from server.examine()
        if user is None:
            return None
        shards = yield from _examine_tables(connection, server, settings, user)
        yield from judge_connections(server.free_connections(), shards or settings.shards or default_shards(settings))
        return shards


def _server(connection: Connection, settings: Settings) -> Server:
    if isinstance(connection, mysql.Connection):
        return MysqlServer(connection, settings)
    return PostgresServer(cast("psycopg.Connection[Any]", connection), settings)


def _examine_tables(
    connection: Connection, server: Server, settings: Settings, user: str
) -> Generator[Finding, None, int | None]:
    """Returns the relay's number of shards."""
    tables = Tables.of(settings)
    try:
        with interruptible():
            check(connection, tables)
            layout = layout_of(connection, settings, settings.capture)
            yield ok("outbox", f"{settings.outbox_table} is there, at this version")
            wanted = {"outbox": rights_on_outbox(settings, layout), **_RIGHTS}
            by_table = {tables.named[name].as_string(): rights for name, rights in wanted.items()}
            lacking = {table: server.lacking(table, rights) for table, rights in by_table.items()}
            yield from judge_rights(lacking, user, server.grant)
            yield from server.examine_outbox(user)
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


def judge_lease(relay: str, *, held: bool) -> Iterator[Finding]:
    if held:
        yield ok("leader", "one relay runs and holds the lease; others would stand by")
    else:
        yield warning("leader", f"no relay {relay} runs: nothing is published", 'run "windrow relay"')


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


def judge_rights(lacking: Mapping[str, Sequence[str]], user: str, grant: Grant) -> Iterator[Finding]:
    """By table, what the user may not do."""
    for table, rights in lacking.items():
        if rights:
            wanted = ", ".join(rights)
            yield failed("rights", f"{user} lacks {wanted} on {table}", grant(wanted, table, user))
    if not any(lacking.values()):
        yield ok("rights", f"{user} has those that a relay needs in the database")
