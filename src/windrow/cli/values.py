"""What several commands are given as text: a time, and a handler by its name."""

import importlib
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from windrow.errors import SettingsInvalid
from windrow.parse import duration


def time_of(option: str, text: str) -> timedelta:
    """A time with its unit, as an option was given it."""
    try:
        return duration(text)
    except ValueError as error:
        raise SettingsInvalid([f"--{option}: {error}"]) from None


def imported(path: str) -> Any:
    """What `module:name` names, as seen from the working directory."""
    module, _, name = path.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # a module of the user's may raise anything
        what = f"{type(error).__name__}: {error}"
        raise SettingsInvalid([f"handler {path}: {what}; give module:function, to be imported from here"]) from error
    if not callable(found):
        raise SettingsInvalid([f"handler {path}: {found!r} cannot be called; give module:function"])
    return found
