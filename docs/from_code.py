"""What the reference takes from the code, each time that the pages are built: settings, commands, errors, the API.

Directives for Sphinx around pure functions from code to Markdown. So a setting, an option, an error or a public name
cannot be missing from the reference, nor have another default there than in the code.
"""

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any, get_type_hints

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from windrow.cli import windrow
from windrow.cli.options import settings_options
from windrow.cli.queue_options import queue_options
from windrow.errors import WindrowError
from windrow.parse import Size, camel

_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}
_ENVIRONMENT = {"base_kafka_config": "WINDROW_KAFKA_…", "producer_kafka_config": "WINDROW_PRODUCER_KAFKA_…"}
_SAID_IN_HELP = re.compile(r"\s*\[(?:env var: (?P<variable>[A-Z_]+))?(?:; )?(?P<rest>[^]]*(?:\[\*\])?)\]$")


def settings_table(cls: type, section: str = "") -> str:
    """The fields of a settings class: key, environment variable, default, what it is."""
    types = get_type_hints(cls)
    rows = [
        (
            f"`{section + '.' if section else ''}{camel(each.name)}`",
            _variable(each, types[each.name], section),
            _default(each),
            _plain(each.metadata["help"]) + _bounds(each),
        )
        for each in dataclasses.fields(cls)
        if not dataclasses.is_dataclass(types[each.name])
    ]
    return _table(("key", "environment variable", "default", "what it is"), rows)


def _bounds(field: dataclasses.Field[Any]) -> str:
    """The words that a check for bounds refuses a value with; nothing for other checks."""
    check = field.metadata.get("check")
    words = inspect.getclosurevars(check).nonlocals.get("words") if check else None
    return f" ({words})" if words else ""


def _variable(field: dataclasses.Field[Any], kind: Any, section: str) -> str:
    if field.name in _ENVIRONMENT:
        return f"`{_ENVIRONMENT[field.name]}`"
    if getattr(kind, "__origin__", None) is Mapping:
        return "\N{EN DASH}"
    within = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", section) + "_" if section else ""
    return f"`WINDROW_{within}{field.name}`".upper()


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return "empty"
    match field.default:
        case dataclasses.MISSING:
            return "**required**"
        case None | "":
            return "\N{EN DASH}"
        case timedelta() as time:
            return f"`{_duration(time)}`"
        case Size() as size:
            return f"`{_size(size)}`"
        case value:
            return f"`{value}`"


def _duration(time: timedelta) -> str:
    for unit, length in _UNITS.items():
        if time and not time % length:
            return f"{time // length}{unit}"
    return f"{time // timedelta(milliseconds=1)}ms" if time else "0s"


def _size(size: int) -> str:
    for unit, length in {"GB": 10**9, "MB": 10**6, "kB": 10**3}.items():
        if not size % length:
            return f"{size // length}{unit}"
    return str(size)


