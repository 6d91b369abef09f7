"""What the pump writes, and the figures that it sums up."""

import pytest

from windrow.bench.pump import Load, percentile


def test_messages_are_as_many_and_as_large_as_wanted() -> None:
    load = Load("topic", keys=3, value_size=50, headers=2, transaction=4, count=10)
    sizes = [len(load.messages(number)) for number in range(load.transactions or 0)]
    assert sizes == [4, 4, 2]
    messages = load.messages(1)
    assert {len(message.value or b"") for message in messages} == {50}
    assert {len(message.headers) for message in messages} == {2}
    assert {message.key for message in messages} <= {b"0", b"1", b"2"}
    assert len({message.value for message in messages}) == 4
    assert Load("topic", value_size=0).messages(0)[0].value == b""


def test_without_a_count_transactions_never_end() -> None:
    load = Load("topic", transaction=7)
    assert load.transactions is None
    assert len(load.messages(1_000_000)) == 7


@pytest.mark.parametrize(
    ("share", "value"), [pytest.param(0.5, 2.0, id="p50"), pytest.param(0.99, 9.0, id="p99"), (0.1, 1.0)]
)
def test_percentiles_of_counted_values(share: float, value: float) -> None:
    assert percentile({9.0: 3, 1.0: 40, 2.0: 57}, share) == value


def test_percentile_of_nothing_is_0() -> None:
    assert percentile({}, 0.5) == 0.0
