"""Where a shard stands in the outbox, as a value that fits beside a Kafka offset.

A position is two of PostgreSQL's snapshots and an id: all that is visible in `lo` is published; of what is visible in
`hi` besides, all up to the id `after`. Without `hi` the shard has caught up with `lo`.

A snapshot is `xmin:xmax:xip`: every transaction below `xmin` is over, none from `xmax` on had begun, and those in
`xip` were still open. A row is visible in it if its transaction is below `xmax` and not open. (Rows of transactions
that rolled back are never seen by any query, so they need no place here.)

Invariants:
- What is visible in `narrowed(s)` is visible in `s`. So a narrowed snapshot is always a safe upper bound: it delays
  rows, it never skips them.
- No position goes further than a transaction that is known to be on disk. A server that crashes forgets those that
  rolled back just before, and gives their numbers again: to transactions that a position must not have passed.
"""

import base64
import json
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final, Self

from windrow.errors import PositionForeign

_PACKED: Final = "~"
_PLAIN_ENOUGH: Final = 200
FORMAT: Final = 1
REMEDY: Final = (
    'Make dataSource and name belong together again. After a restore or a move on purpose, "windrow repair" shows what'
    " is to be done, and does it."
)
MAX_SNAPSHOT: Final = 1_900
"""Characters that a packed snapshot may have, so that a position stays below Kafka's 4,096 bytes of metadata."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`xip` holds the open transactions between `xmin` and `xmax`, ascending."""

    xmin: int
    xmax: int
    xip: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read PostgreSQL's own form, for example `100:120:101,119`."""
        xmin, xmax, xip = text.split(":")
        return cls(int(xmin), int(xmax), tuple(map(int, xip.split(","))) if xip else ())

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.xip))}"

    def sees(self, tx: int) -> bool:
        if tx >= self.xmax:
            return False
        at = bisect_left(self.xip, tx)
        return at == len(self.xip) or self.xip[at] != tx

    def before(self, xmax: int) -> Self:
        """The view in which no transaction from there on has begun."""
        if xmax >= self.xmax:
            return self
        xip = self.xip[: bisect_left(self.xip, xmax)]
        return type(self)(xip[0] if xip else xmax, xmax, xip)

    def narrowed(self, characters: int, since: Self) -> Self:
        """This snapshot, or an older view of it, whose packed form has at most so many characters.

        It sees all that `since` sees, an earlier view that fits: where no newer one does, it is `since` itself.
        """
        if len(self.pack()) <= characters:
            return self
        fitting = bisect_right(range(len(self.xip)), characters, key=lambda kept: len(self._until(kept).pack())) - 1
        while fitting >= 0 and len(self._until(fitting).pack()) > characters:  # compressed lengths may waver
            fitting -= 1
        view = self._until(max(fitting, 0))
        return view if view.xmax > since.xmax else since

    def meet(self, other: Self) -> Self:
        """What both see."""
        xmax = min(self.xmax, other.xmax)
        xip = tuple(sorted(tx for tx in {*self.xip, *other.xip} if tx < xmax))
        return type(self)(min(self.xmin, other.xmin), xmax, xip)

    def _until(self, kept: int) -> Self:
        """The view in which the first `kept` of the open transactions are open, and none after them has begun."""
        return self.before(self.xip[kept])

    def pack(self) -> str:
        """A short form: distances instead of numbers, compressed where that is shorter."""
        plain = ":".join((str(self.xmin), str(self.xmax - self.xmin), ",".join(map(str, self._steps()))))
        if len(plain) <= _PLAIN_ENOUGH:
            return plain
        packed = _PACKED + base64.b85encode(zlib.compress(plain.encode(), 9)).decode()
        return min(plain, packed, key=len)

    @classmethod
    def unpack(cls, text: str) -> Self:
        if text.startswith(_PACKED):
            text = zlib.decompress(base64.b85decode(text[1:])).decode()
        xmin, span, steps = text.split(":")
        xip = tuple(accumulate(map(int, steps.split(",")), initial=int(xmin)))[1:] if steps else ()
        return cls(int(xmin), int(xmin) + int(span), xip)

    def _steps(self) -> Iterator[int]:
        return (later - earlier for earlier, later in pairwise((self.xmin, *self.xip)))


NOTHING: Final = Snapshot(1, 1)
"""No row is visible in it: where a relay starts that has never published."""


def form_of(text: str) -> Any:
    """An encoded position's form, of whichever capture, once it is seen to be of the version that we read."""
    form = json.loads(text)
    if form["v"] != FORMAT:
        raise PositionForeign(f"the position has format {form['v']}, this windrow reads {FORMAT}: install a newer one")
    return form


@dataclass(frozen=True, slots=True)
class Position:
    """Where a shard stands in the outbox of one database cluster, named by its system identifier."""

    database: str
    lo: Snapshot = NOTHING
    hi: Snapshot | None = None
    after: int = 0

    def encode(self, **more: str | int) -> str:
        """As text, with what a capture knows besides."""
        form: dict[str, str | int] = {"v": FORMAT, "db": self.database, "lo": self.lo.pack()}
        if self.hi is not None:
            form |= {"hi": self.hi.pack(), "after": self.after}
        return json.dumps(form | more, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read what `encode` wrote; anything else is refused, never guessed."""
        try:
            form = form_of(text)
            hi = Snapshot.unpack(form["hi"]) if "hi" in form else None
            return cls(form["db"], Snapshot.unpack(form["lo"]), hi, form.get("after", 0))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error) as error:
            raise PositionForeign(f"the committed position {text[:80]!r} is not one of windrow's\n{REMEDY}") from error


def objection(position: Position, database: str, horizon: int) -> str | None:
    """Why nobody can go on from a position in this database cluster, whose next transaction is `horizon`."""
    if position.database != database:
        return (
            f"the committed position belongs to database cluster {position.database}, this one is {database}"
            " (a restored dump, or another server)"
        )
    if max(position.lo.xmax, position.hi.xmax if position.hi else 0) > horizon:
        return (
            f"the committed position is ahead of the database, which stands at transaction {horizon}"
            ": it was set back to an earlier state"
        )
    return None


def objection_to_rows(newest: int | None, horizon: int) -> str | None:
    """Why rows cannot be read in this cluster, the newest of which this transaction wrote."""
    if newest is None or newest < horizon:
        return None
    return (
        f"the outbox has rows of transaction {newest}, which this cluster has not reached yet ({horizon})"
        ": they were restored or copied from another one"
    )
