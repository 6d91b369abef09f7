"""`windrow dead-letters`: look at messages that Kafka refused, and retry or discard them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from windrow.cli.options import load_settings, settings_options
from windrow.errors import UserError
from windrow.publish.dead_letter import DeadLetter, DeadLetters
from windrow.settings import Settings


@click.group("dead-letters")
def dead_letters() -> None:
    """Messages that Kafka refused for good, with the reason.

    The relay puts them aside and goes on; with poison: block-key also what comes after them of their keys. Mend the
    cause, then retry them: the relay publishes them, in their order, under their old ids (x-sequence).

    \b
    Examples:
      windrow dead-letters list --config relay.yaml
      windrow dead-letters show --config relay.yaml 4711
      windrow dead-letters retry --config relay.yaml --all
      windrow dead-letters discard --config relay.yaml 4711 4712
    """


@dead_letters.command("list")
@settings_options
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="So many at most, oldest first.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, on stdout.")
def list_letters(config: Path | None, limit: int, as_json: bool, **options: Any) -> None:  # noqa: FBT001 - a flag
    """List dead letters, oldest first.

    \b
    Examples:
      windrow dead-letters list --config relay.yaml
      windrow dead-letters list --config relay.yaml --limit 1000 --json | jq .reason
    """
    letters = DeadLetters(load_settings(config, **options)).list(limit)
    if as_json:
        for letter in letters:
            click.echo(json.dumps(letter._asdict(), default=_plain))
    elif letters:
        Console().print(_table(letters))
    else:
        click.echo("no dead letters", err=True)


@dead_letters.command()
@click.argument("number", type=int)
@settings_options
def show(config: Path | None, number: int, **options: Any) -> None:
    """Show one dead letter whole, as JSON; bytes that are no text are shown in hexadecimal.

    \b
    Example:
      windrow dead-letters show --config relay.yaml 4711
    """
    letter = DeadLetters(load_settings(config, **options)).show(number)
    if letter is None:
        raise UserError(f"there is no dead letter {number}: windrow dead-letters list shows which there are")
    click.echo(json.dumps(letter._asdict(), default=_plain, indent=2))


@dead_letters.command()
@click.argument("numbers", type=int, nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All of the relay's dead letters.")
@settings_options
def retry(config: Path | None, numbers: tuple[int, ...], everything: bool, **options: Any) -> None:  # noqa: FBT001 - a flag
    """Have dead letters published after all, in their order, by the relay that runs or by the next one.

    With poison: block-key the whole key goes on: the refused message first, then what waits behind it, then what comes
    later. What is refused again is a dead letter again.

    \b
    Examples:
      windrow dead-letters retry --config relay.yaml 4711 4712
      windrow dead-letters retry --config relay.yaml --all
    """
    settings, chosen = load_settings(config, **options), _chosen(numbers, everything=everything)
    count = DeadLetters(settings).retry(chosen)
    click.echo(f"{count} messages are released; the relay publishes them{_and_behind(settings)}", err=True)


@dead_letters.command()
@click.argument("numbers", type=int, nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All of the relay's dead letters.")
@settings_options
def discard(config: Path | None, numbers: tuple[int, ...], everything: bool, **options: Any) -> None:  # noqa: FBT001 - a flag
    """Forget dead letters for good, except those that a retry has released.

    With poison: block-key, what waits behind them is published as if it had been retried.

    \b
    Examples:
      windrow dead-letters discard --config relay.yaml 4711 4712
      windrow dead-letters discard --config relay.yaml --all
    """
    settings, chosen = load_settings(config, **options), _chosen(numbers, everything=everything)
    count = DeadLetters(settings).discard(chosen)
    click.echo(f"{count} messages discarded{_and_behind(settings)}", err=True)


def _and_behind(settings: Settings) -> str:
    return ", and what waits behind them goes on" if settings.poison == "block-key" else ""


def _chosen(numbers: tuple[int, ...], *, everything: bool) -> list[int] | None:
    if everything == bool(numbers):
        raise click.UsageError("name the dead letters by their ids, or give --all")
    return None if everything else list(numbers)


def _table(letters: Sequence[DeadLetter]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("id", "topic", "key", "bytes", "refused", "reason"):
        table.add_column(heading, justify="right" if heading in {"id", "bytes"} else "left")
    for each in letters:
        size = "" if each.size is None else f"{each.size:,}"
        table.add_row(
            str(each.id),
            each.topic,
            _plain(each.key),
            size,
            f"{each.refused_at:%Y-%m-%d %H:%M:%S}",
            each.reason if each.release is None else "released, to be published",
        )
    return table


def _plain(content: Any) -> str:
    if isinstance(content, bytes):
        try:
            return content.decode()
        except UnicodeDecodeError:
            return f"0x{content.hex()}"
    return "" if content is None else str(content)
