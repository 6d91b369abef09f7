"""What a relay asks of an election, and which one the settings name.

Invariant: whoever believes to lead does not decide. Every election gives its terms something that another party
compares: the group's generation, which the broker does, or a number, which the database does.
"""

from types import TracebackType
from typing import Protocol, Self
from uuid import UUID

from windrow.election.lease import Lease
from windrow.election.mandate import Term
from windrow.election.neli import Neli
from windrow.settings import Settings


class Election(Protocol):
    """A candidate, while its context lasts; for any thread."""

    @property
    def term(self) -> Term | None:
        """Its present term; None while another leads, or nobody."""

    @property
    def running(self) -> bool:
        """Whether it can still be elected."""

    def resign(self, term: UUID) -> None:
        """End a term that turned out to be over."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def election_of(settings: Settings) -> Election:
    """The election that the settings name."""
    return Lease(settings) if settings.election == "lease" else Neli(settings)
