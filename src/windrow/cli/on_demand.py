"""Commands that are imported when they are named, and say which extra brings them where that fails.

So a command costs the start of its own parts alone, and those that are installed work where others are not.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from windrow.errors import ExtraMissing
from windrow.extras import needed


class OnDemand(click.Group):
    """A group with commands that are places, as `module:attribute`, each with the extra that it needs."""

    def __init__(self, *args: Any, places: Mapping[str, tuple[str, str]], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._places})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._places:
            return super().get_command(ctx, cmd_name)
        place, extra = self._places[cmd_name]
        module, _, attribute = place.partition(":")
        try:
            with needed(extra):
                found = getattr(import_module(module), attribute)
        except ExtraMissing as error:
            return _Absent(cmd_name, error)
        assert isinstance(found, click.Command)  # noqa: S101 - for the type's sake
        return found


class _Absent(click.Command):
    """Stands for a command whose extra is missing: it takes any arguments, and says so."""

    allow_extra_args = True
    ignore_unknown_options = True

    def __init__(self, name: str, error: ExtraMissing) -> None:
        super().__init__(name, short_help=str(error), add_help_option=False)
        self._error = error

    def invoke(self, ctx: click.Context) -> None:  # noqa: ARG002 - click gives it
        raise self._error
