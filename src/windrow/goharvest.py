"""goharvest's settings: what of them means nothing here is taken out, with a sentence on what does its work instead.

Pure. windrow reads goharvest's files: most keys have kept their names and their meaning and need nothing. The others
belong to how goharvest works (marking rows, one record in flight a key, the Go client), and are no mistake: a file
that served goharvest has to serve windrow as it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_ELECTION: Final = "the election polls Kafka in a thread of its own"
GONE: Final[Mapping[str, str]] = {
    "limits.pollDuration": f"{_ELECTION}; limits.sessionTimeout says how soon Kafka gives up a relay",
    "limits.minPollInterval": f"{_ELECTION}; limits.markBackoff says how often the outbox is looked at",
    "limits.maxPollInterval": f"{_ELECTION}; limits.heartbeatTimeout says when a leader steps down",
    "limits.drainInterval": "a Kafka transaction keeps the order of a key, so that no record waits for another",
    "limits.queueTimeout": "transaction.timeout.ms in producerKafkaConfig bounds how long publishing may take",
    "limits.sendConcurrency": "records are sent by as many producers as there are shards: shards says how many",
    "limits.sendBuffer": "one page is read ahead: limits.pageRecords and limits.pageBytes say how large it is",
    "limits.markQueryRecords": "rows are not marked but read in pages, a Kafka transaction each: limits.pageRecords",
    "logging": "the log goes to stderr, and windrow --debug shows more of it",
}
"""goharvest's keys that have no effect here, and what does their work."""

_DURATIONS: Final = ("ioErrorBackoff", "heartbeatTimeout", "markBackoff", "minMetricsInterval")
_GO_CLIENT: Final = ("baseKafkaConfig.go.", "producerKafkaConfig.go.")
_REAPER: Final = "harvest"


def unwrapped(file: Mapping[str, Any]) -> dict[str, Any]:
    """A file's settings; those of reaper, goharvest's command, lie one level deeper."""
    inner = file.get(_REAPER)
    if not isinstance(inner, Mapping) or not all(isinstance(key, str) for key in inner):
        return dict(file)
    return {**inner, **{key: value for key, value in file.items() if key != _REAPER}}


def adapted(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Settings as windrow reads them, and a warning for each key that has no effect."""
    useless = dict(_useless(given))
    kept = {
        key: {name: _read(key, name, each) for name, each in value.items() if f"{key}.{name}" not in useless}
        if isinstance(value, Mapping)
        else value
        for key, value in given.items()
        if key not in useless
    }
    return kept, [f"{key} has no effect: {instead}" for key, instead in useless.items()]


def _useless(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in given.items():
        if key in GONE:
            yield key, GONE[key]
        elif key == "leaderTopic" and isinstance(value, str) and value.startswith("__"):
            yield key, f"nobody may write heartbeats to {value}, which is Kafka's own; windrow has a topic for them"
        elif isinstance(value, Mapping):
            for name in (f"{key}.{each}" for each in value):
                if name in GONE:
                    yield name, GONE[name]
                elif name.startswith(_GO_CLIENT):
                    yield name, "it is a setting of Kafka's Go client, which is not used here"


def _read(section: str, name: str, value: Any) -> Any:
    """A bare number is one of nanoseconds, where goharvest has a duration."""
    return f"{value}ns" if section == "limits" and name in _DURATIONS and type(value) is int else value
