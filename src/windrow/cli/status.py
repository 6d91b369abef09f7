"""`windrow status`: how a relay is."""

import dataclasses
import json
import time
from pathlib import Path
from threading import Event
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

from windrow.cli.interrupt import end_by_signal
from windrow.cli.options import load_settings, settings_options
from windrow.relay.status import Status, status
from windrow.settings import Settings


@click.command("status")
@settings_options
@click.option("--watch", is_flag=True, help="Look again and again, until Ctrl-C; shows the rate, too.")
@click.option(
    "--every", type=click.FloatRange(min=0.1), default=2.0, show_default=True, help="Seconds between two looks."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a look, on stdout.")
def show_status(config: Path | None, watch: bool, every: float, as_json: bool, **options: Any) -> None:  # noqa: FBT001 - flags
    """Show who leads, how far each shard is, what waits and for how long.

    \b
    Examples:
      windrow status --config relay.yaml
      windrow status --config relay.yaml --watch
      windrow status --config relay.yaml --json | jq .oldest_age
    """
    settings = load_settings(config, **options)
    now = status(settings)
    wanted = end_by_signal("ending") if watch else None
    if as_json:
        click.echo(_json(now))
        while wanted and not wanted.wait(every):
            click.echo(_json(status(settings)))
    elif wanted:
        _watch(settings, now, every, wanted)
    else:
        Console().print(_table(now, ""))


def _watch(settings: Settings, before: Status, every: float, over: Event) -> None:
    looked_at = time.monotonic()
    with Live(_table(before, ""), auto_refresh=False) as live:
        while not over.wait(every):
            now, moment = status(settings), time.monotonic()
            rate = (now.published - before.published) / (moment - looked_at)
            live.update(_table(now, f", {rate:,.0f} records/s"), refresh=True)
            before, looked_at = now, moment


def _json(now: Status) -> str:
    totals = {"published": now.published, "backlog": now.backlog, "oldest_age": now.oldest_age}
    log = now.log and now.log._asdict()
    return json.dumps({**dataclasses.asdict(now), "log": log, **totals}, default=str)


def _log(now: Status) -> str:
    """What waits in the database's log, where the relay tails that: there messages are not counted."""
    if now.log is None:
        return ""
    return f"; {now.log.unread / 1e6:,.1f} MB of the log unread, {now.log.held / 1e6:,.1f} MB held back"


def _table(now: Status, rate: str) -> Table:
    leader = f"led in term {now.leader_id}" if now.leader_id else "led by nobody"
    title = f"relay {now.name}, {leader}{rate}{_log(now)}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_footer=True)
    table.add_column("shard", "all", justify="right")
    table.add_column("published", f"{now.published:,}", justify="right")
    table.add_column("backlog", f"{now.backlog:,}", justify="right")
    table.add_column("in flight", f"{now.in_flight_records:,}", justify="right")
    table.add_column("oldest", f"{now.oldest_age:.1f} s", justify="right")
    for each in now.shards:
        counts = (each.published, each.backlog, each.in_flight_records)
        table.add_row(str(each.shard), *(f"{count:,}" for count in counts), f"{each.oldest_age:.1f} s")
    return table
