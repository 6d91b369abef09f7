"""The lease as its holder may believe in it: what to conclude from renewals and time. Pure.

A term lasts until the time-out after the last renewal that succeeded, counted from before it was asked for. The
database counts from when it was asked: so the holder steps down before anybody else can take over, as long as both
clocks run at the same speed. A term that has ended never comes back, whatever answer arrives late.
"""

from dataclasses import dataclass, replace

from windrow.election.mandate import Term


@dataclass(frozen=True, slots=True)
class Tenure:
    """A candidate's last term, if it was not ended, and when it asked for what it was last granted."""

    term: Term | None = None
    asked_at: float = 0.0

    def taken(self, term: Term, asked_at: float) -> "Tenure":
        """The lease is ours, in a new term."""
        return Tenure(term, asked_at)

    def renewed(self, term: Term, asked_at: float, now: float, timeout: float) -> "Tenure":
        """The term goes on, unless it was ended or has run out before the answer came."""
        return replace(self, asked_at=asked_at) if self.at(now, timeout) == term else self.ended(term)

    def ended(self, term: Term) -> "Tenure":
        """That term is over; another that has begun is not."""
        return Tenure() if self.term == term else self

    def at(self, now: float, timeout: float) -> Term | None:
        """The term that lasts now."""
        return self.term if now - self.asked_at < timeout else None
