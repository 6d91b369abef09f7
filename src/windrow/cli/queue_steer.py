"""`windrow queue list, show, peek, pause, resume, drain, dead-letters, replay`: see how queues are, and steer them."""

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from windrow.cli.queue_options import load_queue_settings, queue_options
from windrow.cli.values import time_of
from windrow.queue.control import pause, resume
from windrow.queue.dead_letter import QueueLetter, dead_letters, discard, replay
from windrow.queue.marker import number_of
from windrow.queue.overview import Overview, QueueFigures, overview, waiting
from windrow.queued import ATTEMPT, OURS

_LOOK_EVERY: Final = 1.0
_SURELY: Final = 2
"""Looks in a row that find nothing: one alone may miss a message that is being taken, or redelivered."""
_FIGURES: Final = ("depth", "in_flight", "delayed", "oldest_age", "redelivered", "dead_letters", "consumers")

as_json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object a line, on stdout.")


@click.command("list")
@queue_options
@as_json_option
def list_queues(config: Path | None, as_json: bool, **options: Any) -> None:  # noqa: FBT001 - a flag
    """List all queues: what waits, what is in flight, for how long, and who consumes.

    Reads the queue topic as far back as it goes, to find queues that nobody consumes; name a queue to `show` for less.

    \b
    Examples:
      windrow queue list --bootstrap-servers localhost:9092
      windrow queue list --config queues.yaml --json | jq 'select(.depth > 1000)'
    """
    settings = load_queue_settings(config, **options)
    with _progress("reading the queue topic") as progress:
        figures = overview(settings, None, progress)
    _print_figures(figures, as_json=as_json)


@click.command()
@click.argument("queues", nargs=-1, required=True, metavar="QUEUE…")
@queue_options
@as_json_option
def show(config: Path | None, queues: tuple[str, ...], as_json: bool, **options: Any) -> None:  # noqa: FBT001 - a flag
    """Show how some queues are.

    \b
    Examples:
      windrow queue show emails
      windrow queue show emails invoices --json
    """
    settings = load_queue_settings(config, **options)
    with _progress("reading what waits") as progress:
        figures = overview(settings, queues, progress)
    _print_figures(figures, as_json=as_json)


@click.command()
@click.argument("queue")
@queue_options
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="So many at most.")
@as_json_option
def peek(config: Path | None, queue: str, limit: int, as_json: bool, **options: Any) -> None:  # noqa: FBT001 - a flag
    """Look at the messages that wait, oldest first in each partition, without taking them.

    \b
    Examples:
      windrow queue peek emails
      windrow queue peek emails --limit 100 --json | jq .payload
    """
    settings, found = load_queue_settings(config, **options), 0
    for record in islice(waiting(settings, queue), limit):
        found += 1
        headers = record.headers
        line = {
            "queue": queue,
            "partition": record.partition,
            "offset": record.offset,
            "sent": _moment(record.timestamp),
            "attempt": number_of(headers, ATTEMPT) or 1,
            "headers": {name: _plain(value) for name, value in headers if name not in OURS},
            "payload": _plain(record.value),
        }
        if as_json:
            click.echo(json.dumps(line))
        else:
            click.echo(f"{line['sent']}  attempt {line['attempt']}  {line['payload']}")
    if not found:
        click.echo(f"nothing waits in queue {queue}", err=True)


@click.command("pause")
@click.argument("queue")
@queue_options
def pause_queue(config: Path | None, queue: str, **options: Any) -> None:
    """Have all consumers of a queue stop taking messages, and hand back what they have not begun with.

    Messages can still be sent. What handlers are at work on, they finish.

    \b
    Example:
      windrow queue pause emails
    """
    pause(load_queue_settings(config, **options), queue)
    click.echo(f'queue {queue} is paused; "windrow queue resume {queue}" lets it go on', err=True)


@click.command("resume")
@click.argument("queue")
@queue_options
def resume_queue(config: Path | None, queue: str, **options: Any) -> None:
    """Have the consumers of a paused queue go on.

    \b
    Example:
      windrow queue resume emails
    """
    resume(load_queue_settings(config, **options), queue)
    click.echo(f"queue {queue} goes on", err=True)


