"""`windrow inbox`: make a consumer's inbox, run a handler on it, forget what is old."""

import threading
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import click

from windrow.cli.interrupt import end_by_signal
from windrow.cli.options import metrics_address_option
from windrow.cli.values import imported, time_of
from windrow.database.connections import connect_plainly
from windrow.inbox import ConsumerSettings, Inbox, InboxConsumer
from windrow.inbox.acceptance import CHUNK
from windrow.inbox.exposure import samples
from windrow.observe.routes import watch_routes
from windrow.observe.server import Server
from windrow.parse import Address
from windrow.settings import dialect_of

F = TypeVar("F", bound=Callable[..., Any])
_UNNAMED = "windrow"


def _data_source(command: F) -> F:
    return click.option(
        "--data-source",
        required=True,
        envvar="WINDROW_DATA_SOURCE",
        show_envvar=True,
        help="The consumer's database: postgresql://… or mysql://…",
    )(command)


def _table(command: F) -> F:
    return click.option(
        "--inbox-table",
        default="inbox",
        show_default=True,
        envvar="WINDROW_INBOX_TABLE",
        show_envvar=True,
        help="The inbox, as table or schema.table.",
    )(command)


@click.group()
def inbox() -> None:
    """Take each message once, on the consumer's side."""


@inbox.command()
@_data_source
@_table
@click.option("--sql", "as_sql", is_flag=True, help="Print the SQL instead of running it; needs no server.")
def init(data_source: str, inbox_table: str, as_sql: bool) -> None:  # noqa: FBT001 - a flag
    """Create the inbox and the table of its offsets. Safe to run again.

    \b
    Examples:
      windrow inbox init --data-source postgresql://app@localhost/billing
      windrow inbox init --data-source mysql:// --sql > inbox.sql
    """
    made = Inbox(_UNNAMED, inbox_table)
    if as_sql:
        click.echo(made.script(dialect_of(data_source)), nl=False)
        return
    with closing(connect_plainly(data_source)) as connection:
        made.create(connection)
        connection.commit()
    click.echo(f"inbox {inbox_table} is ready", err=True)


@inbox.command()
@_data_source
@_table
@click.option("--group", required=True, envvar="WINDROW_GROUP", show_envvar=True, help="Whose entries.")
@click.option("--retention", required=True, metavar="TIME", help="Forget what was accepted longer ago: 12h, 7d.")
def purge(data_source: str, inbox_table: str, group: str, retention: str) -> None:
    """Forget messages that were accepted long ago: they would be accepted again.

    A running consumer does this by itself.

    \b
    Example:
      windrow inbox purge --data-source postgresql://app@localhost/billing --group billing --retention 7d
    """
    old, total, deleted = time_of("retention", retention), 0, CHUNK
    with closing(connect_plainly(data_source)) as connection:
        while deleted == CHUNK:
            deleted = Inbox(group, inbox_table).purge(connection, old)
            connection.commit()
            total += deleted
    click.echo(f"forgot {total:,} messages", err=True)


@inbox.command()
@click.argument("handler", metavar="MODULE:HANDLER")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="WINDROW_CONFIG",
    show_envvar=True,
    help="YAML file with settings. Environment variables win over it, options over both.",
)
@click.option("--data-source", help="The consumer's database.  [env var: WINDROW_DATA_SOURCE]")
@click.option("--bootstrap-servers", help="Kafka's brokers.  [env var: WINDROW_KAFKA_BOOTSTRAP_SERVERS]")
@click.option("--group", help="The consumer group.  [env var: WINDROW_GROUP]")
@click.option("--topics", help="The topics, with commas between them.  [env var: WINDROW_TOPICS]")
@click.option("--inbox-table", help="The inbox.  [env var: WINDROW_INBOX_TABLE; default: inbox]")
@click.option("--dead-letter-topic", help="Where poison goes.  [env var: WINDROW_DEAD_LETTER_TOPIC]")
@metrics_address_option
def consume(
    handler: str,
    config: Path | None,
    bootstrap_servers: str | None,
    metrics_address: Address | None,
    **options: Any,
) -> None:
    """Call a handler for each message, once: handler(connection, message), in a transaction that is committed for it.

    \b
    Example:
      windrow inbox consume billing.handlers:order_placed --config consumer.yaml
    """
    kafka = {"bootstrap.servers": bootstrap_servers} if bootstrap_servers else None
    settings = ConsumerSettings.load(config, base_kafka_config=kafka, **options)
    consumer = InboxConsumer(settings, imported(handler))
    wanted = end_by_signal("ending after the transaction that is under way")
    ended = threading.Event()

    def stop() -> None:
        while not wanted.wait(0.1):
            if ended.is_set():
                return
        consumer.stop()

    threading.Thread(target=stop, daemon=True).start()
    click.echo(f"group {settings.group} consumes {', '.join(settings.topics)}", err=True)
    routes = watch_routes(lambda: samples(consumer), lambda: not ended.is_set())
    try:
        with Server(metrics_address, routes) if metrics_address else nullcontext():
            consumer.run()
    finally:
        ended.set()
