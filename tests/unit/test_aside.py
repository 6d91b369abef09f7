"""Which of the records are poison, as a pure decision."""

from windrow.errors import PublishFailed
from windrow.record import Record
from windrow.relay.aside import poison_among


def record(number: int, topic: str, key: bytes | None) -> Record:
    return Record(number, topic, key, b"", [], [], None, None)


RECORDS = [
    record(1, "missing", b"a"),
    record(2, "other", b"a"),
    record(3, "missing", b"a"),
    record(4, "missing", None),
    record(5, "missing", b"b"),
    record(6, "missing", None),
]


def test_single_record_that_is_refused_is_the_poison() -> None:
    refusal = PublishFailed("too large", "missing")
    assert [each.id for each in poison_among(RECORDS[:1], refusal, block_keys=True)] == [1]


def test_topic_that_takes_nothing_makes_poison_of_all_its_records() -> None:
    refusal = PublishFailed("unknown topic", "missing", whole_topic=True)
    assert [each.id for each in poison_among(RECORDS, refusal, block_keys=False)] == [1, 3, 4, 5, 6]


def test_where_keys_are_blocked_only_the_first_of_each_is_poison() -> None:
    refusal = PublishFailed("unknown topic", "missing", whole_topic=True)
    assert [each.id for each in poison_among(RECORDS, refusal, block_keys=True)] == [1, 4, 5, 6]
