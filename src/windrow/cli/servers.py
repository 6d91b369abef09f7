"""`windrow servers`: the embedded servers for someone who wants to play, and their downloads ahead of time.

Connection strings go to stdout, as shell exports or JSON; talk goes to stderr. The servers end with the
command.
"""

import contextlib
import json
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from windrow import embedded

if TYPE_CHECKING:
    from windrow.embedded.server import Server

TALK = Console(stderr=True, highlight=False)


@click.group()
def servers() -> None:
    """Real PostgreSQL, Kafka and MariaDB servers to play with.

    They run on free ports of this machine's loopback, without root and without anything to install.
    """


def _option(name: str, **attributes: Any) -> Callable[[Any], Any]:
    variable = f"WINDROW_SERVERS_{name.split('/', maxsplit=1)[0].removeprefix('--').upper()}"
    return click.option(name, envvar=variable, show_envvar=True, show_default=True, **attributes)


@servers.command(
    epilog="""\b
Examples:
  windrow servers up                        PostgreSQL and one Kafka broker
  windrow servers up --brokers 3            a cluster, to see a broker fail
  windrow servers up --folder play          keep the data, and find them again next time
  windrow servers up --mariadb --no-kafka   other servers

\b
In a second terminal, paste the lines that begin with "export", then for example:
  windrow init
  windrow relay
"""
)
@_option("--postgres/--no-postgres", default=True, help="Run PostgreSQL.")
@_option("--kafka/--no-kafka", default=True, help="Run Kafka.")
@_option("--mariadb/--no-mariadb", default=False, help="Run MariaDB (149 MB are fetched the first time).")
@_option("--brokers", type=click.IntRange(1, 9), default=1, help="Kafka brokers, a process each.")
@_option("--folder", type=click.Path(file_okay=False, path_type=Path), help="Keep data here.  [temporary]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of shell exports.")
def up(*, postgres: bool, kafka: bool, mariadb: bool, brokers: int, folder: Path | None, as_json: bool) -> None:
    """Start servers and keep them running until Ctrl-C.

    Prints their connection strings, under the names of windrow's settings in the environment. Exit status: 0
    when ended by Ctrl-C or SIGTERM, 1 when a server died, 2 when one could not be started.
    """
    # From the first server on, an end by signal has to pass through the stops below.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    wanted = _wanted(postgres=postgres, kafka=kafka, mariadb=mariadb, brokers=brokers, folder=folder)
    if not wanted:
        raise click.UsageError("every server is switched off; leave out one of the --no- options")
    died = None
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(KeyboardInterrupt):
            for name, server in wanted.items():
                _start(stack, name, server)
            addresses = {name: _address(server) for name, server in wanted.items()}
            click.echo(json.dumps(addresses) if as_json else _exports(addresses))
            _explain(wanted, addresses, folder)
            died = _wait(wanted)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    if died is not None:
        TALK.print(f"[red]{died} has ended by itself[/]; the others are stopped")
        raise SystemExit(1)
    TALK.print("all stopped")


@servers.command()
@_option("--mariadb/--no-mariadb", default=False, help="MariaDB as well (149 MB).")
def fetch(*, mariadb: bool) -> None:
    """Download ahead what the embedded servers need, so that they start at once later.

    \b
    Examples:
      windrow servers fetch             the Kafka broker (47 MB)
      windrow servers fetch --mariadb   MariaDB too

    Downloads are kept per user; WINDROW_CACHE names another folder for them, WINDROW_IVY_SETTINGS an Ivy
    settings file where a mirror is to be used. Prints the folders on stdout.
    """
    from windrow.embedded import broker, folders, jars, training  # noqa: PLC0415 - clients of Kafka
    from windrow.embedded import mariadb as maria  # noqa: PLC0415 - as above

    click.echo(jars.fetch(broker.JARS))
    training.options()
    if mariadb:
        click.echo(maria.find_server(folders.unprivileged_account()))


def _wanted(
    *, postgres: bool, kafka: bool, mariadb: bool, brokers: int, folder: Path | None
) -> "dict[str, Server | embedded.Kafka]":
    def place(name: str) -> Path | None:
        return None if folder is None else folder / name

    wanted: dict[str, Server | embedded.Kafka] = {}
    if postgres:
        wanted["PostgreSQL"] = embedded.Postgres(place("postgres"))
    if kafka:
        wanted["Kafka"] = embedded.Kafka(brokers, place("kafka"))
    if mariadb:
        wanted["MariaDB"] = embedded.MariaDB(place("mariadb"))
    return wanted


def _start(stack: contextlib.ExitStack, name: str, server: "Server | embedded.Kafka") -> None:
    TALK.print(f"starting {name} ...")
    began = time.monotonic()
    stack.callback(_stop, name, server)
    server.start()
    TALK.print(f"{name} answers after {time.monotonic() - began:.1f} s")


def _stop(name: str, server: "Server | embedded.Kafka") -> None:
    TALK.print(f"stopping {name} ...")
    server.stop()


def _address(server: "Server | embedded.Kafka") -> str:
    match server:
        case embedded.Postgres() | embedded.MariaDB():
            return server.url
        case embedded.Kafka():
            return server.bootstrap_servers
        case _:
            raise TypeError(f"no address is known for {server!r}")


def _exports(addresses: dict[str, str]) -> str:
    names = {"PostgreSQL": "WINDROW_DATA_SOURCE", "Kafka": "WINDROW_KAFKA_BOOTSTRAP_SERVERS"}
    if "PostgreSQL" not in addresses:
        names["MariaDB"] = "WINDROW_DATA_SOURCE"
    return "\n".join(
        f"export {names.get(name, 'MARIADB_DATA_SOURCE')}={shlex.quote(address)}" for name, address in addresses.items()
    )


def _explain(wanted: "dict[str, Server | embedded.Kafka]", addresses: dict[str, str], folder: Path | None) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("server", "address", "data and log"):
        table.add_column(heading, overflow="fold")
    for name, server in wanted.items():
        table.add_row(name, addresses[name], str(server.folder))
    TALK.print(table)
    data = "are removed at the end" if folder is None else f"stay in {folder}"
    TALK.print(f"Paste the export lines into another terminal. Data {data}. [bold]Ctrl-C stops all.[/]")


def _wait(wanted: "dict[str, Server | embedded.Kafka]") -> str | None:
    """The name of a server that died. Ends otherwise only by KeyboardInterrupt."""
    while True:
        for name, server in wanted.items():
            if not server.running:
                return name
        time.sleep(0.5)
