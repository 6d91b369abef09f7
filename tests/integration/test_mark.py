"""What is particular to marks: rows go once they are published, and what was left behind is taken anew."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from uuid import uuid4

import pytest

from fix_pipeline import Pipeline, wait_for
from windrow.capture.mark import MarkCapture
from windrow.election.mandate import Term
from windrow.errors import OutboxTableMissing, SettingsInvalid
from windrow.record import Shard
from windrow.relay.registry import Registry
from windrow.relay.repair import Repair
from windrow.relay.republish import Selection, find
from windrow.relay.setup import prepare
from windrow.relay.status import status

Open = Callable[..., MarkCapture]


@pytest.fixture(params=["postgres", "mariadb"])
def strategy(request: pytest.FixtureRequest) -> dict[str, str]:
    return {"capture": "mark", "database": request.param}


@pytest.fixture
def outbox(make_pipeline: Callable[..., Pipeline]) -> Pipeline:
    """Eight rows, three a page."""
    pipeline = make_pipeline(limits={"pageRecords": 3})
    pipeline.write(*(pipeline.message(f"{number}") for number in range(1, 9)))
    return pipeline


@pytest.fixture
def open_capture(outbox: Pipeline) -> Iterator[Open]:
    """Open a capture in an epoch of its own, as the task of the next leader does."""
    with ExitStack() as opened:

        def open_capture(committed: str | None = None) -> MarkCapture:
            epoch = uuid4()
            Registry(outbox.settings).open_epoch(epoch, Term(uuid4(), b""))
            capture = opened.enter_context(closing(MarkCapture(outbox.settings, Shard(0, 1), epoch)))
            capture.start(committed)
            return capture

        yield open_capture


def taken(capture: MarkCapture) -> list[int]:
    return [record.id for record in capture.next().records]


def rows(pipeline: Pipeline) -> list[int]:
    with pipeline.connect() as connection:
        found = connection.execute(f"SELECT id FROM {pipeline.settings.outbox_table} ORDER BY id").fetchall()
    return [number for (number,) in found]


def test_pages_follow_each_other_and_go_once_they_are_surely_published(outbox: Pipeline, open_capture: Open) -> None:
    capture = open_capture()
    assert [taken(capture), taken(capture)] == [[1, 2, 3], [4, 5, 6]]
    assert rows(outbox) == [*range(1, 9)], "the first page may be in flight while the second is taken"
    assert (taken(capture), rows(outbox)) == ([7, 8], [*range(4, 9)])
    assert (taken(capture), rows(outbox)) == ([], [7, 8])
    assert (taken(capture), rows(outbox)) == ([], [])


@pytest.mark.parametrize(("published", "left"), [(0, 8), (1, 5), (2, 2), (3, 0)])
def test_successor_deletes_what_is_published_and_takes_all_else(
    outbox: Pipeline, open_capture: Open, published: int, left: int
) -> None:
    predecessor = open_capture()
    positions = [None, *(predecessor.next().position.encode() for _ in range(published))]
    predecessor.next()  # taken, and never published
    successor = open_capture(positions[-1])
    assert len(rows(outbox)) == left
    again = [number for _ in range(3) for number in taken(successor)]
    assert again == [*range(1, 9)][8 - left :]


def test_page_that_was_published_in_part_is_taken_from_there_on(open_capture: Open) -> None:
    page = open_capture().next()
    assert taken(open_capture(page.upto(2).encode())) == [3, 4, 5]


def test_deposed_task_takes_nothing_any_more(outbox: Pipeline, open_capture: Open) -> None:
    deposed = open_capture()
    assert taken(deposed) == [1, 2, 3]
    successor = open_capture()
    page = deposed.next()
    assert (page.records, page.epoch) == ([], None)
    assert taken(successor) == [1, 2, 3]
    deposed.next()
    assert rows(outbox) == [*range(1, 9)], "rows that another has marked are not the deposed one's to delete"


def test_task_that_is_deposed_before_its_first_page_takes_nothing(open_capture: Open) -> None:
    deposed, successor = open_capture(), open_capture()
    page = deposed.next()
    assert (page.records, page.epoch) == ([], None)
    assert taken(successor) == [1, 2, 3]


def test_row_that_comes_late_behind_the_marks_is_taken_next(outbox: Pipeline, open_capture: Open) -> None:
    with outbox.connect() as late:
        outbox.outbox.write(late, outbox.message("9"))
        outbox.write(outbox.message("10"))
        capture = open_capture()
        assert [taken(capture) for _ in range(3)] == [[1, 2, 3], [4, 5, 6], [7, 8, 10]]
        late.commit()
    assert taken(capture) == [9]


def test_restarted_relay_tidies_up_and_repeats_nothing(outbox: Pipeline) -> None:
    for written in range(8, 11):
        with outbox.relay() as relay:
            outbox.wait_published(relay, written)
        assert status(outbox.settings).backlog == 0
        outbox.write(outbox.message(f"{written + 1}"))
    with outbox.relay() as relay:
        outbox.wait_published(relay, 11)
        wait_for(lambda: not rows(outbox), "the rows to be deleted")
    assert outbox.values() == [f"{number}".encode() for number in range(1, 12)]


def test_what_marks_cannot_do_is_refused_with_the_reason(outbox: Pipeline) -> None:
    settings = outbox.settings
    with pytest.raises(SettingsInvalid, match=f"{settings.name} reads outbox"):
        prepare(dataclasses.replace(settings, name="another"))
    with pytest.raises(SettingsInvalid, match="nothing to republish"):
        find(settings, Selection())
    with pytest.raises(SettingsInvalid, match="nothing to repair"):
        Repair(settings)
    with pytest.raises(SettingsInvalid, match="storage plain"):
        prepare(settings, "partitioned")
    with pytest.raises((OutboxTableMissing, SettingsInvalid), match=r"lacks tx|PostgreSQL's transactions"):
        status(dataclasses.replace(settings, capture="snapshot"))
