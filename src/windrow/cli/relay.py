"""`windrow relay`: publish an outbox until told to stop."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO

import click

from windrow.cli.dashboard_options import Terms, dashboard_options
from windrow.cli.interrupt import end_by_signal
from windrow.cli.options import load_settings, metrics_address_option, settings_options
from windrow.extras import needed
from windrow.parse import Address
from windrow.relay import Event, MeterRead, Relay
from windrow.relay.exposure import More, exposed

_LOOK_EVERY: Final = 0.25
_ADDRESS: Final = Address("127.0.0.1", 9464)


@click.command()
@settings_options
@click.option("--master", help="Spark's master, for example spark://host:7077.  [default: local[*]]")
@click.option(
    "--transform",
    type=click.File(encoding="utf-8"),
    help="A file with an SQL query over the table outbox; what it returns is published.",
)
@metrics_address_option
@click.option(
    "--dashboard",
    is_flag=True,
    help="Serve the dashboard there, too; without an address, at 127.0.0.1:9464.",
)
@dashboard_options
def relay(
    config: Path | None,
    master: str | None,
    transform: TextIO | None,
    metrics_address: Address | None,
    dashboard: bool,  # noqa: FBT001 - a flag
    token_file: Path | None,
    dashboard_name: tuple[str, ...],
    message_topic: str,
    **options: Any,
) -> None:
    """Publish the outbox to Kafka, exactly once and in order, until Ctrl-C or SIGTERM.

    Consumers must read committed (isolation.level=read_committed, the default of librdkafka, not of the Java client).

    \b
    Examples:
      windrow relay --config relay.yaml
      windrow relay --config relay.yaml --transform query.sql
      windrow relay --config relay.yaml --metrics-address 127.0.0.1:9464
      windrow relay --config relay.yaml --dashboard
      windrow relay --data-source postgresql://relay@db/shop --bootstrap-servers kafka:9092 --name shop

    \b
    A query: id, topic and value; if wanted also key, headers, partition, timestamp:
      SELECT id, 'large-orders' AS topic, key, value FROM outbox WHERE get_json_object(value, '$.amount') > 100

    \b
    A settings file:
      name: shop
      dataSource: postgresql://relay@db/shop
      outboxTable: outbox
      baseKafkaConfig:
        bootstrap.servers: kafka:9092
      spark:
        master: local[*]
    """
    settings = load_settings(
        config,
        spark={"master": master} if master else None,
        transform=transform.read() if transform else None,
        observe={"address": metrics_address} if metrics_address else None,
        **options,
    )
    if dashboard and not settings.observe.address:
        settings = replace(settings, observe=replace(settings.observe, address=_ADDRESS))
    more = _dashboard(Terms(token_file, dashboard_name, message_topic)) if dashboard else None

    def tell(event: Event) -> None:
        if isinstance(event, MeterRead) and event.records:
            figures = f"{event.rate:,.0f} records/s, {event.published:,} published since it exists"
            click.echo(f"relay {settings.name}: {figures}", err=True)

    with Relay(settings, on_event=tell) as running, exposed(running, more) as server:
        if server:
            what = "dashboard, metrics and health" if dashboard else "metrics and health"
            click.echo(f"relay {settings.name}: {what} at http://{server.address}", err=True)
        wanted = end_by_signal("stopping after the page in hand")
        while not wanted.wait(_LOOK_EVERY) and not running.wait(0):
            pass
    running.wait()


def _dashboard(terms: Terms) -> More:
    """What serves it, which stands on more than the relay does."""
    with needed("dashboard"):
        from windrow.cli.dashboard import dashboard_on  # noqa: PLC0415 - where it is wanted

    return partial(dashboard_on, terms=terms)
