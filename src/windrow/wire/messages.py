"""Requests and their answers, of the versions that Kafka 4.0 and later speak.

A request is bytes, or several pieces of them where it carries records; an answer is read into what its caller needs.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from windrow.wire.codec import NO_TAGS, Reader, array, text, unsigned

Piece: TypeAlias = bytes | bytearray | memoryview
_NO_LEADER_EPOCH: Final = -1
_ALL: Final = -1


class Api(NamedTuple):
    """A kind of request, in the version that is used here."""

    key: int
    version: int
    flexible: bool = True
    plain_answer: bool = False
    """Whether the answer's head has no tags, although the request's has."""


PRODUCE: Final = Api(0, 12)
METADATA: Final = Api(3, 12)
FIND_COORDINATOR: Final = Api(10, 4)
SASL_HANDSHAKE: Final = Api(17, 1, flexible=False)
API_VERSIONS: Final = Api(18, 3, plain_answer=True)
INIT_PRODUCER_ID: Final = Api(22, 4)
END_TXN: Final = Api(26, 5)
TXN_OFFSET_COMMIT: Final = Api(28, 5)
SASL_AUTHENTICATE: Final = Api(36, 2)

NEEDED: Final = (PRODUCE, METADATA, FIND_COORDINATOR, INIT_PRODUCER_ID, END_TXN, TXN_OFFSET_COMMIT)
_TRANSACTIONS: Final = "transaction.version"
_WITHOUT_REGISTRATION: Final = 2


class Producer(NamedTuple):
    """Whom Kafka takes a transaction from: a number for the transactional id, and how often it was taken over."""

    number: int
    epoch: int


class Node(NamedTuple):
    """A broker's address."""

    number: int
    host: str
    port: int


class Topic(NamedTuple):
    """A topic as a broker knows it: what is wrong with it, and who leads each partition."""

    error: int
    leaders: Mapping[int, int]


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Offset(NamedTuple):
    """What a group commits for a partition."""

    place: Place
    offset: int
    metadata: str


class Member(NamedTuple):
    """Whose commits of offsets a group's coordinator takes."""

    group: str
    generation: int
    member: str
    instance: str | None


def head(api: Api, correlation: int, client: str) -> bytes:
    name = client.encode()
    fixed = struct.pack(">hhih", api.key, api.version, correlation, len(name)) + name
    return fixed + NO_TAGS if api.flexible else fixed


def answered(api: Api, answer: memoryview) -> tuple[int, Reader]:
    """Which request an answer is for, and what it says."""
    reader = Reader(answer)
    correlation = reader.number("i")
    if api.flexible and not api.plain_answer:
        reader.tags()
    return correlation, reader


def sasl_authenticate(step: bytes) -> bytes:
    return unsigned(len(step) + 1) + step + NO_TAGS


def first_error(answer: Reader) -> int:
    return answer.number("h")


def authenticated(answer: Reader) -> tuple[int, str, bytes]:
    """An error and its reason, or what the broker says."""
    return answer.number("h"), answer.text(), answer.content() or b""


def api_versions(version: str) -> bytes:
    return text("windrow") + text(version) + NO_TAGS


def has_all(answer: Reader) -> bool:
    """Whether a broker knows all requests that are needed, and its cluster has agreed on the newer transactions."""
    if answer.number("h"):
        return False

    def known() -> tuple[int, range]:
        key, lowest, highest = answer.take("hhh")
        answer.tags()
        return key, range(lowest, highest + 1)

    versions = dict(answer.array(known))
    answer.number("i")
    level = _levels(answer.tags().get(2)).get(_TRANSACTIONS, 0)
    return level >= _WITHOUT_REGISTRATION and all(api.version in versions.get(api.key, ()) for api in NEEDED)


def _levels(features: Reader | None) -> dict[str, int]:
    """What a cluster has agreed on."""
    if features is None:
        return {}

    def one() -> tuple[str, int]:
        name = features.text()
        highest, _ = features.take("hh")
        features.tags()
        return name, highest

    return dict(features.array(one))


def metadata(topics: Iterable[str]) -> bytes:
    """Asking for a topic creates it, where the brokers permit that."""
    asked = array(bytes(16) + text(topic) + NO_TAGS for topic in topics)
    return asked + struct.pack(">??", True, False) + NO_TAGS


