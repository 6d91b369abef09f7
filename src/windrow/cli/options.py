"""The options that say which relay, database and Kafka are meant; every command that needs settings has them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from windrow.parse import Address, address
from windrow.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])


def settings_options(command: F) -> F:
    """Add --config and the most used settings; the command gets them as keyword arguments."""
    options = [
        click.option(
            "--config",
            "config",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="WINDROW_CONFIG",
            show_envvar=True,
            help="YAML file with settings. Environment variables win over it, options over both.",
        ),
        click.option("--data-source", help="The database, as URL or key=value pairs.  [env var: WINDROW_DATA_SOURCE]"),
        click.option(
            "--bootstrap-servers",
            help="Kafka's brokers, as host:port,…  [env var: WINDROW_KAFKA_BOOTSTRAP_SERVERS]",
        ),
        click.option("--name", help="The relay's name.  [env var: WINDROW_NAME; default: leaderGroupID, or windrow]"),
        click.option("--outbox-table", help="The outbox.  [env var: WINDROW_OUTBOX_TABLE; default: outbox]"),
        click.option("--shards", type=int, help="Parallel shards.  [env var: WINDROW_SHARDS; default: free cores]"),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def metrics_address_option(command: F) -> F:
    """Add --metrics-address; the command gets it as an `Address`, or None."""

    def parsed(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Address | None:
        try:
            return address(value) if value else None
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return click.option(
        "--metrics-address",
        metavar="[HOST:]PORT",
        envvar="WINDROW_OBSERVE_ADDRESS",
        show_envvar=True,
        callback=parsed,
        help="Serve /metrics, /livez and /readyz there; a port alone is this machine's own. Without it, nowhere.",
    )(command)


def load_settings(config: Path | None, bootstrap_servers: str | None, **options: Any) -> Settings:
    """Settings from the options, over the environment, over the file."""
    kafka = {"bootstrap.servers": bootstrap_servers} if bootstrap_servers else None
    return Settings.load(config, base_kafka_config=kafka, **options)
