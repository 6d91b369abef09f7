"""The named queries: what the code asks for is there, described, and takes only what it is given."""

import ast
import re
from importlib.resources import files
from pathlib import Path
from string import Formatter

import pytest

import windrow
from windrow.database.migrations import migrations
from windrow.database.queries import _queries, query

SOURCE = Path(windrow.__file__).parent
FILES = sorted(
    file.name.removesuffix(".sql")
    for file in files("windrow.database").joinpath("sql").iterdir()
    if file.name[-4:] == ".sql"
)
NAMED = [(file, name) for file in FILES for name in _queries(file)]


def asked_for() -> set[tuple[str, str]]:
    """The arguments of every call `query("file", "name")` in the source."""
    calls = [
        node
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "query"
    ]
    constants = [[argument.value for argument in call.args if isinstance(argument, ast.Constant)] for call in calls]
    return {(file, name) for file, name in (each for each in constants if len(each) == 2)}


def test_every_query_that_the_code_names_is_there() -> None:
    assert asked_for()
    assert asked_for() <= set(NAMED)


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_query_has_a_body_and_no_stray_braces(file: str, name: str) -> None:
    template = query(file, name)._obj
    assert re.match(r"\(?\{?[A-Za-z_]+\b", template)
    fields = [field for _, field, _, _ in Formatter().parse(template) if field is not None]
    assert all(field.isidentifier() for field in fields)


@pytest.mark.parametrize("file", FILES)
def test_every_query_is_described_in_its_file(file: str) -> None:
    text = files("windrow.database").joinpath("sql", f"{file}.sql").read_text()
    assert re.findall(r"^-- name: (\w+)\n-- \S", text, re.MULTILINE) == list(_queries(file))
    assert text.count("-- name:") == len(_queries(file))


def test_a_query_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        query("relay", "nothing")


def test_migrations_are_numbered_from_one_without_a_gap() -> None:
    assert [each.version for each in migrations()] == list(range(1, len(migrations()) + 1))


@pytest.mark.parametrize("migration", migrations(), ids=lambda migration: migration.title)
def test_migrations_fill_in_tables_their_storage_and_what_finds_rows_alone(
    migration: windrow.database.migrations.Migration,
) -> None:
    fields = {field for _, field, _, _ in Formatter().parse(migration.statements._obj) if field is not None}
    assert fields <= {"outbox", "relay", "position", "in_flight", "dead_letter", "migration"} | {
        *("slot", "and_slot", "by_slot", "slots", "found_by", "find")
    }
