"""Kafka's own exception is found behind whatever form it comes in."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from windrow.kafka.clients import error_of, own_exception

FENCED = KafkaException(KafkaError(KafkaError._FENCED))


def test_plain_exception_is_itself() -> None:
    assert own_exception(FENCED) is FENCED


def test_fatal_error_that_python_took_for_a_mistake_in_c_is_its_cause() -> None:
    mistaken = SystemError("a method returned a result with an exception set")
    mistaken.__cause__ = FENCED
    assert error_of(own_exception(mistaken)).code() == KafkaError._FENCED


def test_mistake_of_another_kind_is_raised_as_it_is() -> None:
    with pytest.raises(SystemError, match="of another kind"):
        own_exception(SystemError("of another kind"))
