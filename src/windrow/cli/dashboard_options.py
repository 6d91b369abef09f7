"""What the commands are told that serve the dashboard: by whom it may be used, and what it shows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class Terms(NamedTuple):
    """Who may change things, by which names it is asked for, and which queues it shows."""

    token_file: Path | None
    dashboard_name: tuple[str, ...]
    message_topic: str


def dashboard_options(command: F) -> F:
    """Add the options that make `Terms`."""
    options = [
        click.option(
            "--token-file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="A file with the token by which people change things on the dashboard.  [default: what "
            "WINDROW_DASHBOARD_TOKEN says, or one made and shown in the terminal; elsewhere nothing is changed]",
        ),
        click.option(
            "--dashboard-name",
            multiple=True,
            metavar="HOST",
            help="A host name by which browsers reach the dashboard, besides addresses and localhost; may be repeated.",
        ),
        click.option(
            "--message-topic",
            default="windrow.queue",
            show_default=True,
            envvar="WINDROW_MESSAGE_TOPIC",
            show_envvar=True,
            help="The topic of the queues that the dashboard shows.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command
