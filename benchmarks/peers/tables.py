"""The outboxes of all contenders, and how the same numbered records are written to each, all at once or one by one."""

from dataclasses import dataclass
from typing import Final

from psycopg.sql import SQL, Composed, Literal

from windrow.bench.load import HEADERS

_NAMES: Final = ", ".join(f"'{name}'" for name, _ in HEADERS)
_CONTENTS: Final = ", ".join(f"'{content.decode()}'" for _, content in HEADERS)
_PAIRS: Final = ", ".join(f"'{name}', '{content.decode()}'" for name, content in HEADERS)

EVEN: Final = "24"
"""Of a value, beside its number: how often its eight bytes of filler are repeated, as SQL. 200 bytes."""
MIXED: Final = "CASE WHEN number % 100 = 0 THEN 12500 WHEN number % 10 = 0 THEN 1250 ELSE 24 END"
"""Of a hundred values, one has 100 kB, nine have 10 kB, the others 200 bytes."""
_BACKLOG: Final = """
INSERT INTO {{table}} ({columns})
SELECT {row}
FROM (SELECT convert_to((number % {{keys}})::text, 'UTF8') AS key,
             int8send(number) || convert_to(repeat('windrow ', {repeated}), 'UTF8') AS value
      FROM generate_series({{first}}::bigint, {{last}}::bigint) AS number) AS records
"""


@dataclass(frozen=True, slots=True)
class Table:
    """A layout: how it is made, its columns, and a row of them out of {topic}, {key} and {value}."""

    create: str
    columns: str
    row: str

    def backlog(self, name: str, topic: str, numbers: range, keys: int, repeated: str) -> Composed:
        """One statement that writes the records of all these numbers."""
        row = self.row.format(topic="{topic}", key="key", value="value")
        template = _BACKLOG.format(columns=self.columns, row=row, repeated=repeated)
        return SQL(template).format(
            table=SQL(name),
            topic=Literal(topic),
            keys=Literal(keys),
            first=Literal(numbers.start),
            last=Literal(numbers.stop - 1),
        )

    @property
    def insert(self) -> str:
        """A statement for `windrow.bench.writers`."""
        row = self.row.format(topic="$1", key="$2::bytea", value="$3::bytea")
        return f"INSERT INTO {{table}} ({self.columns}) VALUES ({row})"  # noqa: S608 - of constants alone


WINDROW: Final = Table(
    create="",  # windrow's own business
    columns="topic, key, value, header_keys, header_values",
    row=f"{{topic}}, {{key}}, {{value}}, ARRAY[{_NAMES}], ARRAY[{_CONTENTS}]::bytea[]",
)
# As in its README, but for the value: text there, in varchar(10000).
GOHARVEST: Final = Table(
    create="""
CREATE TABLE {table} (
  id                  BIGSERIAL PRIMARY KEY,
  create_time         TIMESTAMP WITH TIME ZONE NOT NULL,
  kafka_topic         VARCHAR(249) NOT NULL,
  kafka_key           VARCHAR(100) NOT NULL,
  kafka_value         BYTEA,
  kafka_header_keys   TEXT[] NOT NULL,
  kafka_header_values TEXT[] NOT NULL,
  leader_id           UUID
)""",
    columns="create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values",
    row=f"now(), {{topic}}, convert_from({{key}}, 'UTF8'), {{value}}, ARRAY[{_NAMES}], ARRAY[{_CONTENTS}]",
)
TOMORROW_ONE: Final = Table(
    create="""
CREATE TABLE {table} (
  id        BIGSERIAL PRIMARY KEY,
  created   TIMESTAMP WITHOUT TIME ZONE NOT NULL,
  processed TIMESTAMP WITHOUT TIME ZONE NULL,
  topic     CHARACTER VARYING(128) NOT NULL,
  key       CHARACTER VARYING(128) NULL,
  value     BYTEA NOT NULL,
  headers   JSONB NULL
);
CREATE INDEX ON {table} (id) WHERE processed IS NULL;
CREATE INDEX ON {table} (processed)""",
    columns="created, topic, key, value, headers",
    row=f"now(), {{topic}}, convert_from({{key}}, 'UTF8'), {{value}}, jsonb_build_object({_PAIRS})",
)
# The default columns of its event router, and one for each header.
DEBEZIUM: Final = Table(
    create="""
CREATE TABLE {table} (
  id            UUID PRIMARY KEY,
  aggregatetype VARCHAR(255) NOT NULL,
  aggregateid   VARCHAR(255) NOT NULL,
  type          VARCHAR(255) NOT NULL,
  payload       BYTEA,
  content_type  VARCHAR(255),
  trace         VARCHAR(255)
)""",
    columns="id, aggregatetype, aggregateid, type, payload, content_type, trace",
    row=f"gen_random_uuid(), {{topic}}, convert_from({{key}}, 'UTF8'), 'Written', {{value}}, {_CONTENTS}",
)
