"""`windrow demo`: the main job on embedded servers, and a verdict on what came out of it."""

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

import click
from rich.console import Console

from windrow import embedded
from windrow.cli.figures import live_figures, row_of
from windrow.cli.interrupt import end_by_signal
from windrow.cli.shop import Customer, OrderService, create_shop
from windrow.lab.checkers import Verdict, judge
from windrow.relay import Relay
from windrow.relay.setup import prepare
from windrow.settings import Settings

_SETTLE_WITHIN: Final = 30.0
_REFRESH: Final = 0.5


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(min=1), default=30.0, show_default=True, help="How long orders are taken."
)
@click.option("--rate", type=click.IntRange(1), default=500, show_default=True, help="Orders per second.")
@click.option(
    "--writers", type=click.IntRange(1), default=4, show_default=True, help="Connections that orders come in on."
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one JSON object on stdout.")
def demo(seconds: float, rate: int, writers: int, as_json: bool) -> None:  # noqa: FBT001 - a flag
    """See it work: an order service, the relay on Spark, a consumer, a verdict.

    Starts a PostgreSQL, a Kafka broker and Spark of its own. The service writes each order and its message in one
    transaction, and rolls some of them back; the relay publishes; a consumer that reads committed receives. Ends after
    --seconds, or at Ctrl-C. Exit status 0 only if no message was lost, duplicated, reordered or phantom (rolled
    back but received).

    \b
    Examples:
      windrow demo
      windrow demo --seconds 120 --rate 2000 --writers 8
      windrow demo --seconds 5 --json
    """
    talk = Console(stderr=True, highlight=False)
    with ExitStack() as stack:
        stack.callback(talk.print, "stopped: relay, Spark, Kafka, PostgreSQL", style="dim")
        postgres, kafka = embedded.Postgres(), embedded.Kafka()
        talk.print("starting PostgreSQL …", style="dim")
        stack.enter_context(postgres)
        talk.print("starting Kafka …", style="dim")
        stack.enter_context(kafka)
        settings = Settings.load(
            environment={}, name="demo", data_source=postgres.url, base_kafka_config=kafka.client_config
        )
        prepare(settings)
        create_shop(settings)
        relay = Relay(settings)
        talk.print("starting Spark local[*] …", style="dim")
        stack.enter_context(relay)
        over = end_by_signal("ending early")
        with Customer(settings) as customer:
            service = OrderService(settings, rate, writers)
            talk.print("waiting for the first message to come through …", style="dim")
            service.place_one()
            _wait(lambda: customer.count == 1, relay)
            talk.print(f"taking orders for {seconds:.0f} s …", style="dim")
            with service, live_figures(talk) as show:
                ends_at = time.monotonic() + seconds
                while (left := ends_at - time.monotonic()) > 0 and not over.wait(min(left, _REFRESH)):
                    relay.wait(0)
                    show(f"windrow demo, {left:.0f} s to go", _figures(service, customer, relay))
            talk.print("waiting for the last messages …", style="dim")
            _wait(lambda: customer.count >= service.committed, relay)
            customer.linger()
        verdict = judge(service.history, customer.received)
    _show(verdict, talk, as_json=as_json)
    sys.exit(0 if verdict.sound else 1)


def _wait(condition: Callable[[], bool], relay: Relay) -> None:
    """Wait until the condition holds; give up in time, and leave it to the verdict what that means."""
    deadline = time.monotonic() + _SETTLE_WITHIN
    while not condition() and time.monotonic() < deadline:
        relay.wait(0)
        time.sleep(0.05)


def _figures(service: OrderService, customer: Customer, relay: Relay) -> dict[str, str]:
    p50, p99 = customer.latencies(service.committed_at)
    return {
        "written": f"{service.committed:,}",
        "rolled back": f"{service.rolled_back:,}",
        "relayed": f"{relay.published():,}",
        "received": f"{customer.count:,}",
        "rate": f"{customer.rate():,.0f}/s",
        "p50": f"{p50:.1f} ms",
        "p99": f"{p99:.1f} ms",
        "leader": str(relay.leader_id)[:8],
    }


def _show(verdict: Verdict, talk: Console, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(verdict)))
        return
    figures = {name.replace("_", " "): f"{number:,}" for name, number in dataclasses.asdict(verdict).items()}
    talk.print(row_of("verdict", figures))
    talk.print("[green]exactly once, in order[/green]" if verdict.sound else "[red]not sound: see above[/red]")
