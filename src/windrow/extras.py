"""What is installed on demand: `pip install windrow` brings the client, an extra of it each of the other parts.

A part that is wanted and not there says which extra brings it, in one way wherever it is wanted. Where one part stands
on another, the extra of the outer one is named: that is what somebody asked for.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from windrow.errors import ExtraMissing

_COMMANDS: Final = {
    "bench": "embedded",
    "dashboard": "dashboard",
    "demo": "embedded",
    "inbox": "inbox",
    "queue": "queue",
    "servers": "embedded",
    "torture": "embedded",
}
_OTHERS: Final = "relay"


def extra_of(command: str) -> str:
    """The extra that a command of `windrow` needs."""
    return _COMMANDS.get(command, _OTHERS)


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """What is imported inside comes with this extra."""
    try:
        yield
    except (ModuleNotFoundError, ExtraMissing) as error:
        package = (error.name or "").partition(".")[0]
        if package == "windrow":
            raise
        raise missing(package, extra) from error


def missing(package: str, extra: str) -> ExtraMissing:
    """The error for a package that is not there."""
    error = ExtraMissing(f'{package} is not installed: run pip install "windrow[{extra}]"')
    error.name = package
    return error