def described(answer: Reader) -> tuple[list[Node], dict[str, Topic]]:
    answer.throttled()

    def node() -> Node:
        number = answer.number("i")
        host = answer.text()
        port = answer.number("i")
        answer.content()
        answer.tags()
        return Node(number, host, port)

    def partition() -> tuple[int, int]:
        _, index, leader, _ = answer.take("hiii")
        for _ in range(3):
            answer.array(lambda: answer.number("i"))
        answer.tags()
        return index, leader

    def topic() -> tuple[str, Topic]:
        error, name = answer.number("h"), answer.text()
        answer.uuid()
        answer.number("?")
        leaders = dict(answer.array(partition))
        answer.number("i")
        answer.tags()
        return name, Topic(error, leaders)

    nodes = answer.array(node)
    answer.content()
    answer.number("i")
    return nodes, dict(answer.array(topic))


def find_coordinator(key: str, *, transactional: bool) -> bytes:
    return struct.pack(">b", transactional) + array([text(key)]) + NO_TAGS


def coordinator(answer: Reader) -> tuple[int, Node]:
    """An error, or who coordinates."""
    answer.throttled()

    def one() -> tuple[int, Node]:
        answer.text()
        number = answer.number("i")
        host = answer.text()
        port, error = answer.take("ih")
        answer.content()
        answer.tags()
        return error, Node(number, host, port)

    return answer.array(one)[0]


def init_producer_id(transactional_id: str, timeout_ms: int) -> bytes:
    return text(transactional_id) + struct.pack(">iqh", timeout_ms, -1, -1) + NO_TAGS


def producer(answer: Reader) -> tuple[int, Producer]:
    """An error, or who the producer is from now on: both after it began and after a transaction has ended."""
    answer.throttled()
    error, number, epoch = answer.take("hqh")
    return error, Producer(number, epoch)


def produce(
    transactional_id: str, timeout_ms: int, batches: Mapping[str, Mapping[int, Sequence[Piece]]]
) -> list[Piece]:
    """Record batches, one for a partition, of pieces that are sent as they are."""
    pieces: list[Piece] = [
        text(transactional_id) + struct.pack(">hi", _ALL, timeout_ms) + unsigned(len(batches) + 1),
    ]
    for topic, partitions in batches.items():
        pieces.append(text(topic) + unsigned(len(partitions) + 1))
        for index, batch in partitions.items():
            size = sum(map(len, batch))
            pieces += [struct.pack(">i", index) + unsigned(size + 1), *batch, NO_TAGS]
        pieces.append(NO_TAGS)
    pieces.append(NO_TAGS)
    return pieces


class Refused(NamedTuple):
    """What a broker would not take."""

    place: Place
    error: int
    reason: str


def refused(answer: Reader) -> list[Refused]:
    """What was not taken of record batches."""

    def partition(topic: str) -> Refused:
        index, error, *_ = answer.take("ihqqq")
        reasons = answer.array(lambda: (answer.number("i"), answer.text(), answer.tags())[1])
        reason = answer.text()
        answer.tags()
        return Refused(Place(topic, index), error, reason or "; ".join(filter(None, reasons)))

    found = _refused(answer, partition)
    answer.throttled()
    return found


def txn_offset_commit(transactional_id: str, who: Producer, member: Member, offsets: Iterable[Offset]) -> bytes:
    topics: dict[str, list[bytes]] = {}
    for place, offset, said in offsets:
        partition = struct.pack(">iqi", place.partition, offset, _NO_LEADER_EPOCH) + text(said) + NO_TAGS
        topics.setdefault(place.topic, []).append(partition)
    return b"".join(
        (
            text(transactional_id),
            text(member.group),
            struct.pack(">qhi", *who, member.generation),
            text(member.member),
            text(member.instance),
            array(text(topic) + array(partitions) + NO_TAGS for topic, partitions in topics.items()),
            NO_TAGS,
        )
    )


def refused_offsets(answer: Reader) -> list[Refused]:
    answer.throttled()

    def partition(topic: str) -> Refused:
        index, error = answer.take("ih")
        answer.tags()
        return Refused(Place(topic, index), error, "")

    return _refused(answer, partition)


def end_txn(transactional_id: str, who: Producer, *, commit: bool) -> bytes:
    return text(transactional_id) + struct.pack(">qh?", *who, commit) + NO_TAGS


def _refused(answer: Reader, partition: Callable[[str], Refused]) -> list[Refused]:
    def topic() -> list[Refused]:
        name = answer.text()
        found = answer.array(lambda: partition(name))
        answer.tags()
        return found

    return [each for found in answer.array(topic) for each in found if each.error]
