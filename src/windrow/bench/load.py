"""What is sent: numbered records, whose number alone says what their key is.

A number's key is the number modulo the count of keys, and numbers are written in ascending order within a key. So a
receiver needs to keep nothing but the numbers, and what was lost, doubled or reordered follows from them.
"""

from typing import Final

from psycopg.sql import SQL, Composable, Composed, Literal

from windrow.database.tables import Tables
from windrow.headers import encoded

KEYS: Final = 10_000
HEADERS: Final = (("content-type", b"application/json"), ("trace", b"00-4bf92f3577b34da6a3ce929d0e0e4736"))
_NUMBER: Final = 8
_FILLER: Final = b"windrow " * 24

_BACKLOG: Final = SQL("""
INSERT INTO {outbox} (topic, key, value, header_keys, header_values)
SELECT {topic}, convert_to((number % {keys})::text, 'UTF8'), int8send(number) || {filler}, {names}, {contents}
FROM generate_series({first}::bigint, {last}::bigint) AS number
""")
_MYSQL_BACKLOG: Final = SQL("""
INSERT INTO {outbox} (topic, "key", value, header_keys, header_values)
SELECT {topic}, cast(({first} + place - 1) % {keys} AS char),
       concat(unhex(lpad(hex({first} + place - 1), 16, '0')), {filler}), {names}, {contents}
FROM json_table(concat('[0', repeat(',0', {last} - {first}), ']'), '$[*]' COLUMNS (place FOR ORDINALITY)) AS numbers
ORDER BY place
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
    filler: Composable
    names: Composable
    contents: Composable
    if tables.dialect == "mysql":
        template, filler = _MYSQL_BACKLOG, SQL(f"X'{_FILLER.hex()}'")
        names, contents = map(tables.literal, encoded(HEADERS))
    else:
        template, filler = _BACKLOG, Literal(_FILLER)
        names, contents = Literal([name for name, _ in HEADERS]), Literal([content for _, content in HEADERS])
    return tables.fill(
        template,
        topic=tables.literal(topic),
        keys=tables.literal(keys),
        filler=filler,
        names=names,
        contents=contents,
        first=tables.literal(numbers.start),
        last=tables.literal(numbers.stop - 1),
    )
