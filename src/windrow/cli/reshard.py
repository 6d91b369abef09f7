"""`windrow reshard`: change a relay's number of shards."""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from windrow.cli.interrupt import end_by_signal
from windrow.cli.options import load_settings, settings_options
from windrow.errors import DatabaseUnreachable, Interrupted
from windrow.kafka.clients import check_own_topics, widen_position_topic
from windrow.relay import Relay
from windrow.relay.registry import Registry
from windrow.relay.status import status
from windrow.settings import Settings

_LOOK_EVERY: Final = 0.25
_PATIENCE: Final = 10.0
_REPORT_EVERY: Final = 2.0


@click.command()
@click.argument("number", type=click.IntRange(1, 1024))
@settings_options
@click.option("--master", help="Spark's master, for example spark://host:7077.  [default: local[*]]")
def reshard(config: Path | None, number: int, master: str | None, **options: Any) -> None:
    """Change the relay's number of shards to NUMBER, without losing, doubling or reordering a message.

    All shards first publish what is committed by now; then the new ones go on from there. Applications go on writing
    meanwhile. The relay that leads does it; if there is none, this command leads until it is done. Interrupted, it
    leaves the change to the next leader; give the old number to take it back.

    \b
    Examples:
      windrow reshard --config relay.yaml 4
      windrow reshard --name shop --data-source postgresql://relay@db/shop --bootstrap-servers kafka:9092 1
    """
    given = load_settings(config, spark={"master": master} if master else None, **options)
    settings = dataclasses.replace(given, shards=None)  # the file may name the old number, or the new one
    check_own_topics(settings, Registry(settings).fit_shards())
    widen_position_topic(settings, number)
    before = Registry(settings).want_shards(number)
    if before == number:
        click.echo(f"relay {settings.name} has {number} shards", err=True)
        return
    if not _changed(settings, number):
        raise Interrupted(f"not done yet: the next leader of relay {settings.name} goes on with it")
    click.echo(f"relay {settings.name} has {number} shards instead of {before}", err=True)
    if given.shards not in {None, number}:
        click.echo(f"the settings say shards: {given.shards}; say {number} there, or leave it out", err=True)


def _changed(settings: Settings, number: int) -> bool:
    """Wait until the number is changed, by the relay that leads or by one of our own; False if told to end before."""
    patience = time.monotonic() + _PATIENCE
    if status(settings).leader_id and _seen(settings, number, lambda: time.monotonic() >= patience):
        return True
    with Relay(settings) as running:
        wanted = end_by_signal("leaving the change to the next leader")
        changed = _seen(settings, number, lambda: wanted.is_set() or running.wait(0))
    running.wait()
    return changed


def _seen(settings: Settings, number: int, over: Callable[[], bool]) -> bool:
    """Look until the number is changed or it is over, and say how much there is to do."""
    report_at = 0.0
    while not over():
        try:
            if Registry(settings).shards() == number:
                return True
            if time.monotonic() >= report_at:
                report_at = time.monotonic() + _REPORT_EVERY
                click.echo(f"draining: {status(settings).backlog:,} messages wait", err=True)
        except (Interrupted, DatabaseUnreachable):  # the relay itself reports it
            pass
        time.sleep(_LOOK_EVERY)
    return False
