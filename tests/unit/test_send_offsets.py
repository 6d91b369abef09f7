"""Offsets are sent within a time, also where the client's own call does not keep to it."""

import os
import threading
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from windrow.errors import Interrupted
from windrow.kafka.offsets import send_offsets


class Held:
    """A producer whose call returns when it is let go, whatever time it was given."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def send_offsets_to_transaction(self, *_: Any) -> None:
        self.let_go.wait(30)


class Refused:
    def send_offsets_to_transaction(self, *_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))


def test_a_call_that_does_not_return_is_given_up() -> None:
    producer, began = Held(), time.monotonic()
    with pytest.raises(Interrupted, match="does not come back"):
        send_offsets(producer, [], b"", 0.1)  # type: ignore[arg-type]
    assert time.monotonic() - began < 10
    producer.let_go.set()


def test_a_refusal_is_raised_as_it_is() -> None:
    with pytest.raises(KafkaException) as raised:
        send_offsets(Refused(), [], b"", 5)  # type: ignore[arg-type]
    assert raised.value.args[0].code() == KafkaError.ILLEGAL_GENERATION


class Prompt:
    """Notes which thread calls it."""

    def __init__(self) -> None:
        self.callers: list[int] = []

    def send_offsets_to_transaction(self, *_: Any) -> None:
        self.callers.append(threading.get_ident())


def test_a_helper_is_kept_until_it_is_left_behind() -> None:
    prompt, held = Prompt(), Held()
    for _ in range(3):
        send_offsets(prompt, [], b"", 5)  # type: ignore[arg-type]
    with pytest.raises(Interrupted):
        send_offsets(held, [], b"", 0.1)  # type: ignore[arg-type]
    send_offsets(prompt, [], b"", 5)  # type: ignore[arg-type]
    held.let_go.set()
    send_offsets(prompt, [], b"", 5)  # type: ignore[arg-type]
    assert len(set(prompt.callers[:3])) == 1
    assert prompt.callers[2] != prompt.callers[3] == prompt.callers[4]


def test_a_child_has_helpers_of_its_own() -> None:
    prompt = Prompt()
    send_offsets(prompt, [], b"", 5)  # type: ignore[arg-type]
    if (child := os.fork()) == 0:
        send_offsets(prompt, [], b"", 0.5)  # type: ignore[arg-type]
        os._exit(len(prompt.callers))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 2
