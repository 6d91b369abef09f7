"""What a relay's process shows of itself: samples of all its metrics, and the routes that serve them."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Final, TypeAlias

from windrow.election.led import State
from windrow.observe.metrics import Sample
from windrow.observe.otlp import export
from windrow.observe.routes import watch_routes
from windrow.observe.server import Routes, Server
from windrow.relay.lifecycle import Relay
from windrow.relay.tally import TIMES
from windrow.relay.watch import View, Watch

More: TypeAlias = Callable[[Watch], AbstractContextManager[Routes]]
"""Routes that are answered from the same watch, while a context lasts."""

_SHARD_COUNTERS: Final = {  # without the published ones, which the positions tell exactly
    "captured": "windrow_records_captured_total",
    "dead_lettered": "windrow_records_dead_lettered_total",
    "transactions": "windrow_transactions_total",
    "fencings": "windrow_fencings_total",
    "interruptions": "windrow_interruptions_total",
}
_KAFKA: Final = {
    "sent_bytes": "windrow_kafka_sent_bytes",
    "requests": "windrow_kafka_requests",
    "errors": "windrow_kafka_errors",
    "queued_messages": "windrow_kafka_queued_messages",
    "round_trip": "windrow_kafka_round_trip_seconds",
}


def samples_of_view(name: str, view: View) -> Iterator[Sample]:
    """Of a relay as a whole and of its shards; what was never seen has no sample."""
    me = (name,)
    if view.shards is not None:
        yield Sample("windrow_led", me, view.leader_id is not None)
        yield Sample("windrow_active", me, view.active)
        yield Sample("windrow_shards", me, view.shards)
        times = view.figures().times
        for each in TIMES:
            yield Sample(f"windrow_{each}_seconds", me, times[each])
    if view.letters is not None:
        yield Sample("windrow_dead_letters", me, view.letters)
    if view.log is not None:
        yield Sample("windrow_slot_held_bytes", me, view.log.held)
        yield Sample("windrow_slot_unread_bytes", me, view.log.unread)
    for index in range(view.shards or 0):
        yield from _samples_of_shard((name, str(index)), index, view)


def _samples_of_shard(me: tuple[str, str], index: int, view: View) -> Iterator[Sample]:
    if index in view.waiting:
        yield Sample("windrow_backlog_records", me, view.waiting[index].records)
        yield Sample("windrow_oldest_age_seconds", me, view.waiting[index].oldest_age)
    if index in view.positions:
        yield Sample("windrow_records_published_total", me, view.positions[index].published)
    if told := view.told.get(index):
        yield Sample("windrow_in_flight_records", me, told.flight.records if told.lately else 0)
        yield Sample("windrow_in_flight_keys", me, told.flight.keys if told.lately else 0)
        for name, metric in _SHARD_COUNTERS.items():
            yield Sample(metric, me, told.figures.counts[name])
        for name, metric in _KAFKA.items():
            if name in told.figures.kafka:
                yield Sample(metric, me, told.figures.kafka[name])


def samples(relay: Relay, watch: Watch) -> Iterator[Sample]:
    """All metrics of a relay's process."""
    name, view, now = relay.settings.name, watch.view, time.monotonic()
    me, doings, leader = (name,), relay.doings, relay.leader_id
    yield Sample("windrow_leader", me, leader is not None)
    if leader:
        yield Sample("windrow_term_info", (name, str(leader)), 1)
    yield Sample("windrow_elections_total", me, doings.elections)
    yield Sample("windrow_deposals_total", me, doings.deposals)
    yield Sample("windrow_epochs_total", me, doings.epochs)
    yield Sample("windrow_records_purged_total", me, doings.purged)
    yield Sample("windrow_ready", me, not watch.objections())
    yield Sample("windrow_database_silent_seconds", me, now - view.database_at)
    yield Sample("windrow_kafka_silent_seconds", me, now - view.kafka_at)
    yield from samples_of_view(name, view)


def routes(relay: Relay, watch: Watch) -> Routes:
    """`/metrics`, `/livez` and `/readyz` of a relay's process."""
    return watch_routes(lambda: samples(relay, watch), lambda: relay.state is not State.STOPPED, watch.objections)


@contextmanager
def exposed(relay: Relay, more: More | None = None) -> Iterator[Server | None]:
    """Meanwhile, show the relay as its settings say: at an address, by OpenTelemetry, or not at all; `more` is served
    at the same address.
    """
    observe = relay.settings.observe
    with ExitStack() as stack:
        watch = Watch(relay.settings)
        others = stack.enter_context(more(watch)) if more else {}
        server = Server(observe.address, {**routes(relay, watch), **others}) if observe.address else None
        if server or observe.otlp:
            stack.enter_context(watch)
        if observe.otlp:
            export(observe.otlp, lambda: samples(relay, watch))
        if server:
            stack.enter_context(server)
        yield server
