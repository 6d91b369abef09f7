"""Handing records to a producer: its defaults, the headers, and what counts as refused for good.

Invariant: what is refused is a `PublishFailed`, and no try will help; any other error of Kafka's may pass.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from windrow.errors import PublishFailed
from windrow.kafka.clients import client_config, error_of
from windrow.record import Record, flaw
from windrow.settings import Settings

DEFAULTS: Final[dict[str, Any]] = {
    "linger.ms": 50,  # large batches out of large pages; the flush at a page's end waits for nothing
    "partitioner": "murmur2_random",  # the same partition for a key as JVM producers choose
    # The broker and the topic say what is too large. Up to a broker's socket.request.max.bytes, 100 MB by default: it
    # answers nothing to more, but hangs up.
    "message.max.bytes": 100 * 1024 * 1024 - 64 * 1024,
    "transaction.timeout.ms": 30_000,
    "topic.metadata.propagation.max.ms": 5_000,  # how long a topic may be unknown before it counts as missing
}
_REFUSED_BY_TOPIC: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - librdkafka's own codes start with an underscore
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)
_REFUSED: Final = _REFUSED_BY_TOPIC | {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - as above
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.POLICY_VIOLATION,
}
_Headers = list[tuple[str, str | bytes | None]]
Report = Callable[[KafkaError | None, Message], None]


def producer_config(settings: Settings, defaults: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A producer's configuration: defaults, over them what the user gave, over that what is not his to say."""
    return client_config(settings, {**defaults, **settings.base_kafka_config, **settings.producer_kafka_config, **own})


def send(
    producer: Producer,
    source: bytes,
    records: Sequence[Record],
    report: Callable[[int], Report] | None = None,
    *,
    patient: bool = True,
) -> None:
    """Hand over the records; each one's outcome goes to its own report, if that is wanted. Wait for room in the
    producer's queue, or raise a BufferError where there is none.
    """
    try:
        _send(producer, source, records, report, patient=patient)
    except TypeError as error:  # of what no message has
        for each in records:
            if why := flaw(each.topic, each.header_keys, each.header_values, each.partition):
                raise PublishFailed(why, each.topic) from error
        raise


def _send(
    producer: Producer,
    source: bytes,
    records: Sequence[Record],
    report: Callable[[int], Report] | None,
    *,
    patient: bool,
) -> None:
    """The hot path: what is the same for all records is looked up once."""
    produce, from_source = producer.produce, ("x-source", source)
    for number, topic, key, value, names, contents, partition, timestamp, _ in records:
        if not topic or len(names) != len(contents) or None in names or (partition is not None and partition < 0):
            raise PublishFailed(flaw(topic, names, contents, partition), topic)
        pairs = zip(names, contents)  # noqa: B905 - of one length, as just seen; asking again costs 0.25 µs a record
        headers: _Headers = [*pairs, ("x-sequence", b"%d" % number), from_source]
        to = -1 if partition is None else partition
        reported = report(number) if report else None
        while True:
            try:
                produce(topic, value, key, to, reported, None, timestamp or 0, headers)
            except BufferError:
                if not patient:
                    raise
                producer.poll(0.01)
            except KafkaException as exception:
                if refused := refusal(error_of(exception), topic):
                    raise refused from exception
                raise
            else:
                break


def refusal(error: KafkaError, topic: str) -> PublishFailed | None:
    """The error as a refusal, if it is one."""
    if error.code() not in _REFUSED:
        return None
    return PublishFailed(f"topic {topic}: {error.str()}", topic, whole_topic=error.code() in _REFUSED_BY_TOPIC)
