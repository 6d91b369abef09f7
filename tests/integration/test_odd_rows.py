"""Whatever is in the outbox's rows: each one is published unchanged or a dead letter, and the relay goes on."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fix_pipeline import Pipeline, wait_for
from windrow.publish.dead_letter import DeadLetters

INSERT = """
INSERT INTO {table} (topic, key, value, header_keys, header_values, partition, timestamp)
VALUES (%s, %s, %s, %s, %s::bytea[], %s, %s) RETURNING id
"""
ODD_TOPICS = st.sampled_from(["", " ", ".", "..", "a/b", "größe", "x" * 249, "\u2028", "%s", "{table}"])
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
row = st.tuples(
    st.none() | st.none() | st.none() | ODD_TOPICS,
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=200),
    st.lists(TEXT, max_size=3),
    st.lists(st.none() | st.binary(max_size=20), max_size=3),
    st.none() | st.none() | st.integers(-2, 3) | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),  # noqa: DTZ001
)


@pytest.mark.parametrize("producer", [{}, {"enable.random.seed": "true"}], ids=["direct", "by librdkafka"])
@pytest.mark.parametrize("many", [10, 200])
def test_headers_that_no_message_has_become_a_dead_letter(
    make_pipeline: Callable[..., Pipeline], many: int, producer: dict[str, str]
) -> None:
    pipeline = make_pipeline(shards=1, producer_kafka_config=producer)
    odd = [("{{a,b}}", "{{x,y}}"), ("{NULL}", "{x}")]
    with pipeline.connect() as connection, connection.transaction():
        for number in range(many):
            names, contents = odd[number] if number < len(odd) else ("{a}", "{x}")
            connection.execute(
                INSERT.format(table=pipeline.settings.outbox_table),
                (pipeline.topic, b"key", b"%d" % number, names, contents, None, None),
            )
    letters = DeadLetters(pipeline.settings)
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, many - len(odd))
        reasons = [letter.reason for letter in letters.list(10)]
    assert len(reasons) == len(odd)
    assert all("header" in reason for reason in reasons), reasons
    assert pipeline.values() == [b"%d" % number for number in range(len(odd), many)]


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.data_too_large, HealthCheck.too_slow],
)
@given(rows=st.lists(row, min_size=60, max_size=120))
def test_every_row_is_published_or_a_dead_letter(
    make_pipeline: Callable[..., Pipeline], rows: list[tuple[Any, ...]]
) -> None:
    pipeline = make_pipeline(purge={"interval": "200ms"})
    written = {}
    with pipeline.connect() as connection:
        statement = INSERT.format(table=pipeline.settings.outbox_table)
        for topic, *rest in rows:
            given = (pipeline.topic if topic is None else topic, *rest)
            (number,) = connection.execute(statement, given).fetchone()
            written[number] = given
    letters = DeadLetters(pipeline.settings)
    with pipeline.relay() as relay:
        last = pipeline.message("last", "last")

        def settled() -> bool:
            relay.wait(0)
            return pipeline.published() + len(letters.list(1_000)) >= len(rows)

        wait_for(settled, "all rows published or dead letters", 120)
        pipeline.write(last)
        pipeline.wait_published(relay, len(rows) - len(letters.list(1_000)) + 1)
    refused = {letter.id for letter in letters.list(1_000)}
    *received, end = sorted((int(dict(each.headers())["x-sequence"]), each) for each in pipeline.received())
    assert end[1].value() == b"last"
    assert [number for number, _ in received] == sorted(written.keys() - refused)
    for number, each in received:
        topic, key, value, *_ = written[number]
        assert (topic, each.key(), each.value()) == (pipeline.topic, key, value)
