"""`windrow purge`: delete published rows now, without waiting for the relay to do it."""

from pathlib import Path
from typing import Any

import click

from windrow.cli.options import load_settings, settings_options
from windrow.relay.purge import Purger


@click.command()
@settings_options
@click.option("--json", "as_json", is_flag=True, help='Print {"deleted": N} on stdout.')
def purge(config: Path | None, as_json: bool, **options: Any) -> None:  # noqa: FBT001 - a flag
    """Delete the rows that every relay of the outbox has published and that are past their retention.

    A running relay does this by itself, every purge.interval. Goes by the positions that relays have saved in the
    database; a relay that is entered but has never run holds everything back.

    \b
    Examples:
      windrow purge --config relay.yaml
      WINDROW_PURGE_RETENTION=7d windrow purge --config relay.yaml
    """
    total = 0
    for deleted in Purger(load_settings(config, **options)).purge():
        total += deleted
        if deleted:
            click.echo(f"deleted {total:,} rows", err=True)
    if as_json:
        click.echo(f'{{"deleted": {total}}}')
    elif not total:
        click.echo("nothing to delete", err=True)
