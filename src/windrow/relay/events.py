"""What a relay tells its owner while it runs: closed types, for `match`."""

from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID


@dataclass(frozen=True, slots=True)
class LeaderAcquired:
    """This relay leads now. `leader_id` is the term's own, never used again."""

    leader_id: UUID


@dataclass(frozen=True, slots=True)
class LeaderRefreshed:
    """This relay still leads, in a new generation of the group: another relay has come or gone."""

    leader_id: UUID


@dataclass(frozen=True, slots=True)
class LeaderRevoked:
    """This relay leads no more: another does, or Kafka is out of reach."""

    leader_id: UUID


@dataclass(frozen=True, slots=True)
class LeaderFenced:
    """This relay found, in the middle of its work, that another had taken over."""

    leader_id: UUID


@dataclass(frozen=True, slots=True)
class MeterRead:
    """How fast it goes: every `limits.minMetricsInterval`, while this relay leads."""

    leader_id: UUID
    published: int
    """Records that relays of this name have published since there are any."""
    records: int
    """Those of them since the meter was last read, or since this relay leads."""
    seconds: float
    """How long that is."""
    in_flight_records: int
    in_flight_keys: int

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds


Event: TypeAlias = LeaderAcquired | LeaderRefreshed | LeaderRevoked | LeaderFenced | MeterRead
