"""The command `windrow`: data on stdout, talk on stderr.

Exit status: 0 it went well, 1 it did not, 2 a mistake that the message tells how to mend, 130 and 143 interrupted.
"""

import logging
import os
import sys
import traceback
from typing import Final, NoReturn

import click

from windrow.cli.interrupt import interruption_of, unwound_by_signal
from windrow.cli.on_demand import OnDemand
from windrow.errors import UserError, WindrowError
from windrow.extras import extra_of
from windrow.observe.logs import FORMATS, VARIABLE, configure

_PLACES: Final = {
    "bench": "bench:bench",
    "completion": "completion:completion",
    "dashboard": "dashboard:dashboard",
    "dead-letters": "dead_letters:dead_letters",
    "demo": "demo:demo",
    "doctor": "doctor:doctor",
    "inbox": "inbox:inbox",
    "init": "init:init",
    "pump": "pump:pump",
    "purge": "purge:purge",
    "queue": "queue:queue",
    "relay": "relay:relay",
    "repair": "repair:repair",
    "republish": "republish:republish",
    "reshard": "reshard:reshard",
    "servers": "servers:servers",
    "status": "status:show_status",
    "torture": "torture:torture",
}


@click.group(
    cls=OnDemand,
    places={name: (f"{__name__}.{place}", extra_of(name)) for name, place in _PLACES.items()},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="windrow")
@click.option(
    "--debug",
    is_flag=True,
    envvar="WINDROW_DEBUG",
    show_envvar=True,
    help="Log more; show where an error came from.",
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="human",
    show_default=True,
    envvar=VARIABLE,
    show_envvar=True,
    help="The log, on stderr: for people, or one JSON object a line.",
)
def windrow(debug: bool, log_format: str) -> None:  # noqa: FBT001 - a flag
    """From a database commit to a consumer's acknowledgement.

    Applications write messages to an outbox inside their own transactions; the relay publishes them to Kafka, exactly
    once and in order, with its work on Spark.

    \b
    First steps:
      windrow demo                          see it work, on servers of its own
      windrow init --config relay.yaml      create the outbox and enter the relay
      windrow doctor --config relay.yaml    check that everything is as it should be
      windrow relay --config relay.yaml     publish

    \b
    Exit status: 0 it went well; 1 it did not; 2 a mistake, and the message tells how to mend it; 130 interrupted by
    Ctrl-C, 143 by SIGTERM.
    """
    configure(log_format, debug=debug)
    os.environ[VARIABLE] = log_format  # for Spark's tasks on this machine


def main() -> None:
    """Run the command line; an error becomes a sentence and an exit status, with --debug also a stack trace."""
    try:
        with unwound_by_signal():
            windrow(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as error:
        _end_interrupted(error)
    except BrokenPipeError:
        # Whoever read our output has had enough; what is left of it goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except Exception as error:
        _trace_if_debugging()
        if interruption_of(error):  # what was closed on the way out was in the middle of something
            click.echo(f"on the way out: {type(error).__name__}: {error}", err=True)
            _end_interrupted(error)
        if not isinstance(error, WindrowError):
            raise
        click.echo("\n  ".join([f"windrow: {error}", *error.__notes__]), err=True)
        sys.exit(2 if isinstance(error, UserError) else 1)


def _end_interrupted(error: BaseException) -> NoReturn:
    click.echo("windrow: interrupted", err=True)
    told = interruption_of(error)
    sys.exit(told.status if told else 130)


def _trace_if_debugging() -> None:
    if logging.getLogger("windrow").isEnabledFor(logging.DEBUG):
        traceback.print_exc()
