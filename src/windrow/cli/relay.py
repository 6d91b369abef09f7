"""`windrow relay`: publish an outbox until told to stop."""

from pathlib import Path
from typing import Any, Final, TextIO

import click

from windrow.cli.interrupt import end_by_signal
from windrow.cli.options import load_settings, settings_options
from windrow.relay import Event, MeterRead, Relay

_LOOK_EVERY: Final = 0.25


@click.command()
@settings_options
@click.option("--master", help="Spark's master, for example spark://host:7077.  [default: local[*]]")
@click.option(
    "--transform",
    type=click.File(encoding="utf-8"),
    help="A file with an SQL query over the table outbox; what it returns is published.",
)
def relay(config: Path | None, master: str | None, transform: TextIO | None, **options: Any) -> None:
    """Publish the outbox to Kafka, exactly once and in order, until Ctrl-C or SIGTERM.

    Consumers must read committed (isolation.level=read_committed, the default of librdkafka, not of the Java client).

    \b
    Examples:
      windrow relay --config relay.yaml
      windrow relay --config relay.yaml --transform query.sql
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
        **options,
    )

    def tell(event: Event) -> None:
        if isinstance(event, MeterRead) and event.records:
            figures = f"{event.rate:,.0f} records/s, {event.published:,} published since it exists"
            click.echo(f"relay {settings.name}: {figures}", err=True)

    with Relay(settings, on_event=tell) as running:
        wanted = end_by_signal("stopping after the page in hand")
        while not wanted.wait(_LOOK_EVERY) and not running.wait(0):
            pass
    running.wait()
