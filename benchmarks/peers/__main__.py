"""`python -m benchmarks.peers`: windrow against its peers, on this machine."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from benchmarks.peers.loads import FULL, QUICK
from benchmarks.peers.measure import LOAD_NAMES, Plan, measure
from benchmarks.peers.plot import plot
from benchmarks.peers.report import figures, page, ratios, table, verdicts
from windrow import bench

_PAGE: Final = "peers.md"
_PICTURE: Final = "peers.svg"
_JSON: Final = "peers.json"


@click.command()
@click.option("--quick", is_flag=True, help="Small sizes, to see that it works: the figures mean little.")
@click.option("--load", "loads", multiple=True, type=click.Choice(LOAD_NAMES), help="This load alone; may be repeated.")
@click.option("--contender", "names", multiple=True, help="This contender alone; may be repeated.")
@click.option("--partitions", type=click.IntRange(1), default=4, show_default=True, help="Partitions of the topics.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("artifacts/peers"),
    show_default=True,
    help=f"Folder for {_JSON}.",
)
@click.option(
    "--docs",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Folder for {_PAGE} and {_PICTURE}.  [default: that of --out]",
)
def main(
    quick: bool,  # noqa: FBT001 - a flag
    loads: tuple[str, ...],
    names: tuple[str, ...],
    partitions: int,
    out: Path,
    docs: Path | None,
) -> None:
    """Measure windrow against its peers: a table on stdout, figures as JSON, a picture, and a page.

    Starts a PostgreSQL, a Kafka broker, Kafka Connect and Spark of its own, and takes about 35 minutes.
    """
    talk = Console(stderr=True, highlight=False)
    plan = Plan(QUICK if quick else FULL, bench.QUICK if quick else bench.FULL, partitions, loads, names)
    runs, about, contenders = measure(plan, lambda line: talk.print(line, style="dim", soft_wrap=True))
    measured = figures(runs)
    found = [*ratios(measured)]
    result = about | {
        "runs": [asdict(run) for run in runs],
        "ratios": [asdict(ratio) | {"met": ratio.met} for ratio in found],
    }
    for folder in (out, docs or out):
        folder.mkdir(parents=True, exist_ok=True)
    (out / _JSON).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    ((docs or out) / _PICTURE).write_text(plot(measured), encoding="utf-8")
    ((docs or out) / _PAGE).write_text(page(result, measured, contenders, _PICTURE), encoding="utf-8")
    click.echo(table(measured))
    for line in verdicts(found):
        click.echo(line)


if __name__ == "__main__":
    main()
