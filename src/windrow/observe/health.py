"""Whether a relay is well: a function of what was seen and of limits. No thread, no clock, no server.

A process that runs says little: a relay that stalls looks fine. So what counts is whether messages get through.
Invariant: a relay that has nothing to do is well, and so is a standby, as long as somebody leads.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Seen:
    """How a relay was seen to be; times are in seconds, and what is not known is None."""

    leaderless_for: float = 0.0
    """How long nobody has led."""
    backlog: int | None = None
    oldest_age: float | None = None
    unpublished_for: float = 0.0
    """How long nothing has been published, whether there was something to publish or not."""
    slot_held: int | None = None
    """Bytes of the database's log that are kept for the relay."""
    database_silent_for: float = 0.0
    kafka_silent_for: float = 0.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """From when on it is not well."""

    stalled_after: timedelta
    max_oldest_age: timedelta
    max_slot_held: int
    waits_for: timedelta = timedelta()
    """How long messages wait on purpose before they are published."""


def objections(seen: Seen, bounds: Bounds) -> Iterator[str]:
    """Why a relay is not ready; nothing where it is."""
    patience = bounds.stalled_after.total_seconds()
    if seen.database_silent_for > patience:
        yield f"the database has not answered for {seen.database_silent_for:.0f} s"
    if seen.kafka_silent_for > patience:
        yield f"Kafka has not answered for {seen.kafka_silent_for:.0f} s"
    if seen.leaderless_for > patience:
        yield f"nobody has led for {seen.leaderless_for:.0f} s"
    waiting, age = seen.backlog or 0, seen.oldest_age or 0.0
    on_purpose = bounds.waits_for.total_seconds()
    if waiting and min(age - on_purpose, seen.unpublished_for) > patience:
        yield f"{waiting} messages wait, and nothing has been published for {seen.unpublished_for:.0f} s"
    if age - on_purpose > bounds.max_oldest_age.total_seconds():
        yield f"the oldest message has waited for {age:.0f} s"
    if seen.slot_held is not None and seen.slot_held > bounds.max_slot_held:
        yield f"the database keeps {seen.slot_held / 1e6:.0f} MB of its log for the relay"
