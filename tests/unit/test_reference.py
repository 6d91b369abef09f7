"""The reference is whole: each command, error and settings class has its place, and shows what the code has."""

import dataclasses
import re
import sys

import pytest

from fix_snippets import ROOT
from windrow import errors
from windrow.inbox import ConsumerSettings
from windrow.parse import camel
from windrow.queue import QueueSettings
from windrow.settings import Limits, Settings

sys.path.append(str(ROOT / "docs"))
import from_code

REFERENCE = {path.name: path.read_text() for path in (ROOT / "docs/reference").glob("*.md")}
SECTIONS = {"limits", "purge", "observe", "redelivery_tracker"}
ROOTS = (Settings, QueueSettings, ConsumerSettings)


def test_every_command_is_in_the_reference_once() -> None:
    shown = re.findall(r"^```\{command\} (.+)$", REFERENCE["cli.md"], re.MULTILINE)
    assert sorted(shown) == sorted(from_code.commands())


def test_a_command_that_is_not_there_is_a_mistake() -> None:
    with pytest.raises(LookupError, match="no command windrow fly"):
        from_code.command_help("fly")


def test_every_setting_is_in_the_reference() -> None:
    shown = re.findall(r"^```\{settings\} (\S+)", "".join(REFERENCE.values()), re.MULTILINE)
    assert {"Limits", "Purge", "Observe", "TrackerSettings", *(each.__name__ for each in ROOTS)} == {
        each.rsplit(".", 1)[1] for each in shown
    }
    for cls in ROOTS:
        table = from_code.settings_table(cls)
        plain = [each for each in dataclasses.fields(cls) if each.name not in SECTIONS]
        assert [line.split("`")[1] for line in table.splitlines()[2:]] == [camel(each.name) for each in plain]


def test_a_settings_row_has_what_the_code_has() -> None:
    (row,) = [line for line in from_code.settings_table(Limits, "limits").splitlines() if "pageBytes" in line]
    assert "`WINDROW_LIMITS_PAGE_BYTES` | `16MB` |" in row
    assert row.endswith("(1 or more) |")


def test_every_error_is_explained() -> None:
    named = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)}
    tree = from_code.error_tree()
    assert not [name for name in named if f"`{name}`: " not in tree]
    explained = {*re.findall(r'^## (\w+)|^\| (?:<a id="\w+"></a>)?`(\w+)`', REFERENCE["errors.md"], re.MULTILINE)}
    assert not named - {"WindrowError"} - {name for pair in explained for name in pair}
