"""Transactions in Kafka's own protocol, without librdkafka between: fewer round trips, and records in columns.

A transaction is record batches, a position and its end. Kafka 4 (KIP-890) registers partitions as they are written to,
and gives the producer a new epoch with every end, so that nothing of an earlier transaction can come late.

Invariants:
- No record and no position is ever sent twice in a transaction. One that fails is aborted, or left open until `init`,
  here or of a successor, ends it.
- Only one request at a time makes the transaction larger: two would meet at its coordinator, and the one that loses is
  put off. Requests to one broker wait for each other there; another broker's are waited for here.
"""

import contextlib
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any, Final, Self

from confluent_kafka import KafkaError, TopicPartition

from windrow.errors import Interrupted, PublishFailed, RelayFenced
from windrow.kafka.clients import SETTLING
from windrow.kafka.statistics import Statistics
from windrow.publish.sending import refusal
from windrow.publish.transactor import FENCED, NO_MEMBER, SETTLE_WITHIN, TAKES_SOME_WITHIN, MembershipOver, NotYet
from windrow.record import Record
from windrow.wire import messages
from windrow.wire.batches import COMPRESSIONS, Batch, Encoder, Malformed, NoPartition
from windrow.wire.cluster import Cluster
from windrow.wire.codec import Reader
from windrow.wire.connection import Connection
from windrow.wire.messages import Member, Offset, Place, Producer, Refused
from windrow.wire.security import MECHANISMS, PROTOCOLS, asks_who_we_are, mechanism_of

_ABORT_WITHIN: Final = 5.0
_ASK_AGAIN_AFTER: Final = 0.02
_TELL_EVERY: Final = 5.0
_NOBODY: Final = Producer(-1, -1)
_SETTLING: Final = SETTLING | {KafkaError.CONCURRENT_TRANSACTIONS}
_MOVING: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # others know it
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
_PASSING: Final = _SETTLING | _MOVING
_WEIGHT: Final = dict.fromkeys(FENCED, 0) | dict.fromkeys(NO_MEMBER, 1) | dict.fromkeys(_PASSING, 2)
_ANY: Final = None
_UNDERSTOOD: Final[Mapping[str, tuple[str, ...] | None]] = {
    "acks": ("all", "-1"),
    "batch.size": _ANY,
    "bootstrap.servers": _ANY,
    "compression.codec": COMPRESSIONS,
    "compression.type": COMPRESSIONS,
    "enable.idempotence": ("true", "1"),
    "enable.ssl.certificate.verification": _ANY,
    "linger.ms": _ANY,  # a page is sent whole, and at once
    "log_level": _ANY,
    "message.max.bytes": _ANY,
    "partitioner": ("murmur2", "murmur2_random"),
    "request.required.acks": ("all", "-1"),
    "sasl.mechanism": MECHANISMS,
    "sasl.mechanisms": MECHANISMS,
    "sasl.password": _ANY,
    "sasl.username": _ANY,
    "security.protocol": PROTOCOLS,
    "ssl.ca.location": _ANY,
    "ssl.ca.pem": _ANY,
    "ssl.certificate.location": _ANY,
    "ssl.certificate.pem": _ANY,
    "ssl.endpoint.identification.algorithm": ("https", "none"),
    "ssl.key.location": _ANY,
    "ssl.key.password": _ANY,
    "ssl.key.pem": _ANY,
    "topic.metadata.propagation.max.ms": _ANY,
    "topic.metadata.refresh.interval.ms": _ANY,
    "transaction.timeout.ms": _ANY,
}


def not_understood(given: Mapping[str, str]) -> list[str]:
    """Of all that a user has set for his producers, what means nothing here; librdkafka knows it."""
    foreign = [
        name
        for name, value in given.items()
        if (choices := _UNDERSTOOD.get(name, ())) is not _ANY
        and str(value).lower() not in {each.lower() for each in choices}
    ]
    by_kerberos = asks_who_we_are(given) and not mechanism_of(given)
    return [*foreign, "security.protocol"] if by_kerberos else foreign


@dataclass(frozen=True, slots=True)
class _Options:
    transaction_ms: int
    largest: int
    """Bytes of a request, and so of a record."""
    batch_size: int
    compression: str
    unknown_for: float
    """Seconds that a topic may be unknown before its records are refused."""
    refresh: float

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        largest = int(config["message.max.bytes"])
        return cls(
            int(config["transaction.timeout.ms"]),
            largest,
            min(int(config.get("batch.size", 1_000_000)), largest),
            str(config.get("compression.type") or config.get("compression.codec") or "none").lower(),
            int(config["topic.metadata.propagation.max.ms"]) / 1000,
            int(config.get("topic.metadata.refresh.interval.ms", 300_000)) / 1000,
        )


