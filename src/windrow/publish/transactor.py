"""One transactional producer: its transactions are whole or not there, and what Kafka says is told in our words.

Invariant: after an error that leaves the producer usable no transaction is open, so that a part of its records can be
tried. Every transaction shows a membership of the leader's group, and Kafka refuses one that is over.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from windrow.errors import Interrupted, PublishFailed, RelayFenced
from windrow.kafka.clients import error_of, own_exception
from windrow.kafka.contact import part_from
from windrow.kafka.offsets import NeverReturned, send_offsets
from windrow.publish.sending import refusal, send
from windrow.record import Record

SETTLE_WITHIN: Final = 30.0
TAKES_SOME_WITHIN: Final = 5.0
_ABORT_WITHIN: Final = 5.0
_OUT_OF_THE_WAY_WITHIN: Final = 5.0
_TRY_AGAIN_AFTER: Final = 0.02
FENCED: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - librdkafka's own codes start with an underscore
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
    }
)
NO_MEMBER: Final = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
    }
)


class MembershipOver(RelayFenced):
    """The leader whose membership this is leads no more, or in a new generation."""


class NotYet(Interrupted):
    """What was before it is in the way of a transaction: aborted, the same one goes through again. Kafka may still be
    ending the producer's last one; librdkafka aborts the first one after another with a refused record.
    """


class Transactor:
    """A producer with a transactional id; `init` ends and fences whoever had it before."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._refusals: list[PublishFailed] = []
        self._in_transaction = self._stuck = False
        unknown_for = int(config["topic.metadata.propagation.max.ms"]) / 1000  # a topic, before its records are refused
        self._takes_some_within = unknown_for + TAKES_SOME_WITHIN
        self.producer = Producer({**config, "delivery.report.only.error": True, "on_delivery": self._refused})

    def init(self) -> None:
        with self.translated():
            self.producer.init_transactions(SETTLE_WITHIN)

    def connect(self) -> None:
        """Have a connection; nobody is disturbed."""
        with self.translated():
            self.producer.list_topics(timeout=SETTLE_WITHIN)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Records may be sent; nothing is committed before `finish`."""
        with self.translated():
            self._refusals.clear()
            self.producer.begin_transaction()
            self._in_transaction = True
            yield

    def send(self, source: bytes, records: Sequence[Record]) -> None:
        send(self.producer, source, records)

    def listen(self) -> None:
        """Let the client say what it has to say."""
        with self.translated():
            self.producer.poll(0)

    def flush(self) -> None:
        """Wait until Kafka has taken what was sent, for as long as it takes any of it."""
        left = len(self.producer)
        while left:
            before, left = left, self.producer.flush(self._takes_some_within)
            if left >= before:
                raise Interrupted(f"Kafka has taken nothing for {self._takes_some_within:.0f} s")

    def finish(self, offsets: list[TopicPartition], membership: bytes) -> None:
        """Commit what was sent and the offsets as one; in a `transaction`.

        Records first: beside them, offsets would race at the coordinator, and the loser tries again 100 ms later.
        """
        self.flush()
        try:
            send_offsets(self.producer, offsets, membership)
        except NeverReturned:
            self._stuck = True
            raise
        self.producer.commit_transaction(SETTLE_WITHIN)
        self._in_transaction = False

    def close(self) -> None:
        """Leave no transaction open where Kafka can still be told; otherwise the successor ends it."""
        if self._stuck:
            return  # somebody is still in there
        if self._in_transaction:
            with contextlib.suppress(KafkaException):
                self.producer.abort_transaction(_ABORT_WITHIN)
        self.producer.purge()
        part_from(self.producer, within=0.0)

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        try:
            yield
        except PublishFailed:  # before a broker was asked
            self._abort()
            raise
        except (KafkaException, SystemError) as raised:
            exception = own_exception(raised)
            error = error_of(exception)
            if self._in_transaction and (self._refusals or error.txn_requires_abort()):
                self._abort()  # which also brings the reports of what failed
            if self._refusals:
                raise self._refusals[0] from exception
            if error.code() in FENCED:
                raise RelayFenced(f"another has taken over: {error.str()}") from exception
            if error.code() in NO_MEMBER:
                raise MembershipOver(f"the group has moved on: {error.str()}") from exception
            if error.code() == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise NotYet(f"Kafka broke off: {error.str()}") from exception
            raise Interrupted(f"Kafka broke off: {error.str()}") from exception

    def _abort(self) -> None:
        try:
            self.producer.abort_transaction(_ABORT_WITHIN)
        except KafkaException as exception:
            raise Interrupted(f"Kafka broke off: {error_of(exception).str()}") from exception
        self._in_transaction = False

    def _refused(self, error: KafkaError, message: Message) -> None:
        if refused := refusal(error, message.topic() or "?"):
            self._refusals.append(refused)


def persist(attempt: Callable[[], None]) -> None:
    """Make a transaction, and the same one again while what was before it is in its way."""
    deadline = time.monotonic() + _OUT_OF_THE_WAY_WITHIN
    while True:
        try:
            return attempt()
        except NotYet:
            if time.monotonic() > deadline:
                raise
            time.sleep(_TRY_AGAIN_AFTER)
