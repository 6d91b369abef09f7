"""`windrow init`: create what a relay needs."""

from pathlib import Path
from typing import Any

import click

from windrow.cli.options import load_settings, settings_options
from windrow.relay.setup import STORAGES, Storage, prepare, prepared_by_hand, takeover

_ANYWHERE = {"data_source": "postgresql://", "bootstrap_servers": "-"}


@click.command()
@settings_options
@click.option(
    "--storage",
    type=click.Choice(STORAGES),
    envvar="WINDROW_STORAGE",
    show_envvar=True,
    help="How a new outbox is stored: plain, the default, or partitioned, which gives back the room of published rows"
    " also while somebody keeps a transaction open for long.",
)
@click.option("--sql", "as_sql", is_flag=True, help="Print the SQL instead of running it; needs no server.")
def init(config: Path | None, storage: Storage | None, as_sql: bool, **options: Any) -> None:  # noqa: FBT001 - a flag
    """Create the outbox, enter the relay, create its topics.

    Safe to run again: what is there is left as it is, what a newer windrow needs is added. The number of shards and the
    storage are fixed with the first run.

    A table of goharvest's, of tomorrow-one's transactional-outbox or of Debezium's outbox event router is recognised
    and taken over, with its rows; one of your own is, if the settings name its columns. What windrow needs besides is
    added, and told beforehand. Applications go on writing to it.

    \b
    Examples:
      windrow init --config relay.yaml
      windrow init --data-source postgresql://app@localhost/shop --bootstrap-servers localhost:9092
      windrow init --config relay.yaml --storage partitioned
      windrow init --outbox-table billing.outbox --sql > outbox.sql
    """
    if as_sql:
        given = {name: value for name, value in options.items() if value is not None}
        settings = load_settings(config, **{**dict.fromkeys(options), **_ANYWHERE, **given})
        click.echo(prepared_by_hand(settings, storage), nl=False)
        return
    settings = load_settings(config, **options)
    if plan := takeover(settings):
        click.echo(plan, err=True)
    done = prepare(settings, storage)
    for migration in done.migrations:
        click.echo(f"applied migration {migration.version}: {migration.title}", err=True)
    for topic in done.created_topics:
        click.echo(f"created topic {topic}", err=True)
    if done.created_slot:
        click.echo(f"created replication slot {done.created_slot}", err=True)
    outbox = f"outbox {settings.outbox_table} ({done.storage})"
    click.echo(f"{outbox} and relay {settings.name} ({done.shards} shards) are ready", err=True)
