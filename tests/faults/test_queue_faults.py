"""Consumers of queues that die at every step, brokers that go away, clocks that are wrong; with a tracker at work."""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fix_pipeline import wait_for
from fix_queue import Queues, queue_settings
from windrow import embedded
from windrow.queue import QueueConsumer, QueueProducer, QueueSettings

pytestmark = pytest.mark.faults

MESSAGES = 10
STEPS = {
    "before the start marker": 0,
    "after the start marker": 0,
    "before the commit": 0,
    "after the commit": 0,
    "in the handler": 1,
    "before the end marker": 1,
    "after the end marker": 0,
}
"""And how many messages may have been handled twice."""
DYING = """
import os, signal, sys
import windrow.queue.intake as intake
from windrow.queue import QueueConsumer, QueueSettings
config, topic, queue, step, path = eval(sys.argv[1])

def die():
    os.kill(os.getpid(), signal.SIGKILL)

class Producer(intake.Producer):
    def produce(self, *arguments, **more):
        if step == "before the start marker":
            die()
        super().produce(*arguments, **more)

    def flush(self, *arguments):
        left = super().flush(*arguments)
        if step == "after the start marker":
            die()
        return left

    def commit_transaction(self, *arguments):
        if step == "before the commit":
            die()
        super().commit_transaction(*arguments)
        if step == "after the commit":
            die()

intake.Producer = Producer
settings = QueueSettings.load(environment={}, base_kafka_config=config, message_topic=topic, redelivery_timeout="2s")
handled = open(path, "ab", buffering=0)
for message in QueueConsumer(settings, queue):
    handled.write(message.payload + b"\\n")
    if step == "in the handler":
        die()
    if step == "after the end marker":
        message.ack(wait=True)
        die()
    message.ack()
    if step == "before the end marker":
        die()
"""


@pytest.mark.timeout(240)
def test_consumer_killed_at_any_step_loses_nothing_and_repeats_what_it_had_begun(
    make_queues: Callable[..., Queues], tmp_path: Path
) -> None:
    queues = make_queues(redelivery_timeout="2s")
    config = {**queues.settings.base_kafka_config, "session.timeout.ms": "6000"}
    settings = QueueSettings.load(
        environment={}, base_kafka_config=config, message_topic=queues.settings.message_topic, redelivery_timeout="2s"
    )
    with QueueProducer(settings) as producer:
        for step in STEPS:
            producer.send_many(step, [str(number).encode() for number in range(MESSAGES)])
    handled = {step: tmp_path / step for step in STEPS}
    with queues.tracker():
        dying = [
            subprocess.Popen(
                [sys.executable, "-c", DYING, repr((config, settings.message_topic, step, step, str(path)))],
                env=os.environ,
            )
            for step, path in handled.items()
        ]
        for each in dying:
            assert each.wait(60) == -9
        consumers = [QueueConsumer(settings, step) for step in STEPS]
        threads = [threading.Thread(target=_handle, args=[each, handled[each.queue]]) for each in consumers]
        for thread in threads:
            thread.start()
        for step, path in handled.items():
            wait_for(lambda path=path: len(_counts(path)) == MESSAGES, f"all messages, killed {step}")  # type: ignore[misc]
        time.sleep(3)  # what was to come twice would have come
        for consumer in consumers:
            consumer.close()
        for thread in threads:
            thread.join(30)
    twice = {step: sum(count - 1 for count in _counts(path).values()) for step, path in handled.items()}
    assert twice == STEPS


def _handle(consumer: QueueConsumer, path: Path) -> None:
    for message in consumer:
        with path.open("ab") as file:
            file.write((message.payload or b"") + b"\n")
        message.ack()


def _counts(path: Path) -> Counter[bytes]:
    return Counter(path.read_bytes().split()) if path.exists() else Counter()


def test_broker_restarted_under_a_consumer_that_goes_on_by_itself() -> None:
    with embedded.Kafka() as kafka:
        settings = queue_settings(kafka.client_config, redelivery_timeout="60s")
        got: Counter[bytes | None] = Counter()
        consumer = QueueConsumer(settings, "emails")

        def work() -> None:
            for message in consumer:
                got[message.payload] += 1
                message.ack()

        thread = threading.Thread(target=work)
        thread.start()
        with QueueProducer(settings) as producer:
            producer.send_many("emails", [str(number).encode() for number in range(500)])
            kafka.restart()
            producer.send_many("emails", [str(number).encode() for number in range(500, 1000)])
        wait_for(lambda: len(got) == 1000, "all messages", 60)
        consumer.close()
        thread.join(30)
        assert set(got.values()) == {1}
        assert consumer.lost == 0


@pytest.mark.parametrize("hours", [-1, 1])
def test_clock_that_is_an_hour_off_changes_nothing(
    make_queue_settings: Callable[..., QueueSettings], monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + hours * 3600)
    settings = make_queue_settings(redelivery_timeout="2s")
    with QueueProducer(settings) as producer:
        producer.send("emails", b"1")
    with QueueConsumer(settings, "emails") as consumer:
        message = consumer.receive(30)
        assert message is not None
        time.sleep(3)
        message.ack(wait=True)
        assert consumer.lost == 0
