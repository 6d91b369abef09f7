"""Event state capture: what was published is applied, once, and nothing else is."""

import os
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

from fix_consumer import Consuming
from windrow import Message, embedded
from windrow.errors import KafkaUnreachable, MessageInvalid
from windrow.inbox import ConsumerSettings, OwnEvents
from windrow.inbox.own_events import Published
from windrow.inbox.work import Place
from windrow.kafka.clients import create_topic

EXAMPLE = Path(__file__).parents[2] / "examples" / "services" / "event_state.py"


def test_an_event_is_applied_once_it_comes_back(consuming: Consuming) -> None:
    topic = consuming.settings.topics[0]
    events = OwnEvents(consuming.settings)
    try:
        first = events.publish(Message(topic, "7", partition=1, headers={"a": "b"}), event_id="seven")
        assert (first.place, first.offset) == (Place(topic, 1), 0)
        assert events.applied(first, timeout=0.1) is False, "nobody consumes yet"
        with consuming.consumer():
            again = events.publish(Message(topic, "7", partition=1), event_id="seven")
            other = events.publish(Message(topic, "8", partition=1))
            assert [events.applied(each, timeout=60) for each in (first, again, other)] == [True, True, True]
            assert consuming.effects() == {7: 1, 8: 1}
            assert events.applied(Published(Place(topic, 1), 99), timeout=0.1) is False
    finally:
        events.close()


def test_a_topic_that_nobody_consumes_is_refused(consuming: Consuming) -> None:
    events = OwnEvents(consuming.settings)
    with pytest.raises(MessageInvalid, match=r"consumes .* alone"):
        events.publish(Message("another", "1"))
    events.close()


def test_what_kafka_did_not_take_is_told(consuming: Consuming) -> None:
    nowhere = ConsumerSettings(
        base_kafka_config={"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": "500"},
        group="g",
        topics=("t",),
        data_source=consuming.settings.data_source,
    )
    events = OwnEvents(nowhere)
    began = time.monotonic()
    with pytest.raises(KafkaUnreachable, match="publish it again, under the same id"):
        events.publish(Message("t", "1"), event_id="one")
    assert time.monotonic() - began < 20


def test_the_example_deposits_once(postgres: embedded.Postgres, kafka: embedded.Kafka) -> None:
    name = f"own_{uuid4().hex[:8]}"
    environment = {
        "KAFKA": kafka.client_config["bootstrap.servers"],
        "DATABASE": postgres.url,
        "GROUP": name,
        "TOPIC": name,
    }
    settings = ConsumerSettings(base_kafka_config=kafka.client_config, group=name, topics=(name,))
    create_topic(settings, name, 1)
    run = subprocess.run(
        [sys.executable, EXAMPLE], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert run.stdout == "applied: True True\nalice has (1200,)\n", run.stderr
