"""`windrow torture`: a relay, its standby and their servers under faults, and a verdict."""

import json
import secrets
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TextIO

import click
from rich.console import Console

from windrow.cli.interrupt import end_by_signal
from windrow.lab.clock import library
from windrow.lab.ground import TOPIC, open_ground
from windrow.lab.load import Load
from windrow.lab.nemesis import detection, faults, schedule
from windrow.lab.picture import page, timeline
from windrow.lab.report import RECOVERS_WITHIN, SOON, WRONG, TortureVerdict, verdict_on
from windrow.lab.torture import torture as run_torture


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0.1), default=10.0, show_default=True, help="How long.")
@click.option("--seed", type=int, help="Of the schedule and the load; one that was bad, to see it again.  [random]")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one JSON object on stdout.")
@click.option(
    "--database", type=click.Choice(["postgres", "mariadb"]), default="postgres", show_default=True, help="Which."
)
@click.option("--capture", type=click.Choice(["snapshot", "mark", "tail"]), help="As the setting.")
@click.option("--delivery", type=click.Choice(["exactly-once", "at-least-once"]), help="As the setting.")
@click.option("--election", type=click.Choice(["neli", "lease"]), help="As the setting.")
@click.option("--brokers", type=click.IntRange(1, 5), default=1, show_default=True, help="3: one may be lost.")
@click.option("--writers", type=click.IntRange(1), default=8, show_default=True, help="Connections that write.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Transactions a second, of all writers together.",
)
@click.option("--cluster", is_flag=True, help="Tasks run on a Spark cluster of two workers.")
@click.option("--queues", is_flag=True, help="With a queue that is fed by the outbox, two workers and a tracker.")
@click.option("--only", multiple=True, metavar="FAULT", help="Inject this fault alone; may be given again.")
@click.option(
    "--recover-within",
    type=click.FloatRange(min=0),
    default=RECOVERS_WITHIN,
    show_default=True,
    metavar="SECONDS",
    help="What a fault may cost past the time that detecting it takes; beyond it is unrecovered.",
)
@click.option(
    "--picture",
    type=click.File("w", lazy=False),
    help="Write the timeline here: as a page where the name ends in .html, otherwise as SVG.",
)
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="Keep journals and logs here.")
def torture(
    minutes: float,
    seed: int | None,
    as_json: bool,  # noqa: FBT001 - a flag
    brokers: int,
    writers: int,
    rate: float,
    cluster: bool,  # noqa: FBT001 - a flag
    queues: bool,  # noqa: FBT001 - a flag
    only: tuple[str, ...],
    recover_within: float,
    picture: TextIO | None,
    folder: Path | None,
    **settings: str | None,
) -> None:
    """Break everything that the relay stands on, at random, and judge what came out.

    Starts a database, Kafka, two relays, writers and a consumer with an inbox of its own. By a random schedule,
    processes are killed and paused, connections cut, delayed, throttled and left half-open, commits become slow, clocks
    step (with windrow[lab]), the relay is purged and resharded; writers go on writing. Then what was received is
    compared with what was committed. Exit status 0 only if nothing was lost, duplicated, reordered, phantom (rolled
    back but received), overtaken (an effect before its cause), misplaced (a position that is not where the log is),
    done twice or never by the consumer, or unrecovered. With --queues, nor if a worker got a message that another had
    acknowledged or still held, or a message that was never acknowledged.

    \b
    Examples:
      windrow torture --minutes 60 --picture torture.html --recover-within 3
      windrow torture --minutes 5 --seed 42 --only "leader killed" --only "broker paused"
      windrow torture --minutes 20 --brokers 3 --writers 200
      windrow torture --cluster --only "executors killed" --only "Spark worker killed"
      windrow torture --capture mark --delivery at-least-once --database mariadb
      windrow torture --queues --only "worker paused" --only "tracker killed" --only "broker killed"
    """
    possible = partial(
        faults,
        tails=settings["capture"] == "tail",
        brokers=brokers,
        clocks=library() is not None,
        cluster=cluster,
        queues=queues,
    )
    names = tuple(possible(0.0))
    if unknown := [name for name in only if name not in names]:
        raise click.BadParameter(f"no fault {unknown[0]!r}; there are: {', '.join(names)}", param_hint="--only")
    talk = Console(stderr=True, highlight=False, soft_wrap=True)
    place = folder or Path(tempfile.mkdtemp(prefix="windrow-torture-"))
    place.mkdir(parents=True, exist_ok=True)
    load = Load(TOPIC, secrets.randbelow(1_000_000) if seed is None else seed, writers, rate, queues)
    talk.print(f"seed {load.seed}; journals and logs in {place}")
    with open_ground(place, load, talk.print, brokers=brokers, on_cluster=cluster, **settings) as ground:
        ground.over = end_by_signal("ending early")
        steps = schedule(load.seed, minutes, [name for name in names if name in only] or names)
        run = run_torture(ground, steps, possible(detection(ground.settings)), minutes * 60, talk.print)
    verdict = verdict_on(run, TOPIC, recover_within)
    if picture:
        picture.write((page if picture.name.endswith(".html") else timeline)(run))
        talk.print(f"timeline in {picture.name}")
    _show(verdict, talk, as_json=as_json)
    if verdict.sound and folder is None:
        shutil.rmtree(place)
    sys.exit(0 if verdict.sound else 1)


def _show(verdict: TortureVerdict, talk: Console, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(verdict.as_dict()))
    slowest = "".join(f"\n  {seconds:5.1f} s  {name}" for name, seconds in list(verdict.recoveries.items())[:5])
    talk.print(
        f"{sum(verdict.faults.values())} faults; {verdict.written:,} messages committed, {verdict.received:,} received,"
        f" {verdict.unknown:,} transactions of unknown outcome"
    )
    talk.print(", ".join(f"{name} {getattr(verdict, name)}" for name in WRONG))
    if late := ", ".join(f"{count} {name}" for name, count in verdict.repeated_late.items()):
        talk.print(f"repeated late, as at least once what was held up may be: {late}")
    talk.print(f"recoveries of more than {SOON:.0f} s past detection: {verdict.late_recoveries}; the slowest:{slowest}")
    if verdict.sound:
        talk.print("[green]sound[/green]")
    elif verdict.wrong:
        talk.print(f"[red]not sound; again with --seed {verdict.seed}[/red]")
    else:
        talk.print("[red]nothing was tried; give it more time with --minutes[/red]")
