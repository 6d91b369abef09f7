"""What a handler's failure means: whether it may pass by itself, and what a dead letter says about it. Pure."""

from typing import Any, Final

from windrow.inbox.identity import part

# Connection lost or refused, serialisation failure or deadlock, resources short, shutdown under way.
_PASSING: Final = ("08", "40", "53", "57")
# The same in MySQL's numbers, and those of its clients.
_PASSING_NUMBERS: Final = frozenset(
    {0, 1040, 1053, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1290, 1317, 1836, 1927, 2002, 2003}
    | {2006, 2013, 2055, 4031}
)
_CONNECTION_BROKE: Final = frozenset({"OperationalError", "InterfaceError", "ConnectionTimeout"})
_MISSING: Final = frozenset({"42P01", 1146})
_FORBIDDEN: Final = frozenset({"42501", 1044, 1142, 1143})
_SPOILED: Final = "25P02"
_REASON: Final = 1_000


def passing(error: BaseException) -> bool:
    """Whether it is the database's trouble, not the message's. A connection that breaks has no code of its own."""
    codes = _codes(error)
    if not codes:
        return type(error).__name__ in _CONNECTION_BROKE
    return any(code.startswith(_PASSING) if isinstance(code, str) else code in _PASSING_NUMBERS for code in codes)


def missing(error: BaseException) -> bool:
    """Whether a table is not there."""
    return any(code in _MISSING for code in _codes(error))


def forbidden(error: BaseException) -> bool:
    """Whether the database's user lacks a right."""
    return any(code in _FORBIDDEN for code in _codes(error))


def spoiled(error: BaseException) -> bool:
    """Whether the transaction was broken before, by an error that nobody told."""
    return _SPOILED in _codes(error)


def _codes(error: BaseException) -> list[str | int]:
    """What drivers call an error by; those of libraries that wrap them carry the driver's own."""
    found: list[str | int] = []
    each: Any = error
    while each is not None:
        found += [code for name in ("sqlstate", "pgcode") if isinstance(code := getattr(each, name, None), str)]
        if type(each).__module__.startswith(("pymysql", "MySQLdb", "mysql.", "asyncmy", "django.db")):
            found += [code for code in each.args[:1] if isinstance(code, int)]
        each = getattr(each, "orig", None) or each.__cause__
    return found


def letter_headers(message: Any, group: str, error: BaseException, attempts: int) -> list[tuple[str, bytes | None]]:
    """The message's own headers, and behind them why and where it failed."""
    reason = f"{type(error).__name__}: {error}"[:_REASON]
    about = {
        "reason": reason,
        "attempts": attempts,
        "group": group,
        "topic": part(message, "topic"),
        "partition": part(message, "partition"),
        "offset": part(message, "offset"),
    }
    own = part(message, "headers") or []
    return [*own, *((f"x-dead-letter-{name}", str(value).encode()) for name, value in about.items())]