def command_help(path: str) -> str:
    """A command: how it is called, and its options but those that say where database and Kafka are."""
    command, context = _found(path)
    shared = _shared()
    options = [
        each
        for each in command.params
        if isinstance(each, click.Option) and not each.hidden and (each.name, each.help) not in shared
    ]
    lines = [f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```", ""]
    if options:
        lines.append(_table(("option", "default", "meaning"), [_option(each, context) for each in options]))
    if len(options) < sum(isinstance(each, click.Option) for each in command.params):
        lines.append("\nBesides, those that say [where](#settings-options) the database and Kafka are.")
    return "\n".join(lines)


def shared_options() -> str:
    """The options that commands of relays have in common."""
    context = click.Context(_dummy(settings_options), info_name="windrow")
    rows = [_option(each, context) for each in context.command.params if isinstance(each, click.Option)]
    return _table(("option", "default", "meaning"), rows)


def commands() -> Iterator[str]:
    """The paths of all commands that do something: `relay`, `queue init` …"""

    def below(group: click.Group, before: str) -> Iterator[str]:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from below(command, f"{before}{name} ")
            else:
                yield f"{before}{name}"

    yield from below(windrow, "")


def _found(path: str) -> tuple[click.Command, click.Context]:
    command: click.Command = windrow
    context = click.Context(command, info_name="windrow")
    for name in path.split():
        found = command.get_command(context, name) if isinstance(command, click.Group) else None
        if found is None:
            raise LookupError(f"there is no command windrow {path}")
        command = found
        context = click.Context(command, info_name=name, parent=context)
    return command, context


def _dummy(decorate: Any) -> click.Command:
    return click.command()(decorate(lambda **_options: None))


def _shared() -> set[tuple[str | None, str | None]]:
    return {
        (each.name, each.help)
        for decorate in (settings_options, queue_options)
        for each in _dummy(decorate).params
        if isinstance(each, click.Option)
    }


def _option(option: click.Option, context: click.Context) -> tuple[str, str, str]:
    spelled = " / ".join([", ".join(option.opts), *option.secondary_opts])
    kind = "" if option.is_flag or option.count else f" {option.make_metavar(context)}"
    extra = option.get_help_extra(context)
    help_text, default, variables = option.help or "", extra.get("default", ""), list(extra.get("envvars", ()))
    if said := _SAID_IN_HELP.search(help_text):
        help_text = help_text[: said.start()]
        variables += [said["variable"]] if said["variable"] else []
        default = default or said["rest"].removeprefix("default: ")
    if variables:
        help_text += " " + ", ".join(f"(`{each}`)" for each in variables)
    if option.multiple and "may be" not in help_text:
        help_text += " May be repeated."
    return f"`{spelled}{kind}`", _plain(default) or ("**required**" if option.required else ""), _plain(help_text)


def error_tree(root: type[WindrowError] = WindrowError, depth: int = 0) -> str:
    """The errors, each below the one that it is a kind of, with the first sentence of what they say of themselves."""
    said = re.split(r"(?<=[.:;])\s", (root.__doc__ or "").strip(), maxsplit=1)[0].rstrip(".:;")
    lines = [f"{'  ' * depth}- `{root.__name__}`: {_plain(said)}."]
    lines += [error_tree(each, depth + 1) for each in root.__subclasses__() if each.__module__ == root.__module__]
    return "\n".join(lines)


def public_names(module: str) -> str:
    """What a package's `__all__` names and `windrow` itself does not, for autodoc; also what it imports only when it is
    asked for.
    """
    package = import_module(module)
    names = [name for name in package.__all__ if module == "windrow" or name not in import_module("windrow").__all__]
    documented = "\n".join(_documented(module, name, getattr(package, name)) for name in names)
    return f"```{{eval-rst}}\n{documented}\n```"


def _documented(module: str, name: str, thing: Any) -> str:
    if not isinstance(thing, type):
        return f".. auto{'function' if callable(thing) else 'data'}:: {module}.{name}\n"
    kin = any(each.__module__.startswith("windrow.") for each in thing.__mro__[1:])
    settings = any("help" in each.metadata for each in getattr(thing, "__dataclass_fields__", {}).values())
    options = ["members"] + ["undoc-members"] * (not settings) + ["inherited-members"] * kin
    return f".. autoclass:: {module}.{name}\n" + "".join(f"   :{each}:\n" for each in options)


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(each.replace("|", r"\|") for each in line) + " |" for line in lines)


def _plain(text: str) -> str:
    """Text that Markdown must not read as its own, on one line."""
    return re.sub(r"([<*\[])", r"\\\1", " ".join(text.split()))


class SettingsTable(SphinxDirective):
    """`{settings} module.Class`, and after it the section's key in the file."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        module, name = self.arguments[0].rsplit(".", 1)
        section = self.arguments[1] if len(self.arguments) > 1 else ""
        return self.parse_text_to_nodes(settings_table(getattr(import_module(module), name), section))


class CommandHelp(SphinxDirective):
    """`{command} queue init`; without an argument, the options that commands have in common."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(command_help(self.arguments[0]) if self.arguments else shared_options())


class ErrorTree(SphinxDirective):
    """`{errors}`"""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(error_tree())


class PublicNames(SphinxDirective):
    """`{api} windrow.queue`"""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(public_names(self.arguments[0]))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("settings", SettingsTable)
    app.add_directive("command", CommandHelp)
    app.add_directive("errors", ErrorTree)
    app.add_directive("api", PublicNames)
    return {"parallel_read_safe": True}
