"""The log, for people or for machines: one line an event, and repeats left out.

Every line of windrow's begins with what it is about: `relay shop, shard 3: …`, `queue emails: …`. People read it as it
is; as JSON it is an object whose fields are these words, the term where the event has one, and the rest as the message.

Repeats are lines that differ in what they say, not in where they come from and what they are about. The first few are
shown, then one in a while, which says how many were left out.
"""

import json
import logging
import os
import re
import sys
import time
from collections import OrderedDict
from typing import Any, Final, TextIO

FORMATS: Final = ("human", "json")
VARIABLE: Final = "WINDROW_LOG_FORMAT"
_HUMAN: Final = "%(asctime)s %(levelname)-7s %(message)s"
_ABOUT: Final = re.compile(
    r"(?P<kind>relay|queue|group|tracker of) (?P<name>[^\s:,]+)"
    r"(?:, (?P<part>shard|markers partition) (?P<number>\d+))?: "
)
_FIELDS: Final = {"tracker of": "tracker", "markers partition": "partition"}
_SHOWN_AT_ONCE: Final = 5
_EVERY: Final = 60.0
_KNOWN_AT_MOST: Final = 1_000


def about(message: str) -> tuple[dict[str, str | int], str]:
    """What a line is about, as fields, and the rest of it."""
    found = _ABOUT.match(message)
    if not found:
        return {}, message
    fields: dict[str, str | int] = {_FIELDS.get(found["kind"], found["kind"]): found["name"]}
    if found["part"]:
        fields[_FIELDS.get(found["part"], found["part"])] = int(found["number"])
    return fields, message[found.end() :]


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        fields, message = about(record.getMessage())
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            **fields,
        }
        if term := getattr(record, "term", None):
            line["term"] = str(term)
        line["message"] = message
        if omitted := getattr(record, "omitted", 0):
            line["omitted"] = omitted
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class HumanFormatter(logging.Formatter):
    """As it is, with the time of day."""

    def __init__(self) -> None:
        super().__init__(_HUMAN, "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is the overridden one's
        line, omitted = super().formatMessage(record), getattr(record, "omitted", 0)
        return f"{line} (and {omitted} more like this before)" if omitted else line


class Repeats:
    """Which of the lines that are alike are shown. Pure: time comes in."""

    def __init__(self, at_once: int = _SHOWN_AT_ONCE, every: float = _EVERY) -> None:
        self._at_once, self._every = at_once, every
        self._known: OrderedDict[object, tuple[float, int, int]] = OrderedDict()

    def admit(self, kind: object, now: float) -> int | None:
        """How many of its kind were left out before it, if it is to be shown; None where it is left out, too."""
        began, shown, omitted = self._known.pop(kind, (now, 0, 0))
        if now - began >= self._every:
            began, shown = now, 0
        admitted = shown < self._at_once
        self._known[kind] = (began, shown + admitted, 0 if admitted else omitted + 1)
        if len(self._known) > _KNOWN_AT_MOST:
            self._known.popitem(last=False)
        return omitted if admitted else None


class RepeatsFilter(logging.Filter):
    """Leaves repeats out, but never an error."""

    def __init__(self, repeats: Repeats | None = None) -> None:
        super().__init__()
        self._repeats = repeats or Repeats()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR:
            return True
        fields, _ = about(record.getMessage())
        omitted = self._repeats.admit((record.name, record.levelno, record.msg, *fields.items()), record.created)
        if omitted:
            record.omitted = omitted
        return omitted is not None


def configure(form: str = "human", *, debug: bool = False, stream: TextIO | None = None) -> None:
    """Log to stderr in this form: windrow's own from INFO on, or all of it; of others, warnings."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else HumanFormatter())
    if not debug:
        handler.addFilter(RepeatsFilter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("windrow").setLevel(logging.DEBUG if debug else logging.INFO)


def configure_task() -> None:
    """In a process of Spark's: as the environment says, which a command passes on; otherwise leave it to Spark."""
    if form := os.environ.get(VARIABLE):
        configure(form)
