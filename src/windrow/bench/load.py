"""What is sent: numbered records, whose number alone says what their key is.

A number's key is the number modulo the count of keys, and numbers are written in ascending order within a key. So a
receiver needs to keep nothing but the numbers, and what was lost, doubled or reordered follows from them.
"""

from typing import Final

from psycopg.sql import SQL, Composed, Literal

from windrow.database.tables import Tables

KEYS: Final = 10_000
HEADERS: Final = (("content-type", b"application/json"), ("trace", b"00-4bf92f3577b34da6a3ce929d0e0e4736"))
_NUMBER: Final = 8
_FILLER: Final = b"windrow " * 24

_BACKLOG: Final = SQL("""
INSERT INTO {outbox} (topic, key, value, header_keys, header_values)
SELECT {topic}, convert_to((number % {keys})::text, 'UTF8'), int8send(number) || {filler}, {names}, {contents}
FROM generate_series({first}::bigint, {last}::bigint) AS number
""")


def key_of(number: int, keys: int) -> bytes:
    return b"%d" % (number % keys)


def value_of(number: int) -> bytes:
    """200 bytes that begin with the number."""
    return number.to_bytes(_NUMBER, "big") + _FILLER


def number_in(value: bytes) -> bytes:
    """The number's own bytes, big-endian."""
    return value[:_NUMBER]


def backlog(tables: Tables, topic: str, numbers: range, keys: int) -> Composed:
    """One statement that writes the records of all these numbers."""
    return tables.fill(
        _BACKLOG,
        topic=Literal(topic),
        keys=Literal(keys),
        filler=Literal(_FILLER),
        names=Literal([name for name, _ in HEADERS]),
        contents=Literal([content for _, content in HEADERS]),
        first=Literal(numbers.start),
        last=Literal(numbers.stop - 1),
    )
