"""Imports point to the right only, and the client side needs nothing but the standard library.

    cli → dashboard → bench | doctor | testing → lab → pipeline → relay | queue | dispatch
        → capture | publish | election | outbox | inbox → database | drivers | kafka | wire | spark | observe | embedded
        → the single modules: message, errors, settings …

A package imports itself and what lies to its right, not its neighbours. `windrow` itself is the client's
front door, `windrow.__main__` the command's; nothing inside imports either.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import windrow

ROOT = Path(windrow.__file__).parent
LAYERS = (
    {"cli"},
    {"dashboard"},
    {"bench", "doctor", "testing"},
    {"lab"},
    {"pipeline"},
    {"relay", "queue", "dispatch"},
    {"capture", "publish", "election", "outbox", "inbox"},
    {"database", "drivers", "kafka", "wire", "spark", "observe", "embedded"},
)
FRONT_DOORS = {"windrow": {"message", "outbox"}, "windrow.__main__": {"cli", "errors", "extras"}}
EXCEPTIONS: dict[tuple[str, str], str] = {}
"""(importing module, imported package): the reason. Empty is best."""


class Import(NamedTuple):
    """One import of a module of windrow, by another."""

    importer: str
    imported: str
    line: int


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source: str, importer: str, modules: set[str], *, is_package: bool = False) -> Iterator[Import]:
    """Every import of windrow's own modules, wherever in the source it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = list(_origins(node, importer, modules, is_package=is_package))
        else:
            continue
        yield from (Import(importer, name, node.lineno) for name in names if name.split(".")[0] == "windrow")


def _origins(node: ast.ImportFrom, importer: str, modules: set[str], *, is_package: bool) -> Iterator[str]:
    """`from windrow import errors` names a module, `from windrow.message import Message` its origin."""
    parents = importer.split(".")
    above = parents[: len(parents) - node.level + is_package] if node.level else []
    origin = ".".join([*above, *([node.module] if node.module else [])])
    for alias in node.names:
        inner = f"{origin}.{alias.name}"
        yield inner if inner in modules else origin


def unit(module: str) -> str:
    """The package or single module directly in windrow that a module belongs to."""
    return module.split(".")[1] if "." in module else module


def fault(found: Import, packages: set[str]) -> str | None:
    """Why an import is not allowed; None where it is."""
    importer, imported = unit(found.importer), unit(found.imported)
    where = f"{found.importer}, line {found.line}, imports {found.imported}"
    if importer == imported or (found.importer, imported) in EXCEPTIONS:
        return None
    if found.importer in FRONT_DOORS:
        return None if imported in FRONT_DOORS[found.importer] else f"{where}: not what this front door shows"
    if imported in FRONT_DOORS or found.imported in FRONT_DOORS:
        return f"{where}: a front door; import the module behind it"
    for each in (importer, imported):
        if each in packages and not any(each in layer for layer in LAYERS):
            return f"{where}: {each} has no layer yet; give it one in {Path(__file__).name}"
    if _layer(importer) < _layer(imported) or _layer(importer) == _layer(imported) == len(LAYERS):
        return None
    return f"{where}: imports point to the right only"


def _layer(name: str) -> int:
    return next((number for number, layer in enumerate(LAYERS) if name in layer), len(LAYERS))


def test_imports_point_to_the_right_only() -> None:
    sources = {module_name(path): path for path in ROOT.rglob("*.py")}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    found = [
        each
        for module, path in sources.items()
        for each in imports(path.read_text(), module, set(sources), is_package=path.name == "__init__.py")
    ]
    assert len(found) > 50
    assert [each for each in (fault(each, packages) for each in found) if each] == []


MODULES = {"windrow", "windrow.errors", "windrow.relay.purge", "windrow.capture", "windrow.capture.position"}
PACKAGES = {"relay", "capture", "publish", "spark", "embedded", "observe", "outbox", "cli", "lab", "novelty"}


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("windrow.capture.snapshot", "from windrow.relay.purge import Purger"),
        ("windrow.capture.snapshot", "import windrow.relay.purge"),
        ("windrow.capture.snapshot", "from windrow.publish.transaction import x"),
        ("windrow.capture.snapshot", "def f():\n    from ..relay import purge"),
        ("windrow.capture.snapshot", "if TYPE_CHECKING:\n    from windrow.cli import main"),
        ("windrow.capture.snapshot", "from windrow import Message"),
        ("windrow.capture.snapshot", "import windrow"),
        ("windrow.capture.snapshot", "from .. import Message"),
        ("windrow.spark.session", "from windrow.embedded.ports import free_port"),
        ("windrow.settings", "from windrow.observe import metrics"),
        ("windrow.novelty.new", "from windrow.errors import WindrowError"),
        ("windrow.relay.epoch", "from windrow.novelty import new"),
        ("windrow", "from windrow.relay import Relay"),
    ],
)
def test_the_check_catches(importer: str, source: str) -> None:
    assert any(fault(each, PACKAGES) for each in imports(source, importer, MODULES))


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("windrow.relay.shard", "from windrow.relay.purge import Purger"),
        ("windrow.relay.shard", "from . import purge"),
        ("windrow.relay.shard", "from windrow.capture import position"),
        ("windrow.relay.shard", "from windrow import errors"),
        ("windrow.cli.demo", "import windrow.lab.checkers, json"),
        ("windrow.settings", "from windrow.errors import SettingsInvalid"),
        ("windrow.settings", "from windrowers import outsiders"),
        ("windrow", "from windrow.outbox import Outbox"),
        ("windrow.__main__", "from windrow.cli import main"),
    ],
)
def test_the_check_lets_pass(importer: str, source: str) -> None:
    assert [fault(each, PACKAGES) for each in imports(source, importer, MODULES) if fault(each, PACKAGES)] == []


def test_client_side_imports_nothing_but_the_standard_library() -> None:
    program = (
        "import sys; before = set(sys.modules)\n"
        "import windrow, windrow.inbox, windrow.outbox, windrow.settings, windrow.errors\n"
        "print(*{name.split('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["windrow"]
