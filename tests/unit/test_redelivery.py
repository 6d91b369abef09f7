"""The tracker's state against a model that knows every message by itself and reads the whole log."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.queue.marker import MalformedMarker, decode, encode, marker_partition, queue_of
from windrow.queue.marker_pb2 import Carried, Count, Marker, Span
from windrow.queue.redelivery import Due, State
from windrow.queue.runs import merged, pack, ranges, split, unpack

CARRY_AFTER, CARRY_AGAIN_AFTER = 50, 90
WHO = [bytes([each]) * 16 for each in (1, 2)]
TRACKER = b"t" * 16
Name = tuple[bytes, int, int, int]

offsets = st.lists(st.integers(0, 12), min_size=1, max_size=8, unique=True).map(sorted)
kinds = st.sampled_from(["start", "end", "keep alive", "return", "return unstarted", "reject", "delay"])
step = st.tuples(kinds, st.sampled_from(WHO), st.integers(0, 6), st.integers(0, 1), offsets, st.integers(0, 60))
wait = st.integers(0, 40)
happening = st.one_of(
    st.tuples(st.just("markers"), st.lists(step, min_size=1, max_size=3)),
    st.tuples(st.just("wait"), wait),
    st.tuples(st.just("tick"), st.lists(step, max_size=3)),
    st.tuples(st.just("tick and die"), st.just([])),
    st.tuples(st.just("restart"), st.just([])),
)


def marker_of(kind: str, who: bytes, lease: int, partition: int, named: list[int], after: int) -> Marker:
    first, runs = pack(named)
    marker = Marker(queue="q", consumer=who, redeliver_after_ms=after)
    marker.spans.append(Span(lease=lease, partition=partition, offset=first, runs=runs))
    marker.type = Marker.Type.Value(kind.removesuffix(" unstarted").upper().replace(" ", "_")) if kind != "delay" else 6
    if kind == "delay":
        del marker.spans[0].runs[:]
        marker.carried.CopyFrom(Carried(key=b"q", value=b"v", returned=True, unstarted=True))
    marker.unstarted = kind == "return unstarted"
    marker.reason = "for no reason" if kind == "reject" else ""
    return marker


@dataclass
class Fate:
    """All that a message's future depends on."""

    deadline: int
    over: bool = False
    unstarted: bool = False
    rejected: str | None = None


@dataclass
class Model:
    """Every message by itself, after the whole log; what the tracker carries is none of its business."""

    held: dict[Name, Fate] = field(default_factory=dict)

    def read(self, marker: Marker, timestamp: int) -> None:
        for span in marker.spans:
            for offset in unpack(span.offset, span.runs):
                self._read(marker, (marker.consumer, span.lease, span.partition, offset), timestamp)

    def _read(self, marker: Marker, name: Name, timestamp: int) -> None:
        deadline = timestamp + marker.redeliver_after_ms
        fate = self.held.get(name)
        if marker.type == Marker.START:
            self.held.setdefault(name, Fate(deadline))
        elif marker.type == Marker.CARRY:
            if not marker.epoch:
                self.held.setdefault(name, Fate(deadline, over=True, unstarted=True))
        elif marker.type == Marker.END and marker.epoch:
            self.held.pop(name, None)
        elif fate is None or fate.over or timestamp > fate.deadline:
            return
        elif marker.type == Marker.END:
            del self.held[name]
        elif marker.type == Marker.KEEP_ALIVE:
            fate.deadline = deadline
        elif marker.type == Marker.RETURN:
            self.held[name] = Fate(deadline, over=True, unstarted=marker.unstarted)
        elif marker.type == Marker.REJECT:
            self.held[name] = Fate(timestamp, over=True, rejected=marker.reason)


