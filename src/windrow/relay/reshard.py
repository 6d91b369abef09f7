"""Changing the number of shards: all shards come to a stop at one and the same position; then others go on from there.

A key may only move to another shard if both stand at the same place. So the leader takes one snapshot of the database,
and runs an epoch whose tasks publish all that is visible in it and nothing else: they drain. Now every shard's position
is that snapshot, and it is as right for any other number of shards. It is committed in Kafka for all of them at once,
then the number is changed in the database, in the statement that is the switch.

Invariant: whoever dies at whatever moment leaves the old number, with shards somewhere before or at the snapshot, or
the new one, with all of them at it. The next leader finds the wish, which is kept until the switch, and begins again.
"""

import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from uuid import UUID

from windrow.capture.marks import MarkPosition
from windrow.capture.position import MAX_SNAPSHOT
from windrow.errors import Interrupted
from windrow.kafka.clients import committed_positions, position_reader
from windrow.publish.transaction import PositionsPublisher
from windrow.record import Committed
from windrow.relay.registry import Registry
from windrow.settings import Settings

log = logging.getLogger(__name__)


def spread(drained: Mapping[int, Committed], wanted: int) -> dict[int, Committed]:
    """What each shard has committed after the change, given what each had before it, at one common position.

    Those that are no more hand their count of records to the first, so that the sum stays. By then no letter is left
    that one of them has published, so the lowest of their numbers is right for all.
    """
    position, released = drained[0].position, min(at.released for at in drained.values())
    resharded = max(at.resharded for at in drained.values()) + 1
    gone = sum(at.published for shard, at in drained.items() if shard >= wanted)
    counts = {shard: at.published for shard, at in drained.items() if shard < wanted}
    counts[0] += gone
    shards = range(max(len(drained), wanted))
    return {shard: Committed(counts.get(shard, 0), position, released, resharded) for shard in shards}


@dataclass(frozen=True, slots=True)
class Resharding:
    """One change of the number of shards, under way."""

    settings: Settings
    target: str
    """The position that all shards drain to."""
    shards: int
    wanted: int

    def finish(self, epoch: UUID, membership: bytes) -> None:
        """Once all shards have come to the target in this epoch."""
        registry = Registry(self.settings)
        if self.settings.delivery == "at-least-once":  # there are no positions
            self._switch(registry, epoch, {})
            return
        with closing(PositionsPublisher(self.settings)) as publisher:
            if registry.epoch() != epoch:  # looked at after opening: whoever takes over from here on fences us
                return
            with closing(position_reader(self.settings)) as reader:
                drained = committed_positions(reader, self.settings, range(self.shards))
            if len(drained) < self.shards or any(at.position != self.target for at in drained.values()):
                raise Interrupted("the shards have been moved since they were drained")
            after = spread(drained, self.wanted)
            publisher.commit(membership, after)
        self._switch(registry, epoch, {shard: at for shard, at in after.items() if shard < self.wanted})

    def _switch(self, registry: Registry, epoch: UUID, positions: Mapping[int, Committed]) -> None:
        if registry.switch_shards(epoch, self.wanted, positions):
            log.info("relay %s: %d shards instead of %d", self.settings.name, self.wanted, self.shards)


def fence(settings: Settings) -> None:
    """Let no leader before us finish a change that it had under way. A group's generation does that by itself."""
    PositionsPublisher(settings).close()


def begin(settings: Settings, shards: int, wanted: int) -> Resharding | None:
    """Choose where all shards are to stop; None where that cannot be said in a position's space at present."""
    target = _target(settings)
    if target is None:
        log.warning("relay %s: too many transactions are open to change the number of shards; later", settings.name)
        return None
    log.info("relay %s: draining %d shards", settings.name, shards)
    return Resharding(settings, target, shards, wanted)


def _target(settings: Settings) -> str | None:
    if settings.marks:  # what is not published is marked anew by whichever shard it then belongs to
        return MarkPosition().encode()
    now = Registry(settings).now()
    return now.encode() if len(now.lo.pack()) <= MAX_SNAPSHOT else None
