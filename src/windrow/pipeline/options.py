"""Options of a Spark format, made into settings: the same names as in a settings file, which may be one of them.

Spark hands options over with their names in lower case, all in one level: `limits.pageRecords` is in a section,
`kafka.…` are settings of Kafka's clients, as with Spark's own source, and `producer.…` those of the producers alone.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from windrow.parse import camel
from windrow.settings import Limits, Purge, Settings

_KAFKA: Final = {"kafka": "base_kafka_config", "producer": "producer_kafka_config"}
_SECTIONS: Final = {"limits": Limits, "purge": Purge}
_SPARKS_OWN: Final = frozenset({"path", "checkpointlocation", "queryname"})
_PLACEHOLDERS: Final = {"WINDROW_DATA_SOURCE": "postgresql://", "WINDROW_KAFKA_BOOTSTRAP_SERVERS": "-"}


def settings_from(options: Mapping[str, str], *, ours: frozenset[str], unused: str) -> Settings:
    """Settings from the options, over the environment, over the file that `config` names.

    `ours` are options that are no settings; `unused` is the variable of a required setting that the format does
    without.
    """
    given: dict[str, Any] = {}
    for key, value in options.items():
        section, _, inner = key.lower().partition(".")
        if key.lower() in _SPARKS_OWN | {name.lower() for name in ours} | {"config"}:
            continue
        if inner and section in _KAFKA:
            given.setdefault(_KAFKA[section], {})[inner] = value
        elif inner and section in _SECTIONS:
            given.setdefault(section, {})[_names(_SECTIONS[section], camel).get(inner, inner)] = value
        else:
            given[_names(Settings, str).get(key.lower(), key)] = value
    config = options.get("config")
    environment = {unused: _PLACEHOLDERS[unused], **os.environ}
    return Settings.load(Path(config) if config else None, environment, **given)


def _names(cls: type, spelled: Any) -> dict[str, str]:
    """The fields of a settings class by their names in lower case, as Spark gives them."""
    return {camel(each.name).lower(): spelled(each.name) for each in dataclasses.fields(cls)}
