"""Plain values from a file, the environment or a caller, made into an object of a settings class.

Pure. All mistakes are told at once, as sentences that name the setting and the remedy; no secret is shown. A field's
metadata may hold a `check`, which yields remedies for a value out of bounds, and what to say when it is `missing`.
"""

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from windrow.errors import SettingsInvalid

T = TypeVar("T")
Check: TypeAlias = Callable[[Any], Iterable[str]]

_DURATION: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ns|[uµμ]s|ms|s|m|h|d)")
_DURATIONS: Final = re.compile(rf"(?:{_DURATION.pattern})+")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST: Final = timedelta(days=365)
_SIZE: Final = re.compile(r"(\d{1,18})\s*([kKmMgG]?)[bB]?")
_ADDRESS: Final = re.compile(r"(?:(?:\[([0-9a-fA-F:.]+)\]|([^\s:\[\]/@]+))?:)?(\d{1,5})")
_BYTES: Final = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}

_SECRET_KEY: Final = re.compile(
    r"password|passphrase|secret|token|credential|(access|account|api|private).?key|\.pem$|jaas|user\.info"
    r"|oauthbearer\.config",
    re.IGNORECASE,
)
_ASSIGNED: Final = r"(?:password|passphrase|passwd|pwd|secret|token)['\"]?\s*[=:]"
# Only the reader of a text knows where a secret in it ends. Therefore all that follows password= is hidden, and all
# between a URL's user and the last @.
_SECRET: Final = re.compile(
    rf"({_ASSIGNED}).*|(://(?:(?!{_ASSIGNED})[^:])*:)(?:.*{_ASSIGNED}.*@.*|.*(?=@))", re.IGNORECASE | re.DOTALL
)


class Size(int):
    """A number of bytes, also written as `16MB`."""


class Address(NamedTuple):
    """Where a server listens: `127.0.0.1:9464`, `[::1]:9464`; a port alone is this machine's own."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def local(self) -> bool:
        """Whether nobody on another machine reaches it."""
        return self.host in {"localhost", "::1"} or self.host.startswith("127.")


def setting(help_text: str, check: Check | None = None, missing: str | None = None, **default: Any) -> Any:
    """A field of a settings class: what it is, what may be in it, and what to say where it is missing."""
    given = {"help": help_text, "check": check, "missing": missing}
    return dataclasses.field(metadata={key: value for key, value in given.items() if value}, **default)


def camel(name: str) -> str:
    """`outbox_table` as `outboxTable`; the group's id as goharvest spells it."""
    head, *rest = name.split("_")
    return head + "".join("ID" if part == "id" else part.capitalize() for part in rest)


def without_secrets(text: str) -> str:
    """A data source or any other text, with the passwords in it hidden."""
    return _SECRET.sub(lambda found: f"{found[1] or found[2]}***", text)


def shown(key: str, value: Any) -> str:
    """A setting for people to read."""
    return f"{key}: {'***' if _SECRET_KEY.search(key) else without_secrets(str(value))}"


def bounds(low: Any, high: Any, words: str) -> Check:
    """A check that a value lies between two others."""

    def check(value: Any) -> Iterator[str]:
        if not low <= value <= high:
            yield f"give {words}, not {value}"

    return check


def read(cls: type[T], given: Mapping[str, Any], prefix: str = "") -> T:
    """An object of a settings class, from values by their camel-case keys."""
    types = get_type_hints(cls)
    known = {camel(each.name): each for each in dataclasses.fields(cls)}  # type: ignore[arg-type]
    parsed: dict[str, Any] = {}
    mistakes: list[str] = []
    for key, value in given.items():
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {prefix}{close[0]}?" if close else f"known are {', '.join(sorted(known))}"
            mistakes.append(f"{prefix}{without_secrets(key)} is not a setting: {hint}")
            continue
        try:
            parsed[known[key].name] = _typed(types[known[key].name], value, f"{prefix}{key}")
        except SettingsInvalid as error:
            mistakes += error.mistakes
        except ValueError as error:
            mistakes.append(f"{prefix}{key}: {error}")
    for key, each in known.items():
        if key not in given and "missing" in each.metadata:
            mistakes.append(f"{prefix}{key} is missing: {each.metadata['missing']}")
    if mistakes:
        raise SettingsInvalid([*mistakes, *out_of_bounds(cls, parsed, prefix)])
    return cls(**parsed)


