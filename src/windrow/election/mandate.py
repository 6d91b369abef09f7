"""The mandate to lead, as a value: what a member of the group may conclude from what it sees. Pure.

A member that owns partition 0 leads, as long as it hears its own heartbeats. Every term has an id of its own that is
never used again: who loses the mandate and gets it back begins another term. A rebalance that leaves the partition
where it is changes the membership, which transactions carry, but not the term.
"""

from dataclasses import dataclass, replace
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Term:
    """One uninterrupted time of leading."""

    id: UUID
    membership: bytes
    """The group's metadata of this member, for the transactions; a new generation brings new ones."""
    number: int | None = None
    """What the database issued for a term by lease, and compares; None where the group elects."""


@dataclass(frozen=True, slots=True)
class Mandate:
    """What a member knows: whether it owns partition 0, its term if it leads, and when it last heard itself."""

    owner: bool = False
    term: Term | None = None
    heard_at: float = 0.0

    def assigned(self, membership: bytes, now: float, new_id: UUID) -> "Mandate":
        """Partition 0 is this member's: a new term, unless one is under way."""
        term = Term(self.term.id if self.term else new_id, membership)
        return Mandate(owner=True, term=term, heard_at=now)

    def revoked(self) -> "Mandate":
        """Partition 0 is somebody else's, or will be."""
        return Mandate()

    def heard(self, membership: bytes, now: float, new_id: UUID) -> "Mandate":
        """An own heartbeat came back: the partition is still ours, also if we had stepped down."""
        return self.assigned(membership, now, new_id) if self.owner else self

    def renewed(self, membership: bytes) -> "Mandate":
        """The group has a new generation."""
        return replace(self, term=Term(self.term.id, membership)) if self.term else self

    def checked(self, now: float, timeout: float) -> "Mandate":
        """Step down where no own heartbeat was heard for too long: somebody else may lead by now."""
        return self.resigned() if self.term and now - self.heard_at > timeout else self

    def resigned(self) -> "Mandate":
        """Lead no more, until a heartbeat shows that the partition is still ours."""
        return replace(self, term=None)
