"""The outbox's writing side: messages inserted in the caller's own transaction.

`Outbox` and `AsyncOutbox` write; `json_message`, `protobuf_message`, `serialized_message` and `cloud_event_message`
make messages of a service's own objects, `queue_message` makes one for a queue.
"""

from windrow.outbox.cloud_events import cloud_event_message
from windrow.outbox.content import json_message, protobuf_message, serialized_message
from windrow.outbox.protobuf import AsyncProtobufOutbox, ProtobufOutbox
from windrow.outbox.writer import AsyncOutbox, Outbox
from windrow.queued import queue_message

__all__ = [
    "AsyncOutbox",
    "AsyncProtobufOutbox",
    "Outbox",
    "ProtobufOutbox",
    "cloud_event_message",
    "json_message",
    "protobuf_message",
    "queue_message",
    "serialized_message",
]
