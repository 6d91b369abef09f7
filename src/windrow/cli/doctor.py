"""`windrow doctor`: what is wrong with a setup, and what to do about it."""

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.text import Text

from windrow.cli.options import load_settings, settings_options
from windrow.doctor import Finding, Verdict, examine, examine_machine
from windrow.errors import SettingsInvalid

_STYLES: Final[dict[Verdict, str]] = {"ok": "green", "info": "cyan", "warning": "yellow", "failed": "bold red"}


@click.command()
@settings_options
@click.option("--topic", "topics", multiple=True, help="Look at this topic, too, and not only at those that wait.")
@click.option("--spark", "start_spark", is_flag=True, help="Start Spark and run a Python worker, which takes a while.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def doctor(
    config: Path | None,
    topics: tuple[str, ...],
    start_spark: bool,  # noqa: FBT001 - a flag
    as_json: bool,  # noqa: FBT001 - a flag
    **options: Any,
) -> None:
    """Check a setup: Java, Spark, settings, database, Kafka, rights, topics, positions; each with its remedy.

    One line a check: ok, info (could not be checked, or is for you to know), warning (works, at a risk) or failed. It
    goes on after a failure where that makes sense. It changes nothing, and may be run beside a relay: it begins one
    Kafka transaction, under an id of its own, and aborts it.

    Exit status 0 if nothing failed, 1 if something did, 2 if the settings are wrong.

    \b
    Examples:
      windrow doctor --config relay.yaml
      windrow doctor --config relay.yaml --topic orders --spark
      windrow doctor --config relay.yaml --json | jq '.findings[] | select(.verdict != "ok")'
    """
    try:
        settings = load_settings(config, **options)
    except SettingsInvalid as error:
        wrong = [Finding("settings", "failed", mistake) for mistake in error.mistakes]
        _show(chain(examine_machine({}), wrong), as_json=as_json)
        sys.exit(2)
    valid = Finding("settings", "ok", "are valid")
    findings = chain(examine_machine(settings.spark), [valid], examine(settings, topics, start_spark=start_spark))
    sys.exit(1 if _show(findings, as_json=as_json)["failed"] else 0)


def _show(findings: Iterable[Finding], *, as_json: bool) -> dict[Verdict, int]:
    """Show each as soon as it is found, or all as JSON; returns how many there are of each verdict."""
    found = list(findings if as_json else _printed(findings))
    counts: dict[Verdict, int] = dict.fromkeys(_STYLES, 0)
    for each in found:
        counts[each.verdict] += 1
    if as_json:
        click.echo(json.dumps({**counts, "findings": [dataclasses.asdict(each) for each in found]}))
    else:
        click.echo(f"{counts['failed']} failed, {counts['warning']} warnings", err=True)
    return counts


def _printed(findings: Iterable[Finding]) -> Iterator[Finding]:
    console = Console(highlight=False)
    for each in findings:
        line = Text(f"{each.verdict:8}", style=_STYLES[each.verdict])
        line.append(f"{each.check:20}", style="default not bold").append(str(each), style="default not bold")
        console.print(line, soft_wrap=True)
        yield each