def out_of_bounds(cls: type, values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """What the checks of a class's fields say about those of them that have a value."""
    for each in dataclasses.fields(cls):
        value = values.get(each.name)
        if value is not None and "check" in each.metadata:
            for remedy in each.metadata["check"](value):
                yield f"{prefix}{camel(each.name)}: {remedy}"


def values_of(section: Any) -> dict[str, Any]:
    """The values of an object of a settings class by the names of its fields."""
    return {each.name: getattr(section, each.name) for each in dataclasses.fields(section)}


def _typed(wanted: Any, value: Any, name: str) -> Any:
    if value is None:
        raise ValueError("give a value, or leave it out")
    if dataclasses.is_dataclass(wanted):
        return read(wanted, _named(value), f"{name}.")  # type: ignore[arg-type]
    if get_origin(wanted) is Mapping:
        return _texts(_named(value))
    kind = wanted if wanted in _PARSERS else get_args(wanted)[0]  # int | None
    return _PARSERS[kind](value)


def _named(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError("give a section of names and values")
    return value


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    unfit = [key for key, value in values.items() if not isinstance(value, str | int | float)]
    if unfit:
        raise ValueError(f"give a value (text, a number, true or false) to {without_secrets(', '.join(unfit))}")
    return {key: _text(str(value).lower() if isinstance(value, bool) else str(value)) for key, value in values.items()}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("give text")  # noqa: TRY004 - a mistake in a value that was read, as all of them here
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("give text that has a UTF-8 form") from None
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"-?\d{1,18}", str(value)):
        raise ValueError(f"give a whole number{_not(value)}")
    return int(value)


def _size(value: Any) -> Size:
    found = _SIZE.fullmatch(str(value))
    if isinstance(value, bool) or not found:
        raise ValueError(f"give a number of bytes, for example 16MB{_not(value)}")
    return Size(int(found[1]) * _BYTES[found[2].lower()])


def address(value: Any) -> Address:
    """`host:port`, `[host]:port` or a port alone."""
    if isinstance(value, Address):
        return value
    found = _ADDRESS.fullmatch(str(value))
    if isinstance(value, bool) or not found or int(found[3]) > 65_535:
        raise ValueError(f"give host:port, for example 127.0.0.1:9464{_not(value)}")
    return Address(found[1] or found[2] or "127.0.0.1", int(found[3]))


def duration(value: Any) -> timedelta:
    """A time with its unit: `500ms`, `2h`."""
    if isinstance(value, timedelta):
        return value
    if not _DURATIONS.fullmatch(str(value)):
        raise ValueError(f"give a duration with its unit, for example 500ms, 30s or 5m{_not(value)}")
    parts = _DURATION.findall(str(value))
    seconds = sum(float(number) * _SECONDS[unit.replace("µ", "u").replace("μ", "u")] for number, unit in parts)
    if seconds > _LONGEST.total_seconds():
        raise ValueError(f"give {_LONGEST.days}d at most{_not(value)}")
    return timedelta(seconds=seconds)


def _not(value: Any) -> str:
    """The value for the end of a sentence, unless it is more than a setting of this kind can be."""
    return f", not {value!r}" if isinstance(value, str | int | float) and len(str(value)) <= 30 else ""


def _list(value: Any) -> tuple[str, ...]:
    given = [each.strip() for each in value.split(",")] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) and each for each in given):
        raise ValueError(f"give a list of names, {_not(value)}")
    return tuple(given)


_PARSERS: Final[dict[Any, Callable[[Any], Any]]] = {
    str: _text,
    int: _whole,
    Size: _size,
    timedelta: duration,
    Address: address,
    tuple[str, ...]: _list,
}
