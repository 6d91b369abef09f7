"""The outbox of a service whose messages are protobuf: it writes them as they are, and names their type."""

from typing import Any, Unpack

from windrow.outbox.content import Parts, protobuf_message
from windrow.outbox.statement import MAX_VALUE_BYTES
from windrow.outbox.writer import AsyncOutbox, Outbox


class ProtobufOutbox:
    """`Outbox.write` of `protobuf_message`."""

    def __init__(self, table: str = "outbox", *, max_value_bytes: int = MAX_VALUE_BYTES) -> None:
        self.outbox = Outbox(table, max_value_bytes=max_value_bytes)

    def write(self, connection: Any, topic: str, value: Any, **parts: Unpack[Parts]) -> int:
        return self.outbox.write(connection, protobuf_message(topic, value, **parts))


class AsyncProtobufOutbox:
    """`AsyncOutbox.write` of `protobuf_message`."""

    def __init__(self, table: str = "outbox", *, max_value_bytes: int = MAX_VALUE_BYTES) -> None:
        self.outbox = AsyncOutbox(table, max_value_bytes=max_value_bytes)

    async def write(self, connection: Any, topic: str, value: Any, **parts: Unpack[Parts]) -> int:
        return await self.outbox.write(connection, protobuf_message(topic, value, **parts))
