"""The inbox's statements: text and parameters. Pure, so that every driver, sync or async, sends the same.

Invariant: an id that another transaction has inserted and not yet ended makes the INSERT wait for that end; it then
changes a row if and only if the other was rolled back.
"""

from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from typing import Final

from windrow.drivers import Row, Style
from windrow.errors import SettingsInvalid
from windrow.table import Dialect, quoted, remedies

_LONGEST_NAME: Final = 200
_QUOTES: Final[dict[Dialect, str]] = {"postgresql": '"', "mysql": "`"}

_CREATE: Final[dict[Dialect, str]] = {
    "postgresql": """\
-- Which messages a consumer has accepted.
CREATE TABLE IF NOT EXISTS {inbox} (
  name        varchar(200) NOT NULL,
  id          bytea NOT NULL,
  accepted_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (name, id)
);
CREATE INDEX IF NOT EXISTS {index} ON {inbox} USING brin (accepted_at) WITH (autosummarize = on);

-- Where a consumer is in each partition: the offset of the message that comes next.
CREATE TABLE IF NOT EXISTS {offset} (
  name        varchar(200) NOT NULL,
  topic       varchar(249) NOT NULL,
  partition   integer NOT NULL,
  next_offset bigint NOT NULL,
  changed_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (name, topic, partition)
) WITH (fillfactor = 50)""",
    "mysql": """\
-- Which messages a consumer has accepted. Times are UTC.
CREATE TABLE IF NOT EXISTS {inbox} (
  name        varchar(200) NOT NULL,
  id          varbinary(255) NOT NULL,
  accepted_at datetime(6) NOT NULL DEFAULT (utc_timestamp(6)),
  PRIMARY KEY (name, id),
  KEY (name, accepted_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Where a consumer is in each partition: the offset of the message that comes next.
CREATE TABLE IF NOT EXISTS {offset} (
  name        varchar(200) NOT NULL,
  topic       varchar(249) NOT NULL,
  `partition` integer NOT NULL,
  next_offset bigint NOT NULL,
  changed_at  datetime(6) NOT NULL DEFAULT (utc_timestamp(6)),
  PRIMARY KEY (name, topic, `partition`)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin""",
}
_ACCEPT: Final[dict[Dialect, str]] = {
    "postgresql": "INSERT INTO {inbox} (name, id) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING 1",
    # Nothing but the key can be in the way of these values. ON DUPLICATE KEY would not tell on all connections.
    "mysql": "INSERT IGNORE INTO {inbox} (name, id) VALUES (%s, %s)",
}
_ACCEPT_MANY: Final = (
    "INSERT INTO {inbox} (name, id) SELECT %s::varchar, unnest(%s::bytea[]) ON CONFLICT DO NOTHING RETURNING id"
)
_PURGE: Final[dict[Dialect, str]] = {
    "postgresql": "DELETE FROM {inbox} WHERE ctid = ANY (ARRAY (SELECT ctid FROM {inbox} WHERE name = %s"
    " AND accepted_at < now() - make_interval(secs => %s::double precision) LIMIT %s FOR UPDATE SKIP LOCKED))"
    " RETURNING 1",
    "mysql": "DELETE FROM {inbox} WHERE name = %s AND accepted_at < utc_timestamp(6) - INTERVAL %s SECOND LIMIT %s",
}
_OFFSETS: Final[dict[Dialect, str]] = {
    "postgresql": "SELECT topic, partition, next_offset FROM {offset} WHERE name = %s",
    "mysql": "SELECT topic, `partition`, next_offset FROM {offset} WHERE name = %s",
}
_BEGIN_AT: Final[dict[Dialect, str]] = {
    "postgresql": "INSERT INTO {offset} (name, topic, partition, next_offset) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT DO NOTHING RETURNING 1",
    "mysql": "INSERT IGNORE INTO {offset} (name, topic, `partition`, next_offset) VALUES (%s, %s, %s, %s)",
}
_ADVANCE: Final[dict[Dialect, str]] = {
    "postgresql": "UPDATE {offset} SET next_offset = %s, changed_at = now()"
    " WHERE name = %s AND topic = %s AND partition = %s AND next_offset = %s RETURNING 1",
    "mysql": "UPDATE {offset} SET next_offset = %s, changed_at = utc_timestamp(6)"
    " WHERE name = %s AND topic = %s AND `partition` = %s AND next_offset = %s",
}