def member_of(membership: bytes) -> Member:
    """What librdkafka keeps of a consumer's membership in its group."""
    magic, generation, names = membership[:7], membership[7:11], membership[11:].split(b"\0", 2)
    if magic != b"CGMDv2:" or len(names) < 3:
        raise Interrupted("the leader's membership in its group is in a form that is not known here")
    group, member, instance = names
    named = None if instance[:1] == b"\1" else instance[1:-1].decode()
    return Member(group.decode(), int.from_bytes(generation, sys.byteorder, signed=True), member.decode(), named)


class DirectTransactor:
    """A producer with a transactional id; `init` ends and fences whoever had it before."""

    def __init__(self, config: Mapping[str, Any], statistics: Statistics | None = None) -> None:
        self._id = str(config["transactional.id"])
        self._options, self._statistics = _Options.of(config), statistics
        within = self._options.unknown_for + TAKES_SOME_WITHIN
        self._cluster = Cluster(config, within, self._options.refresh)
        self._coordinator: Connection | None = None
        self._groups: dict[str, Connection] = {}
        self._who = _NOBODY
        self._sequences: defaultdict[Place, int] = defaultdict(int)
        self._waiting: deque[tuple[Connection, Callable[[Reader], list[Refused]]]] = deque()
        self.in_transaction = False
        self._tell_at, self._failures, self._round_trip = 0.0, 0, 0.0

    @property
    def speaks_all(self) -> bool:
        """Whether the brokers do; otherwise nothing else may be asked of it."""
        return self._cluster.speaks_all

    def connect(self) -> None:
        """Find the coordinator; nobody is disturbed."""
        self._coordinator = self._cluster.coordinator(self._id, transactional=True, within=SETTLE_WITHIN)

    def init(self) -> None:
        request = messages.init_producer_id(self._id, self._options.transaction_ms)
        self._who = self._coordinated(messages.INIT_PRODUCER_ID, request, SETTLE_WITHIN)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Records may be sent; nothing is committed before `finish`."""
        self._sequences.clear()
        try:
            yield
        except (PublishFailed, MembershipOver, NotYet):
            self._abort()
            raise
        except (Interrupted, RelayFenced):
            self._failures += 1
            raise

    def send(self, source: bytes, records: Sequence[Record]) -> None:
        leading = defaultdict[int, list[Batch]](list)
        for batch in self._encoded(source, records):
            leading[self._leaders(batch.place.topic)[batch.place.partition]].append(batch)
        for node, led in leading.items():
            self._produce(self._cluster.node(node), led)

    def flush(self) -> None:
        """Wait until Kafka has taken what was sent."""
        began, refused = time.monotonic(), list[Refused]()
        while self._waiting:
            connection, read = self._waiting.popleft()
            refused += connection.receive(read)
        self._round_trip = time.monotonic() - began
        if refused:
            self._refuse(refused)

    def finish(self, offsets: list[TopicPartition], membership: bytes) -> None:
        """Commit what was sent and the offsets as one; in a `transaction`."""
        self.send_offsets(offsets, membership)
        self.flush()
        self.end(commit=True)
        self.listen()

    def send_offsets(self, offsets: list[TopicPartition], membership: bytes) -> None:
        member = member_of(membership)
        # With a zero at the end, as librdkafka, which reads them, expects it of itself.
        kept = [Offset(Place(each.topic, each.partition), each.offset, f"{each.metadata}\0") for each in offsets]
        request = messages.txn_offset_commit(self._id, self._who, member, kept)
        self._enlarge(self._group(member.group), messages.refused_offsets, messages.TXN_OFFSET_COMMIT, request)

    def end(self, *, commit: bool, within: float = SETTLE_WITHIN) -> None:
        request = messages.end_txn(self._id, self._who, commit=commit)
        self._who = self._coordinated(messages.END_TXN, request, within)
        self.in_transaction = False

    def listen(self) -> None:
        """Now and then, keep connections and tell how they are."""
        self._cluster.keep()
        if self._statistics and time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + _TELL_EVERY
            connections = self._cluster.connections
            self._statistics.hear(
                self._id,
                {
                    "sent_bytes": sum(each.sent_bytes for each in connections),
                    "requests": sum(each.requests for each in connections),
                    "queued_messages": 0,
                    "errors": self._failures,
                    "round_trip": self._round_trip,
                },
            )

    def close(self) -> None:
        """Leave no transaction open where Kafka can still be told; otherwise the successor ends it."""
        with contextlib.suppress(Interrupted, RelayFenced):
            self._abort()
        self._cluster.close()

    def _coordinated(self, api: messages.Api, request: bytes, within: float) -> Producer:
        """Ask the coordinator, and again where it is about to end a transaction, or another one coordinates: Kafka
        knows by the producer's epoch what is meant, and does it once.
        """
        deadline = time.monotonic() + within
        while True:
            if self._coordinator is None:
                self.connect()
                continue
            error, who = self._coordinator.call(api, request, messages.producer, within)
            if not error:
                return who
            if error not in _SETTLING or time.monotonic() > deadline:
                self._raise(error)
            if error != KafkaError.CONCURRENT_TRANSACTIONS:
                self._coordinator = None
            time.sleep(_ASK_AGAIN_AFTER)

    def _encoded(self, source: bytes, records: Sequence[Record]) -> list[Batch]:
        encoder = Encoder(source, self._options.batch_size, self._options.compression)
        try:
            with contextlib.suppress(NoPartition):
                return encoder.encode(records, self._partitions)
            self._cluster.forget()  # the topic may have grown
            return encoder.encode(records, self._partitions)
        except Malformed as why:
            raise PublishFailed(str(why), why.topic) from why

    def _group(self, group: str) -> Connection:
        if group not in self._groups:
            self._groups[group] = self._cluster.coordinator(group, transactional=False, within=SETTLE_WITHIN)
        return self._groups[group]

    def _leaders(self, topic: str) -> Mapping[int, int]:
        found = self._cluster.topic(topic, self._options.unknown_for)
        if found.error:
            error = _error(found.error, "")
            raise refusal(error, topic) or Interrupted(f"Kafka broke off: topic {topic}: {error.str()}")
        return found.leaders

    def _partitions(self, topic: str) -> int:
        return len(self._leaders(topic))

    def _produce(self, connection: Connection, batches: list[Batch]) -> None:
        """A request holds one batch of a partition at the most, and no more bytes than a broker takes."""
        rounds = defaultdict[int, list[Batch]](list)
        for _, of_place in groupby(sorted(batches, key=lambda batch: batch.place), lambda batch: batch.place):
            for number, batch in enumerate(of_place):
                rounds[number].append(batch)
        for number, each in enumerate(chain.from_iterable(map(self._fitting, rounds.values()))):
            if number:  # its answer may say that the broker does not listen for a while
                self.flush()
            topics: defaultdict[str, dict[int, list[messages.Piece]]] = defaultdict(dict)
            for batch in each:
                stamped = batch.stamped(self._who, self._sequences[batch.place], self._options.compression)
                topics[batch.place.topic][batch.place.partition] = stamped
                self._sequences[batch.place] += batch.count
            request = messages.produce(self._id, self._options.transaction_ms, topics)
            self._enlarge(connection, messages.refused, messages.PRODUCE, *request)

    def _fitting(self, batches: Iterable[Batch]) -> Iterator[list[Batch]]:
        largest, taken, size = self._options.largest, list[Batch](), 0
        for batch in batches:
            if len(batch.records) > largest:
                topic, limit = batch.place.topic, f"{largest:,} bytes (message.max.bytes)"
                raise PublishFailed(f"topic {topic}: a record of more than {limit}", topic)
            if size + len(batch.records) > largest:
                yield taken
                taken, size = [], 0
            taken.append(batch)
            size += len(batch.records)
        yield taken

    def _enlarge(
        self,
        connection: Connection,
        read: Callable[[Reader], list[Refused]],
        api: messages.Api,
        *request: messages.Piece,
    ) -> None:
        if any(other is not connection for other, _ in self._waiting):
            self.flush()
        self.in_transaction = True
        connection.send(api, *request)
        self._waiting.append((connection, read))

    def _abort(self) -> None:
        if not self.in_transaction:
            return
        while self._waiting:
            connection, read = self._waiting.popleft()
            connection.receive(read, _ABORT_WITHIN)
        self.in_transaction = False  # or the connection is broken: one try is enough
        self.end(commit=False, within=_ABORT_WITHIN)

    def _refuse(self, refused: Sequence[Refused]) -> None:
        """Raise what weighs most: a record refused for good, which may be why the rest is, then being fenced. No record
        is to blame where a position is refused.
        """
        for place, code, reason in refused:
            of_records = place in self._sequences and code not in _PASSING
            if of_records and (error := refusal(_error(code, reason), place.topic)):
                raise error
        worst = min(refused, key=lambda each: _WEIGHT.get(each.error, len(_WEIGHT)))
        self._raise(worst.error, worst.reason)

    def _raise(self, code: int, reason: str = "") -> None:
        told = _error(code, reason).str()
        if code in FENCED:
            raise RelayFenced(f"another has taken over: {told}")
        if code in NO_MEMBER:
            raise MembershipOver(f"the group has moved on: {told}")
        if code in _PASSING:
            self._groups.clear()
            self._cluster.forget()
            raise NotYet(f"Kafka broke off: {told}")
        raise Interrupted(f"Kafka broke off: {told}")


def _error(code: int, reason: str) -> KafkaError:
    return KafkaError(code, reason) if reason else KafkaError(code)