@click.command()
@click.argument("queue")
@queue_options
@click.option("--timeout", metavar="TIME", help="Give up after this: 30s, 5m.  [default: wait for ever]")
def drain(config: Path | None, queue: str, timeout: str | None, **options: Any) -> None:
    """Wait until a queue is empty: nothing waits, is delayed or in flight. For before a shutdown or a move.

    Exit status 0 when it is empty, 1 when it is not in time.

    \b
    Examples:
      windrow queue drain emails
      windrow queue drain emails --timeout 5m
    """
    settings = load_queue_settings(config, **options)
    deadline = time.monotonic() + time_of("timeout", timeout).total_seconds() if timeout else None
    talk, told = Console(stderr=True, highlight=False), ""
    kept, empty = Overview(settings, [queue]), 0
    while True:
        (now,) = kept.look()
        left = f"{now.depth:,} wait, {now.delayed:,} are delayed, {now.in_flight:,} in flight"
        empty = 0 if now.depth or now.delayed or now.in_flight else empty + 1
        if empty == _SURELY:
            talk.print(f"queue {queue} is empty")
            return
        if left != told and not empty:
            told = left
            talk.print(f"queue {queue}: {left}{_hindrance(now)}")
        if deadline and time.monotonic() > deadline and not empty:
            talk.print(f"queue {queue} is not empty after {timeout}")
            sys.exit(1)
        time.sleep(_LOOK_EVERY)


@click.command("dead-letters")
@click.argument("queue", required=False)
@queue_options
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="So many at most.")
@click.option("--discard", "gone", multiple=True, metavar="ID", help="Let go of this letter for good; may be repeated.")
@as_json_option
def dead_letters_of(
    config: Path | None,
    queue: str | None,
    limit: int,
    gone: tuple[str, ...],
    as_json: bool,  # noqa: FBT001 - a flag
    **options: Any,
) -> None:
    """List messages that will not be delivered any more, with the reason: of one queue, or of all.

    \b
    Examples:
      windrow queue dead-letters
      windrow queue dead-letters emails --json
      windrow queue dead-letters emails --discard 0-17
    """
    settings = load_queue_settings(config, **options)
    if gone:
        if not queue:
            raise click.UsageError("name the queue whose letters are to go")
        click.echo(f"{discard(settings, queue, gone)} letters discarded", err=True)
        return
    letters = list(islice(dead_letters(settings, queue), limit))
    if as_json:
        for letter in letters:
            click.echo(json.dumps(_letter(letter)))
    elif letters:
        Console().print(_letters_table(letters))
    else:
        click.echo("no dead letters", err=True)


@click.command("replay")
@click.argument("queue")
@click.argument("ids", nargs=-1, metavar="[ID…]")
@click.option("--all", "everything", is_flag=True, help="All of the queue's dead letters.")
@queue_options
def replay_letters(config: Path | None, queue: str, ids: tuple[str, ...], everything: bool, **options: Any) -> None:  # noqa: FBT001 - a flag
    """Send dead letters back to their queue, with their attempts counted from one.

    \b
    Examples:
      windrow queue replay emails --all
      windrow queue replay emails 0-17 2-4
    """
    if everything == bool(ids):
        raise click.UsageError("name the dead letters by their ids, or give --all")
    settings = load_queue_settings(config, **options)
    count = replay(settings, queue, None if everything else ids, _counted("sent back"))
    click.echo(f"{count} letters are back in queue {queue}", err=True)


STEER: Final[Sequence[click.Command]] = (
    list_queues,
    show,
    peek,
    pause_queue,
    resume_queue,
    drain,
    dead_letters_of,
    replay_letters,
)


def _hindrance(now: QueueFigures) -> str:
    if now.paused:
        return "; it is paused"
    return "" if now.consumers else "; it has no consumers"


def _print_figures(figures: Collection[QueueFigures], *, as_json: bool) -> None:
    if as_json:
        for each in figures:
            click.echo(json.dumps(dataclasses.asdict(each)))
        return
    if not figures:
        click.echo("no queues", err=True)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("queue", overflow="fold")
    for name in _FIGURES:
        table.add_column(name.replace("_", " "), justify="right")
    for each in figures:
        row = [getattr(each, name) for name in _FIGURES]
        shown = [
            f"{figure:,.0f} s" if name == "oldest_age" else f"{figure:,}"
            for name, figure in zip(_FIGURES, row, strict=True)
        ]
        table.add_row(f"{each.queue} (paused)" if each.paused else each.queue, *shown)
    Console().print(table)


def _letters_table(letters: Sequence[QueueLetter]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("id", "queue", "died", "attempts", "reason", "payload"):
        table.add_column(heading, justify="right" if heading == "attempts" else "left")
    for each in letters:
        payload = _plain(each.payload) or ""
        short = payload if len(payload) <= 60 else f"{payload[:59]}…"
        table.add_row(each.id, each.queue, _moment(each.died_at), str(each.attempts), each.reason, short)
    return table


def _letter(letter: QueueLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "queue": letter.queue,
        "died": _moment(letter.died_at),
        "attempts": letter.attempts,
        "reason": letter.reason,
        "headers": {name: _plain(value) for name, value in letter.headers if name not in OURS},
        "payload": _plain(letter.payload),
    }


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")


def _plain(content: bytes | None) -> str | None:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"0x{content.hex()}"


@contextmanager
def _progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; elsewhere nothing."""
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _counted(what: str) -> Callable[[int], None]:
    return lambda count: click.echo(f"  {count:,} {what} …", err=True)