class World:
    """A log, its consumers, and a tracker that lives and dies."""

    def __init__(self) -> None:
        self.log: list[tuple[bytes, int]] = []
        self.now = 0
        self.committed = 0
        self.begun: set[Name] = set()
        self.restart()

    def append(self, markers: Iterable[Marker]) -> None:
        for marker in markers:
            if not self.is_new(marker):
                continue
            self.now += 1
            self.log.append((encode(marker), self.now))

    def is_new(self, marker: Marker) -> bool:
        """Whether no message is begun a second time under the same name, which consumers do not do."""
        if marker.epoch or marker.type not in {Marker.START, Marker.CARRY}:
            return True
        span = marker.spans[0]
        names = {(marker.consumer, span.lease, span.partition, each) for each in unpack(span.offset, span.runs)}
        fresh = names.isdisjoint(self.begun)
        self.begun |= names
        return fresh

    def restart(self) -> None:
        self.state, self.position = State(CARRY_AFTER, CARRY_AGAIN_AFTER), self.committed

    def read(self) -> None:
        for offset in range(self.position, len(self.log)):
            content, timestamp = self.log[offset]
            self.state.apply(decode(content), offset, timestamp)
        self.position = len(self.log)

    def model(self) -> Model:
        model = Model()
        for content, timestamp in self.log:
            model.read(decode(content), timestamp)
        return model

    def tick(self, between: list[Marker], *, acts: bool = True) -> None:
        self.append([Marker(type=Marker.TICK, epoch=TRACKER)])
        self.read()
        self.state.settle()
        model, as_of = self.model(), self.position
        self.compare(model)
        due, old = self.state.due(self.now), self.state.old(self.now)
        assert {name_of(each) for each in due} == {
            name for name, fate in model.held.items() if fate.deadline < self.now
        }
        if not acts:
            self.restart()
            return
        now = self.now
        self.append(between)
        self.append(ended(each) for each in due)
        self.append(carry(each, as_of) for each in old)
        self.state.carried(old, as_of, now)
        self.committed = self.state.floor(as_of)

    def compare(self, model: Model) -> None:
        fates = {
            (*part.key, offset): Fate(part.deadline, part.over, part.unstarted, part.rejected)
            for part in self.state.held()
            for run in part.ranges
            for offset in run
        }
        assert fates == model.held


def name_of(each: Due) -> Name:
    return (*each.key, each.offset)


def ended(each: Due) -> Marker:
    consumer, lease, partition = each.key
    span = Span(lease=lease, partition=partition, offset=each.offset)
    return Marker(type=Marker.END, consumer=consumer, spans=[span], epoch=TRACKER)


def carry(each: Due, as_of: int) -> Marker:
    marker = ended(each)
    marker.type, marker.queue = Marker.CARRY, each.queue
    marker.carried.CopyFrom(Carried(deadline=each.deadline, as_of=as_of, returned=each.over, unstarted=each.unstarted))
    return marker


@settings(max_examples=300)
@given(st.lists(happening, max_size=25))
def test_tracker_decides_as_a_model_that_knows_every_message_and_the_whole_log(
    happenings: list[tuple[str, list[tuple[str, bytes, int, int, list[int], int]]]],
) -> None:
    world = World()
    for kind, what in happenings:
        markers = [marker_of(*each) for each in what] if isinstance(what, list) else []
        if kind == "markers":
            world.append(markers)
        elif kind == "wait":
            world.now += what  # type: ignore[operator]
        elif kind == "tick":
            world.tick(markers)
        elif kind == "tick and die":
            world.tick([], acts=False)
        else:
            world.restart()
    world.restart()
    world.tick([])


@given(offsets, offsets)
def test_runs_are_split_and_merged_as_sets_are(whole: list[int], named: list[int]) -> None:
    inside, outside = split(list(ranges(*pack(whole))), list(ranges(*pack(named))))
    assert [each for run in inside for each in run] == sorted({*whole} & {*named})
    assert [each for run in outside for each in run] == sorted({*whole} - {*named})
    assert merged([*inside, *outside]) == list(ranges(*pack(whole)))


def test_idle_state_needs_no_tick_and_pins_nothing() -> None:
    state = State(600_000, 3_600_000)
    state.settle()
    state.apply(marker_of("start", WHO[0], 1, 0, [1, 2, 3], 1000), 7, 100)
    assert (state.next_at(), state.floor(8)) == (1100, 7)
    state.apply(marker_of("end", WHO[0], 1, 0, [1, 2, 3], 0), 8, 200)
    assert (state.next_at(), state.floor(9), list(state.held())) == (None, 9, [])


