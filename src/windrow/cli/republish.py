"""`windrow republish`: publish again what is still kept."""

import json
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from windrow.cli.options import load_settings, settings_options
from windrow.embedded.progress import Progress
from windrow.parse import duration
from windrow.relay.republish import Found, Selection, find
from windrow.relay.republish import republish as write_anew
from windrow.settings import Settings

_RANGE: Final = re.compile(r"(\d{1,18})(?:(-)(\d{1,18})?)?")
_HIGHEST: Final = 2**63 - 1


def _ids(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    ranges = []
    for part in ",".join(values).split(",") if values else ():
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise click.BadParameter("give ids and ranges of ids, for example 4711 or 100-200,300 or 5000-")
        ranges.append((int(found[1]), int(found[3] or _HIGHEST) if found[2] else int(found[1])))
    return tuple(ranges)


def _moment(_context: click.Context, _option: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value).astimezone()
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.now().astimezone() - duration(value)
    except ValueError:
        raise click.BadParameter("give a time, as 2026-03-01T12:00, or how long ago, as 2h") from None


@click.command()
@settings_options
@click.option(
    "--id", "ids", metavar="IDS", multiple=True, callback=_ids, help="Ids and ranges of ids: 4711, 100-200, 5000-."
)
@click.option(
    "--since",
    metavar="TIME",
    callback=_moment,
    help="Written at this time or later: ISO (local, unless it says), or 2h ago.",
)
@click.option("--until", metavar="TIME", callback=_moment, help="Written before this time.")
@click.option("--topic", "topics", multiple=True, help="To this topic; may be given again.")
@click.option("--key", "keys", multiple=True, help="Of this key; may be given again.")
@click.option("--yes", is_flag=True, help="Do it without asking. Without it and without a terminal: a dry run.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def republish(
    config: Path | None,
    ids: tuple[tuple[int, int], ...],
    since: datetime | None,
    until: datetime | None,
    topics: tuple[str, ...],
    keys: tuple[str, ...],
    yes: bool,  # noqa: FBT001 - a flag
    as_json: bool,  # noqa: FBT001 - a flag
    **options: Any,
) -> None:
    """Publish messages again that were published and are still kept (purge.retention).

    First shows what would be published, then asks. The messages are written to the outbox anew, in their old order
    and with new ids, and are published after what was published before, also of their keys. Messages that still wait
    are left alone. What is selected is what all options together say; at least one is needed.

    \b
    Examples:
      windrow republish --config relay.yaml --since 2h --topic orders
      windrow republish --config relay.yaml --id 4711-4800 --yes
      windrow republish --config relay.yaml --key alice --since 2026-03-01T00:00+00:00 --json
    """
    selection = Selection(ids, since, until, topics, tuple(key.encode() for key in keys))
    if selection == Selection():
        raise click.UsageError("say which messages: --id, --since, --until, --topic or --key")
    settings = load_settings(config, **options)
    found = find(settings, selection)
    if not as_json and found.topics:
        Console().print(_table(found))
    wanted = bool(found.topics) and (yes or _confirmed(found, ask=not as_json and sys.stdin.isatty()))
    written = _write(settings, found) if wanted else 0
    if as_json:
        topic_rows = [each._asdict() for each in found.topics]
        click.echo(json.dumps({"messages": found.messages, "republished": written, "topics": topic_rows}, default=str))
    elif not found.topics:
        click.echo("no message that is published and still kept is selected", err=True)


def _confirmed(found: Found, *, ask: bool) -> bool:
    if ask:
        return click.confirm(f"Publish these {found.messages:,} messages again?", err=True)
    click.echo(f"dry run: {found.messages:,} messages would be published again; --yes does it", err=True)
    return False


def _write(settings: Settings, found: Found) -> int:
    written = upto = 0
    try:
        with Progress(f"republishing {found.messages:,} messages", found.messages) as progress:
            for chunk in write_anew(settings, found):
                written, upto = written + chunk.messages, chunk.upto
                progress.update(written)
            progress.finish()
    finally:
        click.echo(f"{written:,} messages, up to id {upto}, are in the outbox again", err=True)
    return written


def _table(found: Found) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("topic", "messages", "first id", "last id", "first written", "last written"):
        table.add_column(heading, justify="right" if heading.endswith(("id", "messages")) else "left")
    for each in found.topics:
        times = (f"{moment:%Y-%m-%d %H:%M:%S}" for moment in (each.first_time, each.last_time))
        table.add_row(each.topic, f"{each.messages:,}", str(each.first_id), str(each.last_id), *times)
    return table
