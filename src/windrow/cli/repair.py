"""`windrow repair`: make a relay's positions and rows belong to the database that they are in."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import click

from windrow.cli.options import load_settings, settings_options
from windrow.relay.repair import Findings, Repair


@click.command()
@settings_options
@click.option("--yes", is_flag=True, help="Do it. Without this, only say what is wrong and what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as one JSON object on stdout.")
def repair(config: Path | None, yes: bool, as_json: bool, **options: Any) -> None:  # noqa: FBT001 - flags
    """Mend what stopped a relay with PositionForeign: a restored dump, another cluster, a database set back.

    Rows that were restored get transaction numbers of this cluster, and the relay a position in it. What was published
    before, as far as the old position tells, does not come again; what waits is published. No row is skipped.
    Applications may go on writing meanwhile; the relay and its standbys must not run.

    Exit status: 0 nothing is wrong, or it was mended; 1 something is wrong and --yes was not given.

    \b
    Examples:
      windrow repair --config relay.yaml            say what is wrong
      windrow repair --config relay.yaml --yes      mend it
    """
    work = Repair(load_settings(config, **options))
    findings = work.mend() if yes else work.look()
    mended = yes and bool(findings.reasons)
    if as_json:
        click.echo(json.dumps({**dataclasses.asdict(findings), "mended": mended}))
    _tell(findings, mended=mended)
    sys.exit(1 if findings.reasons and not yes else 0)


def _tell(findings: Findings, *, mended: bool) -> None:
    if not findings.reasons:
        click.echo("nothing is wrong: positions and rows belong to this database", err=True)
        return
    for reason in findings.reasons:
        click.echo(reason, err=True)
    click.echo(
        f"rows that came from another cluster and were published, not to come again: {findings.published:,}\n"
        f"rows that came from another cluster and wait: {findings.waiting:,}\n"
        f"rows written in this cluster, to be published, again where they were before: {findings.native:,}",
        err=True,
    )
    click.echo("mended: start the relay" if mended else "nothing was changed; --yes mends it", err=True)
