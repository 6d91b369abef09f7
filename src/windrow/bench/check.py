"""Whether all came, once and in order: pure, and fast enough for millions."""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Faults:
    """What a sound relay has none of."""

    lost: int = 0
    duplicated: int = 0
    reordered: int = 0

    def __add__(self, other: Self) -> "Faults":
        return Faults(self.lost + other.lost, self.duplicated + other.duplicated, self.reordered + other.reordered)


NONE: Final = Faults()


def faults(received: Numbers, written: int, keys: int) -> Faults:
    """Judge the numbers received, in order, of those from 0 to below `written`; see `load` for their keys.

    A number that nobody wrote counts as duplicated. Copies do not count as reordered.
    """
    present, first_at = np.unique(received, return_index=True)
    known = (present >= 0) & (present < written)
    in_order_of_receipt = present[known][np.argsort(first_at[known])]
    by_key = in_order_of_receipt[np.argsort(in_order_of_receipt % keys, kind="stable")]
    same_key = by_key[1:] % keys == by_key[:-1] % keys
    return Faults(
        lost=written - int(known.sum()),
        duplicated=len(received) - int(known.sum()),
        reordered=int((same_key & (by_key[1:] < by_key[:-1])).sum()),
    )