class Statements:
    """The statements of one consumer's inbox, whose table may be in a schema: `billing.inbox`."""

    def __init__(self, name: str, table: str = "inbox") -> None:
        mistakes = [f"table: {remedy}" for remedy in remedies(table)]
        if not 0 < len(name) <= _LONGEST_NAME or "\0" in name:
            mistakes.append(f"name: give 1 to {_LONGEST_NAME} characters, not {name!r}")
        if mistakes:
            raise SettingsInvalid(mistakes)
        self.name, self.table = name, table
        self._names = {
            dialect: {
                "inbox": quoted(table, quote=quote),
                "offset": quoted(table, "_offset", quote),
                "index": quoted(table.rpartition(".")[2], "_accepted_at", quote),
            }
            for dialect, quote in _QUOTES.items()
        }

    def script(self, dialect: Dialect = "postgresql") -> str:
        """What makes the tables; what is there is left as it is."""
        return self._filled(_CREATE[dialect], dialect) + ";\n"

    def creation(self, dialect: Dialect) -> list[str]:
        """The same, statement by statement."""
        return self._filled(_CREATE[dialect], dialect).split(";\n")

    def statement(self, id: bytes, dialect: Dialect = "postgresql", style: Style = "%s") -> tuple[str, Row]:  # noqa: A002 - what it is
        """The INSERT that accepts an id, and its parameters; accepted is what changes a row."""
        return self._text(_ACCEPT[dialect], dialect, style), (self.name, id)

    def many(self, ids: Sequence[bytes], style: Style = "%s") -> tuple[str, Row]:
        """On PostgreSQL: accept as many as can be; it returns those."""
        return self._text(_ACCEPT_MANY, "postgresql", style), (self.name, list(ids))

    def all_or_some(self, ids: Sequence[bytes]) -> tuple[str, Row]:
        """On MySQL: accept as many as can be; it tells only how many."""
        text = self._text(_ACCEPT["mysql"], "mysql", "%s") + ", (%s, %s)" * (len(ids) - 1)
        return text, tuple(value for each in ids for value in (self.name, each))

    def purging(self, retention: timedelta, chunk: int, dialect: Dialect, style: Style) -> tuple[str, Row]:
        if retention < timedelta() or chunk < 1:
            raise SettingsInvalid(["retention: give a time of 0 or more, and a chunk of 1 or more"])
        return self._text(_PURGE[dialect], dialect, style), (self.name, retention.total_seconds(), chunk)

    def offsets(self, dialect: Dialect) -> tuple[str, Row]:
        """Where the consumer is: topic, partition, offset."""
        return self._text(_OFFSETS[dialect], dialect, "%s"), (self.name,)

    def begin_at(self, topic: str, partition: int, offset: int, dialect: Dialect) -> tuple[str, Row]:
        """Enter a partition, unless it is entered already."""
        return self._text(_BEGIN_AT[dialect], dialect, "%s"), (self.name, topic, partition, offset)

    def advance(self, topic: str, partition: int, span: tuple[int, int], dialect: Dialect) -> tuple[str, Row]:
        """Go on from one offset to another; it changes no row where the partition is not at the first any more."""
        before, after = span
        return self._text(_ADVANCE[dialect], dialect, "%s"), (after, self.name, topic, partition, before)

    def _text(self, template: str, dialect: Dialect, style: Style) -> str:
        text = self._filled(template, dialect)
        if style == "%s":
            return text
        first, *rest = text.split("%s")
        numbers = count(1)
        return first + "".join(f"${next(numbers)}{each}" for each in rest)

    def _filled(self, template: str, dialect: Dialect) -> str:
        return template.format(**self._names[dialect])
