"""What a consumer with an inbox shows: its counts."""

from collections.abc import Iterator
from dataclasses import asdict

from windrow.inbox.consumer import InboxConsumer
from windrow.observe.metrics import Sample


def samples(consumer: InboxConsumer) -> Iterator[Sample]:
    """All metrics of a consumer; serve them with `windrow.observe.routes`, or add them to your own."""
    for name, count in asdict(consumer.counts).items():
        yield Sample(f"windrow_inbox_{name}_total", (consumer.group,), count)
