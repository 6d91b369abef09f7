"""The application dispatches its messages by itself; the relay sends what it has not dispatched in time."""

import dataclasses
import time
from collections.abc import Callable

import pytest

from fix_pipeline import Pipeline, wait_for
from windrow.errors import SettingsInvalid
from windrow.relay.purge import Purger
from windrow.relay.setup import prepare
from windrow.relay.status import status

AFTER = 1.0


@pytest.fixture(params=["postgres", "mariadb"])
def strategy(request: pytest.FixtureRequest) -> dict[str, str]:
    return {"capture": "sweep", "database": request.param}


@pytest.fixture
def swept(make_pipeline: Callable[..., Pipeline]) -> Pipeline:
    return make_pipeline(limits={"sweepAfter": f"{AFTER:g}s"}, purge={"retention": "1h"})


def dispatched(pipeline: Pipeline) -> dict[int, bool]:
    """Of each row, whether it is noted as dispatched."""
    with pipeline.connect() as connection:
        table = pipeline.settings.outbox_table
        return dict(connection.execute(f"SELECT id, dispatched IS NOT NULL FROM {table} ORDER BY id").fetchall())


def dispatch(pipeline: Pipeline, *ids: int) -> None:
    """Note, as the application does, that these have reached Kafka."""
    with pipeline.connect() as connection:
        table = pipeline.settings.outbox_table
        for number in ids:
            connection.execute(f"UPDATE {table} SET dispatched = create_time WHERE id = %s", (number,))


def test_only_what_was_not_dispatched_in_time_is_sent(swept: Pipeline) -> None:
    with swept.relay() as relay:
        began = time.monotonic()
        swept.write(*(swept.message(f"{number}") for number in range(1, 11)))
        dispatch(swept, 2, 4, 6, 8, 10)
        assert status(swept.settings).backlog == 5
        swept.wait_published(relay, 5)
        assert time.monotonic() - began >= AFTER
        wait_for(lambda: all(dispatched(swept).values()), "what was sent to be noted as dispatched")
    assert swept.values() == [b"1", b"3", b"5", b"7", b"9"]
    assert len(dispatched(swept)) == 10, "rows are kept for their retention"


def test_what_is_dispatched_goes_after_its_retention(swept: Pipeline) -> None:
    swept.write(*(swept.message(f"{number}") for number in range(1, 5)))
    dispatch(swept, 1, 2)
    with swept.connect() as connection:
        connection.execute(f"UPDATE {swept.settings.outbox_table} SET dispatched = '2001-01-01' WHERE id = 1")
    assert sum(Purger(swept.settings).purge()) == 1
    assert dispatched(swept) == {2: True, 3: False, 4: False}


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_application_that_dispatches_nothing_has_everything_sent_in_order(
    make_pipeline: Callable[..., Pipeline], delivery: str
) -> None:
    pipeline = make_pipeline(limits={"sweepAfter": "100ms", "pageRecords": 7}, delivery=delivery)
    with pipeline.relay() as relay:
        for number in range(40):
            pipeline.write(pipeline.message(f"{number}"))
        pipeline.wait_published(relay, 40)
    assert pipeline.values() == [f"{number}".encode() for number in range(40)]


def test_outbox_that_was_made_for_marks_has_no_place_for_a_time_of_dispatch(
    make_pipeline: Callable[..., Pipeline],
) -> None:
    pipeline = make_pipeline(capture="mark")
    settings = dataclasses.replace(pipeline.settings, capture="sweep")
    with pytest.raises(SettingsInvalid, match="no column for when a row was dispatched"):
        prepare(settings)
