"""What clients did and saw, as values; and the journals that keep it when a client is killed.

An operation ends *ok*, *failed* (certainly without effect) or *unknown*. A journal notes it before its outcome is
sought, and its end once that is known: what has no end there is unknown. So it never says less than what happened. What
a client never learnt, the database may tell: see `resolved`.

Times are seconds of the monotonic clock, which all processes of a machine share.
"""

import json
import math
import os
import time
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple

Outcome = Literal["ok", "failed", "unknown"]
QUEUED: Final = ""
"""The key of messages for the queue: there is no order among them."""


class Sent(NamedTuple):
    """A message, and its place among those of its key: they are written in this order."""

    id: str
    key: str
    place: int


@dataclass(frozen=True, slots=True)
class Operation:
    """A transaction of one client, and the messages that it wrote."""

    client: str
    number: int
    """The client's own count of its operations."""
    messages: tuple[Sent, ...]
    outcome: Outcome = "unknown"
    began: float = 0.0
    ended: float = math.inf


def apart(operations: Iterable[Operation], *, queued: bool) -> list[Operation]:
    """The operations with what they wrote for the queue alone, or with the rest alone."""
    return [
        replace(each, messages=tuple(sent for sent in each.messages if (sent.key == QUEUED) == queued))
        for each in operations
    ]


def resolved(operations: Iterable[Operation], committed: Container[tuple[str, int]]) -> list[Operation]:
    """The operations, with the outcome of those whose client did not learn it: by what the database has of them."""

    def learnt(each: Operation) -> Outcome:
        return "ok" if (each.client, each.number) in committed else "failed"

    return [replace(each, outcome=learnt(each)) if each.outcome == "unknown" else each for each in operations]


class Receipt(NamedTuple):
    """A message as a consumer that reads committed received it."""

    id: str
    partition: int = 0
    offset: int = 0
    at: float = 0.0


class Effect(NamedTuple):
    """What a consumer with an inbox did for a message, in a transaction of its own."""

    message: str
    group: str
    outcome: Outcome
    at: float = 0.0


class Handling(NamedTuple):
    """A message of a queue in one consumer's hands, from its delivery until it was done or given back."""

    message: str
    began: float
    leased_until: float
    """The end of its lease, as last extended."""
    outcome: Outcome
    """ok: acknowledged; failed: given back."""
    ended: float = math.inf


def keep(path: Path, history: Iterable[object]) -> None:
    """Write values down, one in a line, for whoever wants to look into them."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        file.writelines(f"{json.dumps(each)}\n" for each in history)


class Journal:
    """One client's operations on disk. Safe against the client's death, not for concurrent use."""

    def __init__(self, path: Path) -> None:
        """Go on with what is there."""
        self._client = path.stem
        self._number = max((each.number for each in read_journal(path)), default=0)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        # The last line may be a torn one.
        os.write(self._file, b"\n")

    @property
    def number(self) -> int:
        """Of its latest operation."""
        return self._number

    def begin(self, messages: Iterable[Sent], began: float) -> int:
        """Note an operation whose outcome is about to be sought; returns its number."""
        self._number += 1
        self._write([self._number, began, [*messages]])
        return self._number

    def end(self, number: int, outcome: Outcome, at: float | None = None) -> None:
        """Note its outcome, or that it is not known any more; now, or as of then."""
        self._write([number, outcome, time.monotonic() if at is None else at])

    def close(self) -> None:
        os.close(self._file)

    def _write(self, line: object) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


def read_journal(path: Path) -> list[Operation]:
    """A client's operations, in their order."""
    found: dict[int, Operation] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            number, *rest = json.loads(line)
        except ValueError:  # torn: the client died while it wrote it, and before it did what it was to note
            continue
        match rest:
            case [float() as began, list() as messages]:
                found[number] = Operation(path.stem, number, tuple(Sent(*each) for each in messages), began=began)
            case ["unknown", float()]:
                found[number] = replace(found[number], outcome="unknown", ended=math.inf)
            case [("ok" | "failed") as outcome, float() as ended]:
                found[number] = replace(found[number], outcome=outcome, ended=ended)
    return list(found.values())
