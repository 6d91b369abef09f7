"""Whether a client is still in contact with its cluster, or has to be replaced.

librdkafka 2.16 forgets the brokers that a cluster does not name any more. One that names none, since its controller has
not heard of any for a moment, is taken at its word: the client then has nobody left to ask (its issue 5301), or waits
for ever for an answer from a broker that it has forgotten. Or it has its brokers, and reads nothing of a partition any
more after a broker's restart (its issue 5153). From outside, all of this looks like a quiet topic. Invariant: whoever
keeps a consumer for long looks whether it is lost, and goes on with another; and whoever keeps a producer, once nothing
arrives in time.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

_TELL_EVERY: Final = 4.0
_ASK_AFTER: Final = 5.0
_ANSWER_WITHIN: Final = 0.5
_LOST_AFTER: Final = 12.0
_COMPARE_AFTER: Final = 10.0
_COMPARE_AT_LEAST_EVERY: Final = 120.0
_COMPARE_AGAIN_AFTER: Final = 2.0
_COMPARED_WITHIN: Final = 5.0
_PART_WITHIN: Final = 5.0
_FLUSH_WITHIN: Final = 60.0
_JOIN_STATE: Final = re.compile(r'"join_state": ?"([^"]*)"')
_TAKING_PART: Final = frozenset({"steady", "wait-join", "wait-assign-call", "wait-unassign-call"})
"""What a member's state may be for long: other members keep it waiting, or its own process does."""


def part_from(client: Consumer | Producer, within: float = _PART_WITHIN) -> None:
    """Close a client that no other thread uses. That of one that is lost may never end: it is left behind after so many
    seconds.
    """

    def close() -> None:
        with suppress(KafkaException):  # what a producer had left to say, fenced for instance
            client.close()

    closing = threading.Thread(target=close, name="closing a client", daemon=True)
    closing.start()
    closing.join(within)


@contextmanager
def parting(client: Consumer) -> Iterator[Consumer]:
    """A client, while a context lasts."""
    try:
        yield client
    finally:
        part_from(client)


def unheard(error: KafkaError | None) -> bool:
    """Whether a record was not sent since nobody answered: its producer may be lost."""
    return error is not None and error.code() == KafkaError._MSG_TIMED_OUT  # noqa: SLF001 - librdkafka's own


def drop(producer: Producer) -> None:
    """Give up a producer that other threads may be using. What it has left it sends, if it can; it ends with the last
    of them.
    """
    threading.Thread(target=producer.flush, args=[_FLUSH_WITHIN], name="dropping a producer", daemon=True).start()


class Membership:
    """Of a consumer that has subscribed, as its client tells of itself whenever it is polled."""

    def __init__(self) -> None:
        self._told_at = time.monotonic()

    def config(self) -> dict[str, Any]:
        """What the consumer is to be configured with."""
        return {"statistics.interval.ms": int(_TELL_EVERY * 1000), "stats_cb": self.hear}

    def hear(self, statistics: str) -> None:
        state = _JOIN_STATE.search(statistics)
        if state and state[1] in _TAKING_PART:
            self._told_at = time.monotonic()

    def lost(self) -> bool:
        """Whether it has taken no part in its group for long; after a poll that brought nothing."""
        return time.monotonic() - self._told_at > _LOST_AFTER


class Contact:
    """Of a consumer that is told what to read; asks where nothing was heard for a while. Belongs to one thread."""

    def __init__(
        self, client: Consumer, topic: str, *, ask_after: float = _ASK_AFTER, lost_after: float = _LOST_AFTER
    ) -> None:
        self._client, self._topic, self._ask_after, self._lost_after = client, topic, ask_after, lost_after
        self.heard()

    def heard(self) -> None:
        """Something came: so there is a broker."""
        self._ask_at, self._silent_since = time.monotonic() + self._ask_after, 0.0

    def lost(self) -> bool:
        """Whether it has found no broker for long, or has been told that there is none."""
        if (now := time.monotonic()) < self._ask_at:
            return False
        try:
            brokers = self._client.list_topics(self._topic, timeout=_ANSWER_WITHIN).brokers
        except KafkaException:
            self._ask_at, self._silent_since = now + _ANSWER_WITHIN, self._silent_since or now
            return now - self._silent_since > self._lost_after
        self.heard()
        return not brokers


class Flow:
    """Whether a consumer is given what there is; compares it with another one where nothing came for a while. Belongs
    to one thread.
    """

    def __init__(self, config: Mapping[str, Any], standing: Callable[[], Sequence[TopicPartition]]) -> None:
        """With the configuration for another consumer, and a function that says where the first one stands."""
        self._config = {**config, "enable.partition.eof": True, "enable.auto.commit": False}
        self._standing = standing
        self.heard()

    def heard(self) -> None:
        """Something came, or nothing was asked for."""
        self._pause, self._suspect = _COMPARE_AFTER, False
        self._compare_at = time.monotonic() + _COMPARE_AFTER

    def stuck(self) -> bool:
        """Whether another consumer is given something that this one has not got, twice in a row."""
        if time.monotonic() < self._compare_at:
            return False
        places = self._standing()
        if not (places and self._behind(places)):
            self._pause, self._suspect = min(2 * self._pause, _COMPARE_AT_LEAST_EVERY), False
            self._compare_at = time.monotonic() + self._pause
            return False
        confirmed, self._suspect = self._suspect, True  # the first time, it may just have come
        self._compare_at = time.monotonic() + _COMPARE_AGAIN_AFTER
        return confirmed

    def _behind(self, places: Sequence[TopicPartition]) -> bool:
        """Whether there is a record behind one of these places."""
        ended, deadline = 0, time.monotonic() + _COMPARED_WITHIN
        with parting(Consumer(self._config)) as other:
            other.assign([*places])
            while ended < len(places) and time.monotonic() < deadline:
                for record in other.consume(1, _ANSWER_WITHIN):
                    if (error := record.error()) is None:
                        return True
                    ended += error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's own
        return False
