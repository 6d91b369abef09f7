"""A queue at work: messages that come through the outbox, workers that take them one by one, and a tracker.

A worker notes a message when it has it in its hands, when it is about to acknowledge it, and when Kafka has said that
this was in time. What it had when it was killed is another's then; what it was about to acknowledge may be nobody's.
"""

import random
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from windrow.errors import Interrupted, LeaseLost
from windrow.lab.child import Child, told_to_stop
from windrow.lab.history import QUEUED, Handling, Journal, Sent, read_journal
from windrow.lab.receiver import Receiver
from windrow.queue import QueueConsumer, QueueMessage, QueueSettings
from windrow.queue.topics import create_topics
from windrow.queue.tracker import Tracker

QUEUE: Final = "lab"
_HANDLED: Final = "handled"
_LEASE: Final = timedelta(seconds=3)
_USUALLY: Final = 0.01
_LONG: Final = 1.5 * _LEASE.total_seconds()
_LONG_SHARE, _NACK_SHARE = 0.01, 0.1
_LATER: Final = timedelta(milliseconds=200)
_COMES_AGAIN_WITHIN: Final = 20.0


def settings_of_queues(kafka: Mapping[str, str]) -> QueueSettings:
    """Short leases, so that they run out in every run; and nobody gives a message up."""
    return QueueSettings(
        base_kafka_config=kafka, redelivery_timeout=_LEASE, max_attempts=1_000_000, spark={"master": "local[4]"}
    )


@dataclass(frozen=True, slots=True)
class Queue:
    """Whoever has to do with the queue."""

    receiver: Receiver
    """Of what the relays have published for it."""
    worker: Child
    """One that faults are done to, and another that has its peace."""
    other: Child
    tracker: Child

    @property
    def children(self) -> tuple[Child, ...]:
        return (self.worker, self.other, self.tracker)


@contextmanager
def open_queue(direct: Mapping[str, str], disturbed: Mapping[str, str], folder: Path) -> Iterator[Queue]:
    """A queue that is received from directly, and reached by its workers and its tracker in a way that is disturbed;
    these are still to be started.
    """
    settings, reached = settings_of_queues(direct), dict(disturbed)
    create_topics(settings)
    (folder / _HANDLED).mkdir(exist_ok=True)
    one, other = (Child(folder / f"{name}.log", run_worker, reached, folder, name) for name in ("worker-1", "worker-2"))
    with Receiver(settings, settings.message_topic) as receiver:
        yield Queue(receiver, one, other, Child(folder / "tracker.log", run_tracker, reached))


def run_worker(kafka: Mapping[str, str], folder: Path, name: str) -> None:
    """Take messages until SIGTERM. To be run in a process of its own."""
    stop = told_to_stop()
    journal = Journal(folder / _HANDLED / f"{name}.jsonl")
    chance = random.Random(f"{name} {journal.number}")  # noqa: S311 - no secret
    with QueueConsumer(settings_of_queues(kafka), QUEUE) as consumer:
        while not stop.is_set():
            if message := consumer.receive(0.2):
                _handle(journal, message, chance)


def _handle(journal: Journal, message: QueueMessage, chance: random.Random) -> None:
    """Most take some milliseconds, some longer than a lease; some are given back."""
    identity = (message.payload or b"").split(b" ", 1)[0].decode()
    got = time.monotonic()
    number = journal.begin([Sent(identity, QUEUED, 0)], got)
    journal.end(number, "failed", at=got)  # so far
    time.sleep(_LONG if chance.random() < _LONG_SHARE else chance.expovariate(1 / _USUALLY))
    try:
        if chance.random() < _NACK_SHARE:
            message.nack(delay=_LATER)
        else:
            journal.end(number, "unknown")
            message.ack(wait=True)
            journal.end(number, "ok")
    except LeaseLost:
        journal.end(number, "failed", at=got)
    except Interrupted:  # nobody knows whether Kafka has the acknowledgement
        return


def run_tracker(kafka: Mapping[str, str]) -> None:
    """Redeliver until SIGTERM. To be run in a process of its own."""
    with Tracker(settings_of_queues(kafka)) as tracker:
        stop = told_to_stop()  # only now: Spark takes Ctrl-C for itself
        while not stop.wait(0.1) and not tracker.wait(0):
            pass
    tracker.wait()


def done(handled: Iterable[Handling], now: float) -> Iterator[str]:
    """Messages that nobody is going to get any more: those that were acknowledged; and those that a worker was about to
    acknowledge when it was killed, if no other has got them since. It may have said so, and not have noted it.
    """
    for each in handled:
        if each.outcome == "ok" or (each.outcome == "unknown" and now > each.began + _COMES_AGAIN_WITHIN):
            yield each.message


def read_handlings(folder: Path) -> list[Handling]:
    """What all workers had in their hands. One that was in time held its lease until then; of others nothing is known
    but that they had it.
    """
    operations = [each for path in sorted((folder / _HANDLED).glob("*.jsonl")) for each in read_journal(path)]
    return [
        Handling(sent.id, each.began, each.ended if each.outcome == "ok" else each.began, each.outcome, each.ended)
        for each in operations
        for sent in each.messages
    ]
