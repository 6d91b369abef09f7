"""`windrow dashboard`: the dashboard in a process of its own. `windrow relay --dashboard` serves the same."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from windrow.cli.dashboard_options import Terms, dashboard_options
from windrow.cli.interrupt import end_by_signal
from windrow.cli.options import load_settings, settings_options
from windrow.dashboard.actions import Actions
from windrow.dashboard.chronicle import Chronicle
from windrow.dashboard.guard import Guard, given_token, made_token
from windrow.dashboard.routes import Dashboard
from windrow.errors import SettingsInvalid
from windrow.observe.server import Routes, Server
from windrow.parse import address as parsed_address
from windrow.queue.settings import QueueSettings
from windrow.relay.registry import Registry
from windrow.relay.watch import Watch


@contextmanager
def dashboard_on(watch: Watch, terms: Terms) -> Iterator[Routes]:
    """The routes of a dashboard that remembers what the watch sees while the context lasts."""
    settings, token = watch.settings, given_token(terms.token_file)
    queues = QueueSettings.beside(settings.base_kafka_config, terms.message_topic)
    if token is None and sys.stderr.isatty():
        token = made_token()
        click.echo(f"the dashboard's token, shown only here: {token}", err=True)
    elif token is None:
        click.echo("the dashboard shows, and changes nothing: it was given no token", err=True)
    with Chronicle(watch, queues) as chronicle:
        guard = Guard(token, frozenset(terms.dashboard_name))
        yield Dashboard(chronicle, guard, Actions(settings, queues)).routes()


@click.command()
@settings_options
@dashboard_options
@click.option(
    "--address",
    default="127.0.0.1:9465",
    show_default=True,
    envvar="WINDROW_DASHBOARD_ADDRESS",
    show_envvar=True,
    help="Where it listens. It speaks plain HTTP; others reach it only where this says so.",
)
def dashboard(
    config: Path | None,
    token_file: Path | None,
    dashboard_name: tuple[str, ...],
    message_topic: str,
    address: str,
    **options: Any,
) -> None:
    """Show a relay and the queues on a page, live, until Ctrl-C or SIGTERM.

    It looks at the database and Kafka, so it can run anywhere, also while no relay does. With the token people can
    retry and discard dead letters, and pause, resume and replay queues; without it the page only shows.

    \b
    Examples:
      windrow dashboard --config relay.yaml
      windrow dashboard --config relay.yaml --address 0.0.0.0:9465 --token-file /run/secrets/dashboard
    """
    settings = load_settings(config, **options)
    try:
        where = parsed_address(address)
    except ValueError as error:
        raise SettingsInvalid([f"--address: {error}"]) from None
    Registry(settings).shards()  # says what is wrong where there is nothing to show
    with (
        Watch(settings) as watch,
        dashboard_on(watch, Terms(token_file, dashboard_name, message_topic)) as routes,
        Server(where, routes) as server,
    ):
        wanted = end_by_signal("closing the dashboard")
        click.echo(f"relay {settings.name}: dashboard at http://{server.address}", err=True)
        wanted.wait()
