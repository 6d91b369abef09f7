"""What a message is told by, and what the inbox sends to the database."""

from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Message as KafkaMessage

from windrow.errors import ConnectionUnknown, MessageInvalid, SettingsInvalid
from windrow.inbox import Inbox, Received
from windrow.inbox.identity import LONGEST, id_of

RELAYED = (("x-sequence", b"1"), ("x-source", b"mine"), ("x-sequence", b"7"), ("x-source", b"shop"))
EVENT = (("ce_id", b"a:b"), ("ce_source", b"/shop"))


def received(*headers: tuple[str, bytes | None], offset: int = 5) -> Received:
    return Received("orders", 3, offset, headers=headers)


def test_a_relayed_message_is_told_by_the_row_that_it_was() -> None:
    assert id_of(received(*EVENT, *RELAYED)) == b"outbox:7:orders:shop"
    assert id_of(received(*RELAYED, offset=6)) == id_of(received(*RELAYED))


def test_an_event_is_told_by_its_source_and_id() -> None:
    assert id_of(received(*EVENT)) == b"ce:5:/shop:a:b"
    assert id_of(received(("ce_id", b"b"), ("ce_source", b"/shop:a"))) != id_of(received(*EVENT))


def test_a_sequence_that_comes_from_no_row_tells_nothing() -> None:
    assert id_of(received(("x-sequence", b"0"), ("x-source", b"shop"))) == b"at:orders:3:5"
    assert id_of(received(("x-sequence", b"10"), ("x-source", b"shop"))) == b"outbox:10:orders:shop"


@pytest.mark.parametrize("header", [("x-sequence", b"7"), ("x-sequence", None), ("ce_id", b"1"), ("x-source", b"shop")])
def test_any_other_message_is_told_by_its_place(header: tuple[str, bytes | None]) -> None:
    assert id_of(received(header)) == b"at:orders:3:5"


def test_messages_of_other_clients_are_read_alike() -> None:
    arguments: dict[str, Any] = {"topic": "orders", "partition": 3, "offset": 5, "headers": list(RELAYED)}
    assert id_of(KafkaMessage(**arguments)) == b"outbox:7:orders:shop"
    assert id_of(KafkaMessage(**arguments | {"headers": None})) == b"at:orders:3:5"
    with pytest.raises(MessageInvalid, match="message: str has no headers"):
        id_of("orders")


def test_an_id_may_be_given_and_may_be_long() -> None:
    assert id_of(received(*RELAYED), "order-7") == b"id:order-7"
    assert id_of(received(), b"\xff\0") == b"id:\xff\0"
    long = [id_of(received(), "x" * length) for length in (LONGEST, LONGEST + 1, 10_000)]
    assert len(set(long)) == 3
    assert max(map(len, long)) <= LONGEST
    with pytest.raises(MessageInvalid, match=r"^id: "):
        id_of(received(), "")


def test_the_statement_is_there_for_drivers_that_are_not_known() -> None:
    inbox = Inbox("billing", 'shop.in"box')
    text, parameters = inbox.statement(b"7", style="$1")
    assert text.startswith('INSERT INTO "shop"."in""box" (name, id) VALUES ($1, $2) ON CONFLICT DO NOTHING')
    assert parameters == ("billing", b"7")
    assert inbox.statement(b"7", "mysql")[0].startswith('INSERT IGNORE INTO `shop`.`in"box` ')
    assert '"shop"."in""box_offset"' in inbox.script()


def test_mistakes_are_told() -> None:
    with pytest.raises(SettingsInvalid, match=r"^table: .*\nname: give 1 to 200"):
        Inbox("", "a.b.c")
    with pytest.raises(SettingsInvalid, match=r"^retention: "):
        Inbox("billing").purging(timedelta(seconds=-1), 1, "postgresql", "%s")
    with pytest.raises(ConnectionUnknown, match="asynchronous one to AsyncOutbox or AsyncInbox"):
        Inbox("billing").accept(object(), received())
