"""Queues on Kafka: messages acknowledged one by one, and redelivered where nobody did.

What needs confluent_kafka or protobuf is imported only where it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from windrow.extras import needed
from windrow.queue.settings import QueueSettings

if TYPE_CHECKING:
    from windrow.queue.consumer import AsyncQueueConsumer, QueueConsumer
    from windrow.queue.keeper import Lost
    from windrow.queue.message import QueueMessage
    from windrow.queue.producer import AsyncQueueProducer, QueueProducer
    from windrow.queue.sending import Sending
    from windrow.queue.worker import Queue, Reject, Worker

__all__ = [
    "AsyncQueueConsumer",
    "AsyncQueueProducer",
    "Lost",
    "Queue",
    "QueueConsumer",
    "QueueMessage",
    "QueueProducer",
    "QueueSettings",
    "Reject",
    "Sending",
    "Worker",
]

_FROM: Final = {
    "AsyncQueueConsumer": "consumer",
    "AsyncQueueProducer": "producer",
    "Lost": "keeper",
    "Queue": "worker",
    "QueueConsumer": "consumer",
    "QueueMessage": "message",
    "QueueProducer": "producer",
    "Reject": "worker",
    "Sending": "sending",
    "Worker": "worker",
}


def __getattr__(name: str) -> Any:
    if name in _FROM:
        with needed("queue"):
            return getattr(import_module(f"{__name__}.{_FROM[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
