"""A name from the settings becomes one SQL identifier, or two, and never anything else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.errors import SettingsInvalid
from windrow.table import quoted, quoted_column, unquoted

_PART = st.text(st.characters(codec="utf-8", exclude_characters=".%{}\0"), min_size=1, max_size=12)
_IDENTIFIER = re.compile(r'"((?:[^"]|"")+)"')


@pytest.mark.parametrize(
    ("name", "suffix", "expected"),
    [
        ("outbox", "", '"outbox"'),
        ("billing.outbox", "", '"billing"."outbox"'),
        ("billing.outbox", "_relay", '"billing"."outbox_relay"'),
        ('say "hi"', "", '"say ""hi"""'),
        ('x"; DROP TABLE orders; --', "", '"x""; DROP TABLE orders; --"'),
        ("Größe", "", '"Größe"'),
    ],
)
def test_names_are_quoted(name: str, suffix: str, expected: str) -> None:
    assert quoted(name, suffix) == expected


@given(st.lists(_PART, min_size=1, max_size=2))
def test_the_identifiers_read_back_are_the_name_that_was_given(parts: list[str]) -> None:
    text = quoted(".".join(parts))
    identifiers = [found.replace('""', '"') for found in _IDENTIFIER.findall(text)]
    assert identifiers == parts
    assert re.fullmatch(rf"{_IDENTIFIER.pattern}(?:\.{_IDENTIFIER.pattern})?", text)


@pytest.mark.parametrize("name", ["", ".", "a.", ".b", "a.b.c", "a..b"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(SettingsInvalid, match=r"^outboxTable: .*schema\.table"):
        quoted(name)


@pytest.mark.parametrize("name", ["100%", "%s", "{x}", "a}", "{schema.b", "nul\0", "\ud800"])
def test_what_a_driver_would_take_for_something_else_is_refused(name: str) -> None:
    with pytest.raises(SettingsInvalid, match="give a name without"):
        quoted(name)


def test_the_longest_name_leaves_room_for_the_suffixes() -> None:
    longest = "x" * 51
    assert len(quoted(longest, "_dead_letter").strip('"')) == 63
    with pytest.raises(SettingsInvalid, match="51 bytes"):
        quoted(longest + "x")
    with pytest.raises(SettingsInvalid, match="51 bytes"):
        quoted("é" * 26)


def test_a_schemas_name_may_be_as_long_as_postgresql_takes() -> None:
    assert quoted("s" * 63 + ".outbox")
    with pytest.raises(SettingsInvalid, match="the schema a name of 63 bytes"):
        quoted("s" * 64 + ".outbox")


@pytest.mark.parametrize("name", ["id", 'a "b"', "weiß.nicht", "SELECT"])
def test_a_columns_name_is_quoted_and_back(name: str) -> None:
    assert unquoted(quoted_column(name)) == name
    assert unquoted("plain") == "plain"


@pytest.mark.parametrize("name", ["", "a%b", "{a}", "x" * 64, "release"])
def test_a_column_that_statements_cannot_name_is_refused(name: str) -> None:
    with pytest.raises(SettingsInvalid, match="columns: give a"):
        quoted_column(name)
