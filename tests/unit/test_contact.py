"""A client that is lost is known: by what it tells of its membership, or by what it does not answer."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from windrow.kafka import contact
from windrow.kafka.contact import Contact, Membership


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(contact, "time", clock)
    return clock


class Client:
    """A consumer whose cluster names so many brokers; None where nobody answers."""

    def __init__(self) -> None:
        self.brokers: int | None = 1
        self.asked = 0

    def list_topics(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        if self.brokers is None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return type("Answer", (), {"brokers": dict.fromkeys(range(self.brokers))})


def statistics(state: str) -> str:
    return f'{{"name": "rdkafka#consumer-1", "cgrp": {{ "state": "up", "join_state": "{state}", "rebalance_cnt": 1 }}}}'


def test_member_that_takes_part_is_not_lost(clock: Clock) -> None:
    member = Membership()
    for state in ("steady", "wait-join", "wait-assign-call", "wait-unassign-call") * 5:
        clock.now += 10
        member.hear(statistics(state))
        assert not member.lost()


@pytest.mark.parametrize("state", ["init", "wait-metadata", "wait-sync"])
def test_member_that_takes_no_part_for_long_is_lost(clock: Clock, state: str) -> None:
    member = Membership()
    member.hear(statistics("steady"))
    for _ in range(6):
        clock.now += 2
        member.hear(statistics(state))
    assert not member.lost()
    clock.now += 2
    assert member.lost()


def test_member_that_tells_nothing_is_lost(clock: Clock) -> None:
    member = Membership()
    member.hear("{}")
    clock.now += 13
    assert member.lost()


def test_who_hears_something_does_not_ask(clock: Clock) -> None:
    client = Client()
    contact = Contact(client, "topic")  # type: ignore[arg-type]
    for _ in range(10):
        clock.now += 4
        contact.heard()
        assert not contact.lost()
    assert client.asked == 0


def test_broker_that_is_away_for_a_while_is_no_loss(clock: Clock) -> None:
    client = Client()
    contact = Contact(client, "topic")  # type: ignore[arg-type]
    for brokers in (None, 1, None, 1):
        client.brokers = brokers
        for _ in range(10):
            clock.now += 1
            assert not contact.lost()


def test_client_that_finds_no_broker_for_long_is_lost(clock: Clock) -> None:
    client = Client()
    contact = Contact(client, "topic")  # type: ignore[arg-type]
    client.brokers = None
    began = clock.now
    while not contact.lost():
        clock.now += 1
    assert 17 <= clock.now - began <= 19


def test_client_that_is_told_of_no_broker_is_lost_at_once(clock: Clock) -> None:
    client = Client()
    contact = Contact(client, "topic")  # type: ignore[arg-type]
    client.brokers = 0
    clock.now += 6
    assert contact.lost()
