"""The outbox for services' tests: it remembers, refuses what a real one refuses, and its questions tell the truth."""

import asyncio

import pytest

from windrow import Message
from windrow.errors import MessageInvalid
from windrow.testing import AsyncRecordingOutbox, RecordingOutbox


@pytest.fixture
def outbox() -> RecordingOutbox:
    outbox = RecordingOutbox(max_value_bytes=50)
    assert outbox.write(None, Message("orders", '{"total": 12}', "4711", {"type": "placed"})) == 1
    assert outbox.write_many(object(), [Message("orders", None, "4711"), Message("mails", b"\xff")]) == 2
    return outbox


def test_what_was_written_is_found_by_any_of_its_parts(outbox: RecordingOutbox) -> None:
    assert [each.topic for each in outbox.written] == ["orders", "orders", "mails"]
    assert outbox.json("orders") == [{"total": 12}, None]
    outbox.assert_written("orders", times=2)
    outbox.assert_written("orders", '{"total": 12}')
    outbox.assert_written("orders", None)
    outbox.assert_written("orders", key="4711", times=2)
    outbox.assert_written("orders", json={"total": 12}, headers=[("type", "placed")])
    assert outbox.assert_written("mails", b"\xff") == [outbox.written[2]]
    outbox.assert_nothing_written("invoices")


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": "invoices"},
        {"topic": "orders"},
        {"topic": "orders", "value": "other"},
        {"topic": "orders", "key": None},
        {"topic": "orders", "json": {"total": 13}},
        {"topic": "mails", "json": {}},
        {"topic": "orders", "headers": [("type", "paid")]},
    ],
)
def test_what_was_not_written_so_often_is_told_with_what_was(outbox: RecordingOutbox, wrong: dict[str, object]) -> None:
    with pytest.raises(AssertionError, match=r"not 1; written were:\n  orders: key=b'4711' value="):
        outbox.assert_written(**wrong)  # type: ignore[arg-type]


def test_nothing_is_told_as_nothing(outbox: RecordingOutbox) -> None:
    with pytest.raises(AssertionError, match="messages were written"):
        outbox.assert_nothing_written()
    outbox.clear()
    outbox.assert_nothing_written()
    with pytest.raises(AssertionError, match="nothing was written"):
        outbox.assert_written("orders")


def test_what_a_real_one_refuses_is_refused_and_not_remembered(outbox: RecordingOutbox) -> None:
    with pytest.raises(MessageInvalid, match="51 bytes are more"):
        outbox.write_many(None, [Message("orders", "fits"), Message("orders", "x" * 51)])
    with pytest.raises(MessageInvalid, match="give a Message"):
        outbox.write(None, "text")  # type: ignore[arg-type]
    assert len(outbox.written) == 3


def test_asynchronous_one_remembers_alike() -> None:
    outbox = AsyncRecordingOutbox()

    async def write() -> tuple[int, int]:
        return await outbox.write(None, Message("orders", "1")), await outbox.write_many(None, [Message("orders", "2")])

    assert asyncio.run(write()) == (1, 1)
    outbox.assert_written("orders", times=2)