def test_unknown_messages_are_ignored_and_counted() -> None:
    state = State(600_000, 3_600_000)
    state.settle()
    state.apply(marker_of("end", WHO[0], 1, 0, [1, 2, 3], 0), 1, 100)
    state.apply(marker_of("keep alive", WHO[0], 1, 0, [1], 0), 2, 100)
    assert state.ignored == 4


def test_lease_that_falls_into_single_messages_stays_quick() -> None:
    state = State(600_000, 3_600_000)
    state.settle()
    whole = list(range(10_000))
    state.apply(marker_of("start", WHO[0], 1, 0, whole, 1000), 0, 0)
    began = time.process_time()
    for offset in whole:
        state.apply(marker_of("keep alive", WHO[0], 1, 0, [offset], 2000), 1 + offset, 10)
    for offset in whole[:-1]:
        state.apply(marker_of("end", WHO[0], 1, 0, [offset], 0), 10_001 + offset, 20)
    assert time.process_time() - began < 10
    assert [each.offset for each in state.due(5000)] == [9_999]


def test_million_messages_in_leases_of_a_thousand_take_a_second_or_two() -> None:
    state = State(600_000, 3_600_000)
    state.settle()
    began = time.process_time()
    for lease in range(1000):
        named = list(range(lease * 1000, lease * 1000 + 1000))
        for kind in ("start", "end"):
            content = encode(marker_of(kind, WHO[0], lease, 0, named, 1000))
            state.apply(decode(content), lease, 0)
    assert time.process_time() - began < 1_000_000 / 300_000
    assert not list(state.held())


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"nonsense",
        encode(Marker(type=Marker.START, consumer=WHO[0])),
        encode(Marker(type=Marker.START, consumer=b"short", spans=[Span(offset=1)])),
        encode(Marker(type=Marker.END, consumer=WHO[0], spans=[Span(offset=-1)])),
        encode(Marker(type=Marker.END, consumer=WHO[0], spans=[Span(offset=1, runs=[1, 2])])),
        encode(Marker(type=Marker.END, consumer=WHO[0], spans=[Span(offset=1, runs=[1, 0, 3])])),
        encode(Marker(type=Marker.START, consumer=WHO[0], spans=[Span(offset=1, runs=[2**32 - 1])])),
        encode(Marker(type=Marker.START, consumer=WHO[0], spans=[Span(offset=1, runs=[60_000, 1, 60_000])])),
        encode(Marker(type=Marker.START, consumer=WHO[0], spans=[Span(offset=1)], redeliver_after_ms=-1)),
        encode(Marker(type=Marker.CARRY, consumer=WHO[0], spans=[Span(offset=1)])),
        encode(Marker(type=Marker.CARRY, consumer=WHO[0], spans=[Span(runs=[2])], carried=Carried())),
        encode(Marker(type=Marker.TICK)),
    ],
)
def test_malformed_marker_is_refused(content: bytes | None) -> None:
    with pytest.raises(MalformedMarker):
        decode(content)


def test_queue_is_spread_over_markers_partitions() -> None:
    assert {marker_partition("q", partition, 3) for partition in range(9)} == {0, 1, 2}
    assert marker_partition("q", 5, 4) == marker_partition("q", 9, 4)


def test_record_belongs_to_the_queue_that_its_key_names_or_else_its_header() -> None:
    assert queue_of("é".encode(), [("x-queue", b"other")]) == "é"
    assert queue_of(None, [("a", b"b"), ("x-queue", b"jobs")]) == "jobs"
    assert [queue_of(None, None), queue_of(b"", []), queue_of(b"\xff", [])] == [None, None, None]


def test_counts_are_those_of_the_last_tally_of_each_queue() -> None:
    state = State(600_000, 3_600_000)
    for queue, redelivered in (("a", 1), ("b", 2), ("a", 3)):
        counts = [Count(queue=queue, redelivered=redelivered)]
        state.apply(Marker(type=Marker.TALLY, counts=counts), 1, 100)
    assert state.counts == {"a": (3, 0), "b": (2, 0)}
