"""`windrow queue tracker`: track what consumers do with the messages of queues. Apart, since it runs on Spark."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import click

from windrow.cli.interrupt import end_by_signal
from windrow.cli.options import metrics_address_option
from windrow.cli.queue_options import load_queue_settings, queue_options
from windrow.parse import Address
from windrow.queue.exposure import exposed
from windrow.queue.tracker import Tracker

_LOOK_EVERY: Final = 0.25


@click.command()
@queue_options
@click.option("--master", help="Spark's master, for example spark://host:7077.  [default: local[*]]")
@metrics_address_option
def tracker(config: Path | None, master: str | None, metrics_address: Address | None, **options: Any) -> None:
    """Redeliver what consumers have not acknowledged in time, until Ctrl-C or SIGTERM.

    Of several trackers of the same topics one works, and the others stand by.

    \b
    Example:
      windrow queue tracker --config queues.yaml
    """
    settings = load_queue_settings(config, spark={"master": master} if master else None, **options)
    with Tracker(settings) as running, exposed(running, metrics_address) if metrics_address else nullcontext():
        wanted = end_by_signal("stopping after the transactions in hand")
        while not wanted.wait(_LOOK_EVERY) and not running.wait(0):
            pass
    running.wait()
