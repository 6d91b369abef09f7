"""Sending offsets to a transaction, within a time.

librdkafka 2.16 may wait for ever for a coordinator that has left the cluster, whatever time it is given (its issue
5511). So the call is made by a helper, which is left behind if it does not come back. Helpers are kept: to start one
for each transaction would take longer than all else that windrow does for it.
"""

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final

from confluent_kafka import Producer, TopicPartition

from windrow.errors import Interrupted

_ANSWER_WITHIN: Final = 5.0
_RETURNS_WITHIN: Final = 1.0


class _Helper(threading.Thread):
    """Makes calls, one at a time, in a thread of its own, until it is left behind."""

    def __init__(self) -> None:
        super().__init__(name="offsets", daemon=True)
        self.calls: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self.answers: SimpleQueue[BaseException | None] = SimpleQueue()
        self.left_behind = False
        self.start()

    def run(self) -> None:
        while not self.left_behind:
            call = self.calls.get()
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - raised to whoever waits
                self.answers.put(error)
            else:
                self.answers.put(None)
            del call  # and the producer with it


_idle: Final[list[_Helper]] = []
os.register_at_fork(after_in_child=_idle.clear)


class NeverReturned(Interrupted):
    """Kafka's client is still in the call: the producer is of no use any more."""


def send_offsets(
    producer: Producer, offsets: Sequence[TopicPartition], membership: Any, seconds: float = _ANSWER_WITHIN
) -> None:
    """Send offsets to the producer's transaction. Raises `NeverReturned` where that takes too long."""
    try:
        helper = _idle.pop()
    except IndexError:
        helper = _Helper()
    helper.calls.put(partial(producer.send_offsets_to_transaction, [*offsets], membership, seconds))
    error = _answer(helper, seconds + _RETURNS_WITHIN)
    if error is not None:
        raise error


def _answer(helper: _Helper, seconds: float) -> BaseException | None:
    try:
        error = helper.answers.get(timeout=seconds)
    except Empty:
        helper.left_behind = True
        raise NeverReturned("Kafka's client does not come back from sending offsets") from None
    _idle.append(helper)
    return error
