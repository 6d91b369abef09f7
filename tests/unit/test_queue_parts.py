"""What a consumer of queues decides without a broker: how much to lease, until when it holds, where messages go."""

import random
from collections import Counter

from windrow.queue.appetite import Appetite
from windrow.queue.lease import Hold, Part, Word, grouped
from windrow.queue.marker_pb2 import Marker
from windrow.queue.sending import spread


class _Nobody:
    queue = "emails"
    limit = 10.0

    def wake(self) -> None:
        """Nobody sleeps."""


def part(offsets: list[int]) -> Part:
    made = Part(_Nobody(), 1, 0, 0)
    made.add(offsets, [str(each).encode() for each in offsets], None)
    made.offer()
    return made


def test_what_is_taken_at_once_doubles_the_next_batch() -> None:
    appetite, asked = Appetite(1000, 10_000), list[int]()
    for turn in range(12):
        asked.append(appetite.wanted(1 + turn / 100, sum(asked), 0, 1))
        appetite.gave(1 + turn / 100, asked[-1])
    assert asked[:3] == [1, 2, 4]
    assert asked[-1] == 1000


def test_slow_handler_gets_one_message_at_a_time() -> None:
    appetite = Appetite(1000, 10_000)
    for turn in range(10):
        began = 1 + 5.0 * turn
        assert appetite.wanted(began, turn, 0, 1) == 1
        appetite.gave(began, 1)
        for look in range(1, 50):
            assert appetite.wanted(began + look / 10, turn, 0, 0) == 0
        assert appetite.wanted(began + 4.95, turn + 1, 0, 0) == 0


def test_as_many_as_wait_are_leased_at_first() -> None:
    assert Appetite(1000, 10_000).wanted(1.0, 0, 0, 8) == 8


def test_hold_ends_with_a_keep_alive_that_came_too_late() -> None:
    hold = Hold()
    assert hold.confirm(stamp=1000, sent=1.0, now=1.5, after_ms=2000)
    assert (hold.deadline, hold.safe_until, hold.lost_at) == (3000, 3.0, 3.5)
    assert hold.confirm(3000, 2.9, 3.1, 2000)
    assert not hold.confirm(5001, 4.0, 5.0, 2000)
    assert hold.lost_at == 0


def test_keep_alive_is_due_long_before_the_deadline_and_once() -> None:
    hold = Hold()
    hold.confirm(1000, 0.0, 0.1, 30_000)
    assert not hold.due(9.9, 30)
    assert hold.due(10.1, 30)
    hold.asking = True
    assert not hold.due(10.1, 30)


def test_rows_are_drawn_once_and_the_rest_is_known() -> None:
    made = part([5, 6, 9])
    assert next(made.rows) == (5, b"5", None)
    assert made.buffered == 2
    made.look(1.0)
    assert made.begun_before(0.5) == []
    assert made.begun_before(1.0) == [5]
    made.end([6])
    assert (made.open(), made.left) == ([5, 9], 2)


def test_headers_stay_with_their_messages() -> None:
    made = Part(_Nobody(), 1, 0, 0)
    made.add([1], [b"a"], None)
    made.add([2], [b"b"], [[("x", b"y")]])
    made.add([3], [b"c"], None)
    made.offer()
    made.leave_out({1})
    assert list(made.rows) == [(2, b"b", [("x", b"y")]), (3, b"c", None)]


def test_span_names_each_offset_once() -> None:
    span = part([]).span([3, 1, 1, 5])
    assert (span.offset, list(span.runs)) == (1, [1, 1, 1, 1, 1])


def test_words_that_say_the_same_go_together() -> None:
    words = [Word(Marker.RETURN, 1, 5), Word(Marker.RETURN, 2, 5), Word(Marker.RETURN, 3, 6), Word(Marker.END, 4)]
    assert [[each.offset for each in group] for group in grouped(words)] == [[1, 2], [3], [4]]


def test_messages_are_spread_evenly_in_stretches() -> None:
    for count in (1, 7, 100, 10_000):
        counts: Counter[int] = Counter()
        for partition, length in spread(count, 4, random.Random(1)):
            counts[partition] += length
        assert counts.total() == count
        assert max(counts.values()) - min(counts[each] for each in range(4)) <= max(1, count // 8)
