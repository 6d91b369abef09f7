"""`windrow pump`: put load on an outbox."""

import dataclasses
import json
import math
import time
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from windrow.bench.arrivals import Arrivals
from windrow.bench.pump import Load, Pump, Pumped
from windrow.cli.figures import live_figures, row_of
from windrow.cli.interrupt import end_by_signal
from windrow.cli.options import load_settings, settings_options
from windrow.database.connections import connect
from windrow.database.migrations import check
from windrow.database.tables import Tables
from windrow.kafka.clients import create_topic
from windrow.settings import Settings

_REFRESH: Final = 0.5
_SECONDS: Final = 10.0
_PARTITIONS: Final = 4


@click.command()
@settings_options
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Messages a second.  [default: all it can]")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help=f"How long.  [default: {_SECONDS:.0f}, unless --count is given]",
)
@click.option("--count", type=click.IntRange(min=1), help="How many messages, rolled back ones included.")
@click.option("--topic", default="windrow.pump", show_default=True, help="The messages' topic.")
@click.option("--keys", type=click.IntRange(min=1), default=1_000, show_default=True, help="Different keys.")
@click.option("--value-size", type=click.IntRange(min=0), default=200, show_default=True, help="Bytes of a value.")
@click.option("--headers", type=click.IntRange(min=0), default=0, show_default=True, help="Headers of a message.")
@click.option("--transaction", type=click.IntRange(min=1), default=1, show_default=True, help="Messages a transaction.")
@click.option(
    "--rollback", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="Share of transactions rolled back."
)
@click.option("--writers", type=click.IntRange(min=1), default=4, show_default=True, help="Connections.")
@click.option(
    "--create-topic/--no-create-topic",
    "may_create",
    default=True,
    show_default=True,
    help=f"Create the topic, with {_PARTITIONS} partitions, if it is missing; without it Kafka is not asked at all.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object on stdout.")
def pump(
    config: Path | None,
    rate: float | None,
    seconds: float | None,
    count: int | None,
    topic: str,
    keys: int,
    value_size: int,
    headers: int,
    transaction: int,
    rollback: float,
    writers: int,
    may_create: bool,  # noqa: FBT001 - a flag
    as_json: bool,  # noqa: FBT001 - a flag
    **options: Any,
) -> None:
    """Put load on an outbox: write messages to it, at a rate or as fast as it goes.

    Transactions arrive at random, at the rate on average, and the next free connection takes each. Ends after --seconds
    or --count, or at Ctrl-C, with a summary: messages committed and rolled back, the rate, and how long a COMMIT took.
    A relay that publishes the messages is a command of its own: see windrow relay, and windrow status --watch.

    \b
    Examples:
      windrow pump --config relay.yaml
      windrow pump --config relay.yaml --rate 1000 --seconds 60 --rollback 0.1
      windrow pump --config relay.yaml --count 1000000 --transaction 500      # a backlog
    """
    settings = load_settings(config, **options)
    load = Load(topic, keys, value_size, headers, transaction, rollback, count)
    load.messages(0)  # a topic that no message can have is a mistake before anything is written
    talk = Console(stderr=True, highlight=False)
    _prepare(settings, topic, talk, may_create=may_create)
    done = _pump(settings, load, talk, writers, rate, seconds or (None if count else _SECONDS))
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(done)))
    else:
        talk.print(row_of("pumped", _figures(done)))


def _prepare(settings: Settings, topic: str, talk: Console, *, may_create: bool) -> None:
    """Make sure that the outbox is there, and the topic, without which all would end as dead letters."""
    with connect(settings.data_source, "windrow pump") as connection:
        check(connection, Tables.of(settings))
    if may_create and create_topic(settings, topic, _PARTITIONS):
        talk.print(f"created topic {topic} with {_PARTITIONS} partitions", style="dim")


def _pump(
    settings: Settings, load: Load, talk: Console, writers: int, rate: float | None, seconds: float | None
) -> Pumped:
    over = end_by_signal("ending early")
    work = Pump(settings.outbox_table, load, settings.dialect)
    transactions_a_second = rate / load.transaction if rate else None
    arrivals = Arrivals(settings.data_source, work.write, writers, transactions_a_second, load.transactions)
    ends_at = time.monotonic() + seconds if seconds else math.inf
    with arrivals, live_figures(talk) as show:
        while arrivals.running and not over.wait(min(_REFRESH, max(0.0, ends_at - time.monotonic()))):
            done = work.pumped()
            show(f"windrow pump, {done.seconds:.0f} s", _figures(done))
            if time.monotonic() >= ends_at:
                break
    return work.pumped()


def _figures(done: Pumped) -> dict[str, str]:
    return {
        "committed": f"{done.committed:,}",
        "rolled back": f"{done.rolled_back:,}",
        **({"unknown": f"{done.unknown:,}"} if done.unknown else {}),
        "rate": f"{done.rate:,.0f}/s",
        "commit p50": f"{done.commit_p50_ms:.2f} ms",
        "p99": f"{done.commit_p99_ms:.2f} ms",
    }
