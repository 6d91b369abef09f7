"""`windrow queue`: make the topics of queues, send to them, work on them."""

import threading
from pathlib import Path
from typing import Any

import click

from windrow.cli.interrupt import end_by_signal
from windrow.cli.on_demand import OnDemand
from windrow.cli.queue_options import load_queue_settings, queue_options
from windrow.cli.queue_steer import STEER
from windrow.cli.values import imported, time_of
from windrow.queue.producer import QueueProducer
from windrow.queue.topics import create_topics
from windrow.queue.worker import Worker


@click.group(cls=OnDemand, places={"tracker": ("windrow.cli.queue_tracker:tracker", "queue,relay")})
def queue() -> None:
    """Queues on Kafka: messages acknowledged one by one, and redelivered where nobody did."""


@queue.command()
@queue_options
@click.option(
    "--partitions",
    type=click.IntRange(1),
    default=4,
    show_default=True,
    help="Partitions of the messages and the dead letters.",
)
@click.option(
    "--marker-partitions", type=click.IntRange(1), default=4, show_default=True, help="Partitions of the markers."
)
def init(config: Path | None, partitions: int, marker_partitions: int, **options: Any) -> None:
    """Create the topics of queues; any number of queues share them.

    Safe to run again: what is there is left as it is.

    \b
    Example:
      windrow queue init --bootstrap-servers localhost:9092
    """
    settings = load_queue_settings(config, **options)
    for topic in create_topics(settings, partitions, marker_partitions):
        click.echo(f"created topic {topic}", err=True)
    click.echo(f"queues on {settings.message_topic} are ready", err=True)


@queue.command()
@click.argument("name", metavar="QUEUE")
@click.argument("payload")
@queue_options
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header; may be given several times.")
@click.option("--delay", metavar="TIME", help="Not to be received before: 30s, 5m.")
@click.option("--ttl", metavar="TIME", help="After this it becomes a dead letter: 1h.")
@click.option("--max-attempts", type=int, help="Deliveries before it becomes a dead letter.")
def send(
    name: str,
    payload: str,
    config: Path | None,
    headers: tuple[str, ...],
    delay: str | None,
    ttl: str | None,
    max_attempts: int | None,
    **options: Any,
) -> None:
    """Send one message to a queue.

    \b
    Example:
      windrow queue send emails '{"to": "ada"}' --delay 30s
    """
    if wrong := [each for each in headers if "=" not in each]:
        raise click.BadParameter(f"give NAME=VALUE, not {wrong[0]!r}", param_hint="--header")
    pairs = [(key, value) for key, _, value in (each.partition("=") for each in headers)]
    times = {key: time_of(key, text) for key, text in (("delay", delay), ("ttl", ttl)) if text}
    with QueueProducer(load_queue_settings(config, **options)) as producer:
        producer.send(name, payload, pairs, max_attempts=max_attempts, **times)


@queue.command()
@click.argument("name", metavar="QUEUE")
@click.argument("handler", metavar="MODULE:HANDLER")
@queue_options
@click.option(
    "--concurrency", type=click.IntRange(1), default=1, show_default=True, help="Messages that are handled at a time."
)
def work(name: str, handler: str, config: Path | None, concurrency: int, **options: Any) -> None:
    """Call a handler for each message of a queue, until Ctrl-C or SIGTERM.

    A message is done when the handler returns; when it raises, the message comes again, later each time.

    \b
    Example:
      windrow queue work emails shop.handlers:deliver --concurrency 4
    """
    settings, found = load_queue_settings(config, **options), imported(handler)
    function = found.handler if isinstance(found, Worker) else found
    worker = Worker(settings, name, function, concurrency=concurrency)
    wanted = end_by_signal("ending after what is in hand")

    def stop() -> None:
        wanted.wait()
        worker.stop()

    threading.Thread(target=stop, daemon=True).start()
    click.echo(f"working on {name}", err=True)
    worker.run()


for command in STEER:
    queue.add_command(command)
