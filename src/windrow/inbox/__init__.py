"""The inbox: a consumer's database remembers which messages it has accepted, so that each has its effect once.

`Inbox` and `AsyncInbox` accept messages in the handler's own transaction. `InboxConsumer` does all of a consumer's
work, and `OwnEvents` publishes events that the service itself consumes; these need confluent_kafka, which is imported
only where they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from windrow.extras import needed
from windrow.inbox.acceptance import AsyncInbox, Inbox
from windrow.inbox.identity import Received
from windrow.inbox.settings import ConsumerSettings

if TYPE_CHECKING:
    from windrow.inbox.consumer import InboxConsumer
    from windrow.inbox.own_events import OwnEvents

__all__ = ["AsyncInbox", "ConsumerSettings", "Inbox", "InboxConsumer", "OwnEvents", "Received"]

_WITH_KAFKA = {"InboxConsumer": "consumer", "OwnEvents": "own_events"}


def __getattr__(name: str) -> Any:
    if name in _WITH_KAFKA:
        with needed("inbox"):
            return getattr(import_module(f"{__name__}.{_WITH_KAFKA[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
