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


Event: TypeAlias = LeaderAcquired | LeaderRefreshed | LeaderRevoked | LeaderFenced
