"""An outbox without a database: it refuses what a real one refuses, and remembers the rest.

It knows nothing of transactions: what was written counts, whatever became of the connection. Where a rollback matters,
test on a real database (`windrow.testing.fixtures`).
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from windrow.message import Bytes, Message
from windrow.outbox import AsyncOutbox, Outbox
from windrow.outbox.statement import Statements

_ANY: Final = object()
_SHOWN: Final = 10


class _Record(Statements):
    """What was written, and the questions to it; both recording outboxes have these."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.written: list[Message] = []
        """All that was written, in its order."""

    def messages(self, topic: str) -> list[Message]:
        """What was written to a topic."""
        return [message for message in self.written if message.topic == topic]

    def json(self, topic: str) -> list[Any]:
        """The values that were written to a topic, read as JSON."""
        return [None if message.value is None else json.loads(message.value) for message in self.messages(topic)]

    def clear(self) -> None:
        """Forget what was written, for a test in several steps."""
        self.written.clear()

    def assert_written(  # noqa: PLR0913 - as many as a message has parts
        self,
        topic: str,
        value: Bytes | object = _ANY,
        key: Bytes | object = _ANY,
        *,
        json: Any = _ANY,
        headers: Iterable[tuple[str, Bytes]] = (),
        times: int = 1,
    ) -> list[Message]:
        """Exactly so many messages were written of which all that is given holds; returns them.

        Text stands for its UTF-8. Of the headers, those given have to be among the message's.
        """
        wanted = {(name, _bytes(content)) for name, content in headers}
        found = [
            message
            for message in self.messages(topic)
            if (value is _ANY or message.value == _bytes(value))
            and (key is _ANY or message.key == _bytes(key))
            and (json is _ANY or _reads_as(message.value, json))
            and wanted <= set(message.headers)
        ]
        if len(found) != times:
            raise AssertionError(f"{len(found)} such messages were written to {topic}, not {times}; {self._told()}")
        return found

    def assert_nothing_written(self, topic: str | None = None) -> None:
        """No message was written, or none to this topic."""
        if self.messages(topic) if topic else self.written:
            raise AssertionError(f"messages were written; {self._told()}")

    def _remember(self, messages: Iterable[Message]) -> int:
        checked = self.checked(messages)
        self.written += checked
        return len(checked)

    def _told(self) -> str:
        """What was written, for who reads the failure of a test."""
        if not self.written:
            return "nothing was written"
        lines = [f"  {each.topic}: key={each.key!r} value={each.value!r}" for each in self.written[:_SHOWN]]
        more = [f"  and {len(self.written) - _SHOWN} more"] if len(self.written) > _SHOWN else []
        return "written were:\n" + "\n".join([*lines, *more])


class RecordingOutbox(_Record, Outbox):
    """An `Outbox` that takes any connection, None as well, and leaves it alone."""

    def write(self, connection: Any, message: Message | Bytes, *, queue: str | None = None) -> int:  # noqa: ARG002
        """Ids count from 1."""
        self._remember([self.meant(message, queue)])
        return len(self.written)

    def write_many(self, connection: Any, messages: Iterable[Message]) -> int:  # noqa: ARG002
        return self._remember(messages)


class AsyncRecordingOutbox(_Record, AsyncOutbox):
    """An `AsyncOutbox` that takes any connection, None as well, and leaves it alone."""

    async def write(self, connection: Any, message: Message | Bytes, *, queue: str | None = None) -> int:  # noqa: ARG002
        """Ids count from 1."""
        self._remember([self.meant(message, queue)])
        return len(self.written)

    async def write_many(self, connection: Any, messages: Iterable[Message]) -> int:  # noqa: ARG002
        return self._remember(messages)


def _bytes(content: object) -> object:
    return content.encode() if isinstance(content, str) else content


def _reads_as(value: bytes | None, wanted: Any) -> bool:
    try:
        return value is not None and bool(json.loads(value) == wanted)
    except ValueError:
        return False
