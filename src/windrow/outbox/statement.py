"""What a writer sends: text and parameters. Pure, so that every driver, sync or async, sends the same.

Invariants: no message becomes parameters before it was checked, and the rows of a statement stand in the order of their
messages, which becomes the order of their ids.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from itertools import chain
from typing import Final, Literal, TypeAlias, get_args

from windrow.drivers import Copy, Row, Style
from windrow.errors import MessageInvalid, SettingsInvalid
from windrow.headers import encoded
from windrow.logged import packed, prefix_of
from windrow.message import Bytes, Message
from windrow.observe.tracing import traced
from windrow.queued import QUEUE_TOPIC, queue_message
from windrow.table import Dialect, quoted

Mode: TypeAlias = Literal["table", "log"]

COLUMNS: Final = ("topic", "key", "value", "header_keys", "header_values", "partition", "timestamp")
TYPES: Final = ("varchar", "bytea", "bytea", "text[]", "bytea[]", "int4", "timestamptz")
MAX_VALUE_BYTES: Final = 1_000_000
"""What Kafka's default, 1,048,588 bytes a batch, leaves to the value beside a key, headers and what frames them."""
_QUOTES: Final[dict[Dialect, str]] = {"postgresql": '"', "mysql": "`"}
_ENDS: Final[dict[Dialect, str]] = {"postgresql": " RETURNING id", "mysql": ""}
_BATCH_ROWS: Final = 1_000
_BATCH_BYTES: Final = 4_000_000  # escaped, still less than the 16 MB that MySQL and MariaDB take in one statement
_PLACES: Final = f"({', '.join(['%s'] * len(COLUMNS))})"


class Statements:
    """The statements of one outbox table, which may be in a schema: `billing.outbox`.

    In mode `log` messages are emitted to PostgreSQL's log instead, for a relay with `capture: tail`: the table stays
    empty, and only gives out the ids.
    """

    def __init__(
        self,
        table: str = "outbox",
        *,
        max_value_bytes: int = MAX_VALUE_BYTES,
        mode: Mode = "table",
        queue_topic: str = QUEUE_TOPIC,
    ) -> None:
        if max_value_bytes < 1:
            raise SettingsInvalid([f"max_value_bytes: give a number from 1, not {max_value_bytes}"])
        if mode not in get_args(Mode):
            raise SettingsInvalid([f"mode: give table or log, not {mode!r}"])
        self.table = table
        self.mode = mode
        self.max_value_bytes = max_value_bytes
        self.queue_topic = queue_topic
        """The topic of the queues that messages are written for."""
        targets = {dialect: _target(table, quote) for dialect, quote in _QUOTES.items()}
        self._heads = {dialect: f"INSERT INTO {target} VALUES " for dialect, target in targets.items()}  # noqa: S608 - quoted
        self.copy: Final = f"COPY {targets['postgresql']} FROM STDIN (FORMAT BINARY)"
        """PostgreSQL's COPY of rows whose values are of `TYPES`."""
        self.copying: Final = Copy(self.copy, table, COLUMNS, TYPES)

    def statement(
        self, messages: Message | Sequence[Message], dialect: Dialect = "postgresql", style: Style = "%s"
    ) -> tuple[str, Row]:
        """One INSERT of one or more messages, and its parameters; for drivers that are not known here.

        On PostgreSQL it returns the ids, in mode `log` the first; on MySQL and MariaDB the driver has the first.
        """
        if isinstance(messages, Message):
            (message,) = self.checked([messages])
            return self._text(1, dialect, style), self._row(message, dialect)
        rows = [self._row(message, dialect) for message in self.checked(messages)]
        return self._text(len(rows), dialect, style), tuple(chain.from_iterable(rows))

    def _row(self, message: Message, dialect: Dialect) -> Row:
        return row(message, dialect) if self.mode == "table" else (packed(message),)

    def _text(self, count: int, dialect: Dialect, style: Style) -> str:
        if self.mode == "log":
            if dialect != "postgresql":
                raise SettingsInvalid(["mode: log is for PostgreSQL's log; on MySQL write to the table"])
            return emission(self.table, count, style)
        places = [_PLACES] * count if style == "%s" else map(_numbered, range(count))
        return f"{self._heads[dialect]}{', '.join(places)}{_ENDS[dialect]}"

    def checked(self, messages: Iterable[Message]) -> list[Message]:
        """The messages, none of which is too large, with the context of the trace that they are written in."""
        checked = list(messages)
        for message in checked:
            self._check(message)
        return traced(checked)

    def meant(self, message: Message | Bytes, queue: str | None) -> Message:
        """What is to be written: the message, or one for a queue with this payload."""
        if queue is not None and not isinstance(message, Message):
            return queue_message(queue, message, topic=self.queue_topic)
        if queue is not None:
            raise MessageInvalid("queue: give a payload with it, or write what queue_message makes")
        return message  # type: ignore[return-value]  # _check tells what is none

    def _check(self, message: object) -> None:
        if not isinstance(message, Message):
            raise MessageInvalid(f"message: give a Message, not {type(message).__name__}")
        if message.value is not None and len(message.value) > self.max_value_bytes:
            raise MessageInvalid(
                f"value: {len(message.value):,} bytes are more than max_value_bytes, {self.max_value_bytes:,}; give a "
                "smaller one, or raise that limit of the Outbox and max.message.bytes of the topic"
            )


def emission(table: str, count: int, style: Style) -> str:
    """One statement that emits so many messages in their order, with ids that the table's own sequence gives out, and
    returns the first.
    """
    contents = ", ".join(f"({'%s' if style == '%s' else f'${place + 1}'}::bytea)" for place in range(count))
    sequence = f"pg_get_serial_sequence('{_literal(quoted(table))}', 'id')"
    # Two steps: each id is drawn once, and before its message is emitted.
    numbered = f"SELECT nextval({sequence}) AS id, content FROM (VALUES {contents}) AS each (content)"  # noqa: S608 - quoted
    emitted = f"pg_logical_emit_message(true, '{_literal(prefix_of(table))}', int8send(id) || content)"
    # One row, so that all are emitted also where a driver fetches no more than that.
    return f"SELECT min(id) AS id FROM ({numbered}) AS numbered, LATERAL {emitted} AS lsn"  # noqa: S608 - quoted


def _literal(text: str) -> str:
    return text.replace("'", "''")


def row(message: Message, dialect: Dialect = "postgresql") -> Row:
    """The message as the values of `COLUMNS`."""
    names: object
    contents: object
    timestamp = message.timestamp
    if dialect == "mysql":
        names, contents = encoded(message.headers)
        timestamp = timestamp and timestamp.astimezone(UTC).replace(tzinfo=None)
    else:
        names = [name for name, _ in message.headers]
        contents = [content for _, content in message.headers]
    return message.topic, message.key, message.value, names, contents, message.partition, timestamp


def batches(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """The messages in their order, as many together as a statement may hold."""
    batch: list[Message] = []
    size = 0
    for message in messages:
        more = _size(message)
        if batch and (len(batch) == _BATCH_ROWS or size + more > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += more
    if batch:
        yield batch


def _size(message: Message) -> int:
    headers = sum(len(name) + len(content or b"") for name, content in message.headers)
    return len(message.value or b"") + len(message.key or b"") + headers


def _target(table: str, quote: str) -> str:
    columns = ", ".join(f"{quote}{column}{quote}" for column in COLUMNS)
    return f"{quoted(table, quote=quote)} ({columns})"


def _numbered(row: int) -> str:
    first = row * len(COLUMNS) + 1
    return f"({', '.join(f'${number}' for number in range(first, first + len(COLUMNS)))})"
