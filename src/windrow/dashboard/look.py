"""What one look at a relay saw, and what is worth telling of the difference between two looks."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from windrow.dashboard.candidates import Candidate
from windrow.observe.histogram import Histogram
from windrow.queue.overview import QueueFigures
from windrow.record import Committed
from windrow.relay.registry import Flight
from windrow.relay.status import ShardStatus, Status, Waiting
from windrow.relay.watch import View, Watch

Kind: TypeAlias = Literal["good", "bad", "plain"]

_SILENT_AFTER: Final = 5.0


@dataclass(frozen=True, slots=True)
class Look:
    """A relay at a moment."""

    at: float
    """Seconds since 1970, by this machine's clock."""
    moment: float
    """When Kafka last answered, by the monotonic one."""
    status: Status
    candidates: Sequence[Candidate]
    dead_letters: int
    latency: Histogram
    """From commit to acknowledgement, of all that the shards have published since they exist."""
    database_silent_for: float = 0.0
    kafka_silent_for: float = 0.0


class Latency(NamedTuple):
    """How long messages took, in seconds."""

    p50: float
    p99: float


class Remark(NamedTuple):
    """Something that happened."""

    kind: Kind
    text: str


def rate(before: Look | None, now: Look) -> float:
    """Records a second between two looks."""
    if before is None or now.moment <= before.moment:
        return 0.0
    return max(0.0, (now.status.published - before.status.published) / (now.moment - before.moment))


def latency(before: Look | None, now: Look) -> Latency | None:
    """Of what was published between two looks; None where nothing was, or the count began anew."""
    if before is None:
        return None
    counts = [new - old for new, old in zip(now.latency.counts, before.latency.counts, strict=True)]
    between = Histogram(counts)
    middle, late = between.quantile(0.5), between.quantile(0.99)
    return Latency(middle, late) if min(counts) >= 0 and middle is not None and late is not None else None


def silences(now: Look | None) -> list[str]:
    """Which servers do not answer at present."""
    if now is None:
        return []
    silent = {"the database": now.database_silent_for, "Kafka": now.kafka_silent_for}
    return [
        f"{name} has not answered for {seconds:.0f} s" for name, seconds in silent.items() if seconds > _SILENT_AFTER
    ]


def seen_in(watch: Watch, candidates: Sequence[Candidate], at: float) -> Look | None:
    """What the watch has seen by now; None where that is nothing yet."""
    view, now = watch.view, time.monotonic()
    if view.shards is None or view.letters is None:
        return None
    shards = [_shard(index, view) for index in range(view.shards)]
    return Look(
        at,
        view.kafka_at,
        Status(watch.settings.name, view.leader_id, shards, view.log),
        candidates,
        view.letters,
        view.figures().times["latency"],
        now - view.database_at,
        now - view.kafka_at,
    )


def _shard(index: int, view: View) -> ShardStatus:
    at = view.positions.get(index) or Committed(0, "")
    told, waiting = view.told.get(index), view.waiting.get(index) or Waiting(0, 0.0)
    flight = told.flight if told and told.lately else Flight()
    return ShardStatus(index, at.published, at.position, *waiting, *flight)


def remarks(before: Look | None, now: Look) -> Iterator[Remark]:
    """What is worth telling of what a look saw that the one before had not."""
    if before is None:
        return
    was, leader = before.status.leader_id, now.status.leader_id
    if was != leader:
        if leader is None:
            yield Remark("bad", "nobody leads")
        else:
            host = next((each.host for each in now.candidates if each.leads), "")
            yield Remark("good", f"a new leader, in term {str(leader)[:8]}" + (f", on {host}" if host else ""))
    if len(before.candidates) != len(now.candidates):
        yield Remark("plain", f"{_relays(len(now.candidates))}, {len(before.candidates)} before")
    if len(before.status.shards) != len(now.status.shards):
        yield Remark("plain", f"{len(now.status.shards)} shards, {len(before.status.shards)} before")
    if (more := now.dead_letters - before.dead_letters) > 0:
        yield Remark("bad", f"{more:,} more dead {'letter' if more == 1 else 'letters'}, {now.dead_letters:,} in all")
    elif more < 0:
        yield Remark("good", f"{-more:,} dead {'letter' if more == -1 else 'letters'} less, {now.dead_letters:,} left")


def queue_remarks(before: Mapping[str, QueueFigures], now: Mapping[str, QueueFigures]) -> Iterator[Remark]:
    """The same of queues."""
    for name, figures in now.items():
        if (was := before.get(name)) is None:
            continue
        if figures.paused != was.paused:
            yield Remark("plain", f"queue {name} {'is paused' if figures.paused else 'goes on'}")
        if (more := figures.dead_letters - was.dead_letters) > 0:
            yield Remark("bad", f"queue {name}: {more:,} more dead {'letter' if more == 1 else 'letters'}")
        if was.consumers and not figures.consumers:
            yield Remark("bad", f"queue {name} has no consumers any more")


def _relays(count: int) -> str:
    return "1 relay stands for election" if count == 1 else f"{count} relays stand for election"
