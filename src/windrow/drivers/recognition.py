"""Which library a connection is of, told by the names of its classes: no library is imported for it."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from windrow.errors import ConnectionUnknown
from windrow.table import Dialect

T = TypeVar("T")
Style: TypeAlias = Literal["%s", "$1"]
Row: TypeAlias = tuple[Any, ...]

COPY_FROM: Final = 20
"""From so many rows on COPY, which takes a round trip more, is faster than one INSERT of all."""


class Copy(NamedTuple):
    """PostgreSQL's COPY into a table: the statement, and what it says for drivers that make their own."""

    statement: str
    table: str
    columns: tuple[str, ...]
    types: tuple[str, ...]


def recognised(connection: Any, kinds: Mapping[str, Callable[[Any], T]], others: str) -> T:
    """What stands in `kinds` for the first class, of those that the connection is an instance of, that is named there.

    It is asked for its `__class__`, since tracers wrap connections in proxies that answer with the wrapped one's.
    """
    classes = connection.__class__.__mro__
    for each in classes:
        if kind := kinds.get(f"{each.__module__}.{each.__qualname__}"):
            return kind(connection)
    name = f"{classes[0].__module__}.{classes[0].__qualname__}"
    raise ConnectionUnknown(f"no way is known to write on a {name}; {others}, or execute what statement returns")


def dialect_of(name: str) -> Dialect:
    """The dialect that SQLAlchemy or Django calls by this name."""
    dialects: dict[str, Dialect] = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}
    if name not in dialects:
        raise ConnectionUnknown(
            f"there is no outbox on {name}, and no inbox; give a connection to PostgreSQL, MySQL or MariaDB"
        )
    return dialects[name]
