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
DIALECTS = ("postgresql", "mysql")
FILES = [
    (dialect, file.name.removesuffix(".sql"))
    for dialect in DIALECTS
    for file in files("windrow.database").joinpath("sql", dialect).iterdir()
    if file.name[-4:] == ".sql"
]
NAMED = [(dialect, file, name) for dialect, file in FILES for name in _queries(file, dialect)]


def asked_for() -> set[tuple[str, str]]:
    """The arguments of every call `query("file", "name")` in the source."""
    calls = [
        node
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _called(node.func) == "query"
    ]
    constants = [[argument.value for argument in call.args[:2] if isinstance(argument, ast.Constant)] for call in calls]
    return {(file, name) for file, name in (each for each in constants if len(each) == 2)}


def _called(function: ast.expr) -> str | None:
    match function:
        case ast.Name(name) | ast.Attribute(_, name):
            return name
        case _:
            return None


def test_every_query_that_the_code_names_is_there() -> None:
    assert len(asked_for()) > 30
    assert asked_for() <= {(file, name) for _, file, name in NAMED}


def test_what_mysql_is_asked_is_asked_of_postgresql_by_the_same_name() -> None:
    by_dialect = {
        dialect: {(file, name) for each, file, name in NAMED if each == dialect and file != "doctor"}
        for dialect in DIALECTS
    }
    assert by_dialect["mysql"] <= by_dialect["postgresql"]
    for file in ("dead_letter", "lease", "mark", "status", "migration"):
        wanted, there = ({name for each, name in by_dialect[dialect] if each == file} for dialect in DIALECTS)
        assert wanted == there, file


@pytest.mark.parametrize(("dialect", "file", "name"), NAMED)
def test_query_has_a_body_and_no_stray_braces(dialect: str, file: str, name: str) -> None:
    template = query(file, name, dialect)._obj
    assert re.match(r"\(?\{?[A-Za-z_]+\b", template)
    fields = [field for _, field, _, _ in Formatter().parse(template) if field is not None]
    assert all(field.isidentifier() for field in fields)


@pytest.mark.parametrize(("dialect", "file"), FILES)
def test_every_query_is_described_in_its_file(dialect: str, file: str) -> None:
    text = files("windrow.database").joinpath("sql", dialect, f"{file}.sql").read_text()
    assert re.findall(r"^-- name: (\w+)\n-- \S", text, re.MULTILINE) == list(_queries(file, dialect))
    assert text.count("-- name:") == len(_queries(file, dialect))


def test_a_query_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        query("relay", "nothing")


def test_migrations_are_numbered_from_one_without_a_gap_and_the_same_everywhere() -> None:
    numbered = [[each.version for each in migrations(dialect)] for dialect in DIALECTS]
    assert numbered == [list(range(1, len(numbered[0]) + 1))] * 2


@pytest.mark.parametrize(
    "migration",
    [each for dialect in DIALECTS for each in migrations(dialect)],
    ids=lambda migration: migration.title,
)
def test_migrations_fill_in_tables_their_storage_and_what_finds_rows_alone(
    migration: windrow.database.migrations.Migration,
) -> None:
    fields = {field for _, field, _, _ in Formatter().parse(migration.statements._obj) if field is not None}
    assert fields <= {"outbox", "relay", "position", "in_flight", "dead_letter", "migration"} | {
        *("slot", "and_slot", "by_slot", "slots", "found_by", "find")
    }
