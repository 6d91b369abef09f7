"""The inbox: a consumer's database remembers which messages it has accepted, so that each has its effect once.

`Inbox` and `AsyncInbox` accept messages in the handler's own transaction. `InboxConsumer` does all of a consumer's
work; it needs confluent_kafka, which is imported only where it is asked for.
"""

from typing import TYPE_CHECKING, Any

from windrow.inbox.acceptance import AsyncInbox, Inbox
from windrow.inbox.identity import Received
from windrow.inbox.settings import ConsumerSettings

if TYPE_CHECKING:
    from windrow.inbox.consumer import InboxConsumer

__all__ = ["AsyncInbox", "ConsumerSettings", "Inbox", "InboxConsumer", "Received"]


def __getattr__(name: str) -> Any:
    if name == "InboxConsumer":
        from windrow.inbox.consumer import InboxConsumer  # noqa: PLC0415 - it needs a Kafka client

        return InboxConsumer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
