"""Judge what came out of a relay against what went in. Pure: histories in, verdict out.

Producers record each message with its key, its number among that key's messages, and whether its transaction
committed, rolled back, or ended nobody knows how. Consumers record what they received, in order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

Outcome = Literal["committed", "rolled back", "unknown"]


class Written(NamedTuple):
    """One message and what became of its transaction."""

    key: str
    number: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of all messages; a sound relay has zeros in the last four."""

    written: int
    received: int
    lost: int
    duplicated: int
    out_of_order: int
    phantom: int

    @property
    def sound(self) -> bool:
        return not (self.lost or self.duplicated or self.out_of_order or self.phantom)


def judge(written: Mapping[str, Written], received: Iterable[str]) -> Verdict:
    """Compare messages by their ids. Receipts of one key must come in the order that they were written in."""
    receipts = list(received)
    counts = Counter(receipts)
    committed = {message for message, each in written.items() if each.outcome == "committed"}
    allowed = committed | {message for message, each in written.items() if each.outcome == "unknown"}
    return Verdict(
        written=len(committed),
        received=len(receipts),
        lost=len(committed - counts.keys()),
        duplicated=sum(count - 1 for count in counts.values()),
        out_of_order=_reversals(written[message] for message in dict.fromkeys(receipts) if message in allowed),
        phantom=len(counts.keys() - allowed),
    )


def _reversals(receipts: Iterable[Written]) -> int:
    newest: dict[str, int] = {}
    reversals = 0
    for key, number, _ in receipts:
        reversals += number < newest.get(key, number)
        newest[key] = max(number, newest.get(key, number))
    return reversals
