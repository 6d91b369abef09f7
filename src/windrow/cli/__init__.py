"""The command `windrow`: data on stdout, talk on stderr.

Exit status: 0 it went well, 1 it did not, 2 a mistake that the message tells how to mend.
"""

import logging
import sys
import traceback
from typing import Final

import click

from windrow.cli.bench import bench
from windrow.cli.dead_letters import dead_letters
from windrow.cli.demo import demo
from windrow.cli.doctor import doctor
from windrow.cli.inbox import inbox
from windrow.cli.init import init
from windrow.cli.pump import pump
from windrow.cli.purge import purge
from windrow.cli.relay import relay
from windrow.cli.repair import repair
from windrow.cli.republish import republish
from windrow.cli.reshard import reshard
from windrow.cli.servers import servers
from windrow.cli.status import show_status
from windrow.errors import UserError, WindrowError

_LOG_FORMAT: Final = "%(asctime)s %(levelname)-7s %(message)s"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="windrow")
@click.option(
    "--debug",
    is_flag=True,
    envvar="WINDROW_DEBUG",
    show_envvar=True,
    help="Log more; show where an error came from.",
)
def windrow(debug: bool) -> None:  # noqa: FBT001 - a flag
    """From a database commit to a consumer's acknowledgement.

    Applications write messages to an outbox inside their own transactions; the relay publishes them to Kafka, exactly
    once and in order, with its work on Spark.

    \b
    First steps:
      windrow demo                          see it work, on servers of its own
      windrow init --config relay.yaml      create the outbox and enter the relay
      windrow doctor --config relay.yaml    check that everything is as it should be
      windrow relay --config relay.yaml     publish
    """
    logging.basicConfig(level=logging.WARNING, format=_LOG_FORMAT, datefmt="%H:%M:%S", stream=sys.stderr)
    logging.getLogger("windrow").setLevel(logging.DEBUG if debug else logging.INFO)


for command in (
    bench,
    dead_letters,
    demo,
    doctor,
    inbox,
    init,
    pump,
    purge,
    relay,
    repair,
    republish,
    reshard,
    servers,
    show_status,
):
    windrow.add_command(command)


def main() -> None:
    """Run the command line; an error becomes a sentence and an exit status, with --debug also a stack trace."""
    try:
        windrow(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("windrow: interrupted", err=True)
        sys.exit(130)
    except WindrowError as error:
        if logging.getLogger("windrow").isEnabledFor(logging.DEBUG):
            traceback.print_exc()
        click.echo(f"windrow: {error}", err=True)
        sys.exit(2 if isinstance(error, UserError) else 1)
