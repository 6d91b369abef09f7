"""The options that say which queues and which Kafka are meant."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from windrow.queue.settings import QueueSettings

F = TypeVar("F", bound=Callable[..., Any])


def queue_options(command: F) -> F:
    """Add --config and the most used settings; the command gets them as keyword arguments."""
    options = [
        click.option(
            "--config",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="WINDROW_CONFIG",
            show_envvar=True,
            help="YAML file with settings. Environment variables win over it, options over both.",
        ),
        click.option(
            "--bootstrap-servers",
            help="Kafka's brokers, as host:port,…  [env var: WINDROW_KAFKA_BOOTSTRAP_SERVERS]",
        ),
        click.option(
            "--message-topic", help="The queue topic.  [env var: WINDROW_MESSAGE_TOPIC; default: windrow.queue]"
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def load_queue_settings(config: Path | None, bootstrap_servers: str | None, **options: Any) -> QueueSettings:
    """Settings from the options, over the environment, over the file."""
    kafka = {"bootstrap.servers": bootstrap_servers} if bootstrap_servers else None
    return QueueSettings.load(config, base_kafka_config=kafka, **options)
