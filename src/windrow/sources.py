"""Where settings come from: a YAML file, then the environment, then keyword arguments, the later ones winning.

What is gathered here is as it was given; `windrow.parse` makes an object of a settings class of it.
"""

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from windrow.errors import SettingsInvalid
from windrow.parse import camel

if TYPE_CHECKING:
    import yaml

_PREFIX: Final = "WINDROW_"
_PLAIN_SECTIONS: Final = {
    "limits_": "limits",
    "purge_": "purge",
    "observe_": "observe",
    "redelivery_tracker_": "redeliveryTracker",
}
_SECTIONS: Final = ("baseKafkaConfig", "producerKafkaConfig", "columns", "spark", *_PLAIN_SECTIONS.values())


def gathered(
    cls: type,
    file: Path | None,
    environment: Mapping[str, str] | None,
    overrides: Mapping[str, Any],
    unwrap: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> dict[str, Any]:
    """All that was given for a settings class, by its camel-case keys; overrides that are None were not given.

    `unwrap` finds the settings in what the file holds. Without an environment, the process's own counts.
    """
    given = unwrap(_from_file(file)) if file else {}
    _merge(given, _from_environment(os.environ if environment is None else environment, cls))
    _merge(given, {camel(name): value for name, value in overrides.items() if value is not None})
    return given


def _from_file(file: Path) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - the client side has no settings file and needs no parser

    try:
        given = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsInvalid([f"settings file {file}: {error.strerror}"]) from None
    except yaml.MarkedYAMLError as error:
        raise SettingsInvalid([f"settings file {file} is not YAML: {_place(error)}"]) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        remedy = "write it in UTF-8, with dates and long numbers in quotes"
        raise SettingsInvalid([f"settings file {file} is not YAML: {remedy}"]) from None
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise SettingsInvalid([f"settings file {file}: give a mapping of settings, for example name: orders"])
    return given


def _place(error: "yaml.MarkedYAMLError") -> str:
    """Where the parser stumbled and over what, without a word of the file's own."""
    problem = re.sub(r"""['"].*['"]""", "…", error.problem or "unreadable", flags=re.DOTALL)
    mark = error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else problem


def _from_environment(environment: Mapping[str, str], cls: type) -> dict[str, Any]:
    """WINDROW_NAME, WINDROW_LIMITS_PAGE_RECORDS, WINDROW_KAFKA_SASL_PASSWORD (any of Kafka's own settings) …"""
    given: dict[str, Any] = {}
    known = {camel(each.name) for each in dataclasses.fields(cls)}
    plain = known.difference(_SECTIONS)
    for variable, value in environment.items():
        if not variable.startswith(_PREFIX):
            continue
        name = variable.removeprefix(_PREFIX).lower()
        if camel(name) in plain:
            given[camel(name)] = value
        elif name.startswith(("kafka_", "producer_kafka_")):
            section = "producerKafkaConfig" if name.startswith("producer_") else "baseKafkaConfig"
            if section in known:
                given.setdefault(section, {})[name.partition("kafka_")[2].replace("_", ".")] = value
        for prefix, section in _PLAIN_SECTIONS.items():
            if name.startswith(prefix) and section in known:
                given.setdefault(section, {})[camel(name.removeprefix(prefix))] = value
    return given


def _merge(given: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        below = given.get(key)
        given[key] = {**below, **value} if isinstance(below, Mapping) and isinstance(value, Mapping) else value
