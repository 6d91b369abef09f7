"""`windrow bench`: measure windrow on this machine."""

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

import click
from rich.console import Console

from windrow.bench import (
    CAPTURES,
    FULL,
    FULL_INBOX,
    FULL_QUEUE,
    FULL_ROUNDS,
    QUICK,
    QUICK_INBOX,
    QUICK_QUEUE,
    QUICK_ROUNDS,
    keys,
    measure,
    measure_inbox,
    measure_queue,
    measure_writes,
    open_bed,
)

_FAULTS: Final = ("lost", "duplicated", "reordered")


@click.group()
def bench() -> None:
    """Measure windrow on this machine."""


@bench.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@click.option("--only", multiple=True, metavar="KEY…", help="Measure these figures alone, and what comes with them.")
@click.argument("more", nargs=-1, metavar="")
@click.option("--quick", is_flag=True, help="Small sizes, to see that it works: the figures mean little.")
@click.option(
    "--capture",
    type=click.Choice(CAPTURES),
    default="snapshot",
    show_default=True,
    help="Whose figures: those of the default, or those of mark or tail, against the default.",
)
@click.option("--database", metavar="URL", help="Measure on this PostgreSQL instead of an embedded one.")
@click.option("--kafka", metavar="SERVERS", help="Measure on these brokers instead of an embedded one.")
@click.option(
    "--partitions",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Partitions of the live loads' topic. T is measured with one.",
)
def relay(
    as_json: bool,  # noqa: FBT001 - a flag
    only: tuple[str, ...],
    more: tuple[str, ...],
    quick: bool,  # noqa: FBT001 - a flag
    capture: str,
    database: str | None,
    kafka: str | None,
    partitions: int,
) -> None:
    """Measure the relay: throughput, latency, cost; and whether anything was lost, duplicated or reordered.

    Starts a PostgreSQL, a Kafka broker and Spark of its own, and takes about ten minutes. On your own servers it
    creates tables and topics named windrow_bench_…, and removes them. What each figure means:
    docs/reference/benchmarks.md. Exit status 0 only if nothing was lost, duplicated or reordered.

    \b
    Examples:
      windrow bench relay --json
      windrow bench relay --only throughput_ratio hot_key_ratio
      windrow bench relay --capture mark
      windrow bench relay --database postgresql://app@db/scratch --kafka kafka:9092
    """
    if more and not only:
        raise click.UsageError(f"unexpected argument {more[0]}; name figures after --only")
    wanted = (*only, *more)
    if unknown := [key for key in wanted if key not in keys(capture)]:
        raise click.UsageError(f"no such figure: {', '.join(unknown)}; there are {', '.join(keys(capture))}")
    talk = Console(stderr=True, highlight=False)
    with open_bed(
        QUICK if quick else FULL,
        database,
        kafka,
        lambda line: talk.print(line, style="dim", soft_wrap=True),
        partitions,
    ) as bed:
        figures = measure(bed, wanted, capture)
    _show(figures, as_json=as_json)
    sys.exit(1 if any(figures[key] for key in _FAULTS) else 0)


@bench.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@click.option("--quick", is_flag=True, help="A few rounds, to see that it works: the figures mean little.")
@click.option("--database", metavar="URL", help="Measure on this PostgreSQL instead of an embedded one.")
def write(as_json: bool, quick: bool, database: str | None) -> None:  # noqa: FBT001 - flags
    """Measure the outbox's writer: write and write_many against the bare INSERT and the bare COPY.

    Starts a PostgreSQL of its own, and takes a minute. On your own server it creates tables named windrow_bench_…, and
    removes them. What each figure means: docs/reference/benchmarks.md.

    \b
    Examples:
      windrow bench write --json
      windrow bench write --database postgresql://app@db/scratch
    """
    talk = Console(stderr=True, highlight=False)
    rounds = QUICK_ROUNDS if quick else FULL_ROUNDS
    figures = measure_writes(database, rounds, lambda line: talk.print(line, style="dim", soft_wrap=True))
    _show(figures, as_json=as_json)


@bench.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@click.option("--quick", is_flag=True, help="Few messages, to see that it works: the figures mean little.")
@click.option("--database", metavar="URL", help="Measure on this PostgreSQL instead of an embedded one.")
@click.option("--kafka", metavar="SERVERS", help="Measure on these brokers instead of an embedded one.")
def inbox(as_json: bool, quick: bool, database: str | None, kafka: str | None) -> None:  # noqa: FBT001 - flags
    """Measure the consumer with an inbox against the bare upserts, and kill some consumers.

    Starts a PostgreSQL and a Kafka broker of its own, and takes two minutes. On your own servers it creates tables and
    a topic named windrow_bench_…, and removes them. What each figure means: docs/reference/benchmarks.md. Exit status 0
    only if no effect was doubled or missed.

    \b
    Examples:
      windrow bench inbox --json
      windrow bench inbox --database postgresql://app@db/scratch --kafka kafka:9092
    """
    talk = Console(stderr=True, highlight=False)
    size = QUICK_INBOX if quick else FULL_INBOX
    figures = measure_inbox(database, kafka, size, lambda line: talk.print(line, style="dim", soft_wrap=True))
    _show(figures, as_json=as_json)
    sys.exit(1 if figures["doubled"] or figures["missed"] else 0)


@bench.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@click.option("--quick", is_flag=True, help="Few messages, to see that it works: the figures mean little.")
@click.option("--kafka", metavar="SERVERS", help="Measure on these brokers instead of an embedded one.")
def queue(as_json: bool, quick: bool, kafka: str | None) -> None:  # noqa: FBT001 - flags
    """Measure queues: a consumer against other ways to take messages one by one, and the tracker.

    Starts a Kafka broker of its own, and takes about three minutes. On your own brokers it creates topics named
    windrow_bench_…, and removes them. What each figure means: docs/reference/benchmarks.md. Exit status 0 only if
    nothing was lost, handled twice, redelivered too early or delivered to another queue.

    \b
    Examples:
      windrow bench queue --json
      windrow bench queue --kafka kafka:9092
    """
    talk = Console(stderr=True, highlight=False)
    size = QUICK_QUEUE if quick else FULL_QUEUE
    figures = measure_queue(kafka, size, lambda line: talk.print(line, style="dim", soft_wrap=True))
    _show(figures, as_json=as_json)
    sys.exit(1 if any(figures[key] for key in ("lost", "handled_twice", "spurious", "wrong_queue")) else 0)


def _show(figures: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(figures))
    else:
        for key, figure in figures.items():
            click.echo(f"{key:24}{figure}")
