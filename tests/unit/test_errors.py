"""Every error says where it is documented, and the page says it of every error."""

import importlib
import inspect
import pickle
import pkgutil
import re
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

import windrow
from windrow import errors
from windrow.errors import SettingsInvalid, WindrowError
from windrow.publish.transactor import MembershipOver, NotYet

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/errors.md"


def kinds(root: type[WindrowError] = WindrowError) -> Iterator[type[WindrowError]]:
    yield root
    for each in root.__subclasses__():
        yield from kinds(each)


ALL = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, WindrowError)]


def anchors(page: str) -> list[str]:
    headings = re.findall(r"^##+ (.+)$", page, re.MULTILINE)
    return [*re.findall(r'<a id="([^"]+)"></a>', page), *(each.lower().replace(" ", "-") for each in headings)]


def test_every_error_wherever_it_is_made_leads_to_an_anchor() -> None:
    for module in pkgutil.walk_packages(windrow.__path__, "windrow."):
        importlib.import_module(module.name)
    found = set(kinds())
    assert found > set(ALL)
    assert {each.documentation() for each in found} == {each.documentation() for each in ALL}


def test_every_error_is_known_by_a_name_of_this_module() -> None:
    known = {each.known_as() for each in kinds()}
    assert known == {each.__name__ for each in ALL}
    assert (MembershipOver.known_as(), NotYet.known_as()) == ("RelayFenced", "Interrupted")


def test_every_anchor_is_an_error_and_every_error_has_an_anchor() -> None:
    found = anchors(PAGE.read_text())
    assert sorted(found) == sorted(each.__name__.lower() for each in ALL)


def test_the_drawing_shows_every_error_below_its_parent() -> None:
    assert errors.__doc__
    drawn: dict[str, str] = {}
    above: list[str] = []
    for branch, name in re.findall(r"^ *((?:│   )*(?:[├└]── )?)(\w+Error|(?<=── )\w+)\b", errors.__doc__, re.MULTILINE):
        depth = len(branch) // 4
        above[depth:] = [name]
        drawn.setdefault(name, above[depth - 1] if depth else "")
    assert drawn == {each.__name__: "" if each is WindrowError else each.__bases__[0].__name__ for each in ALL}


@pytest.mark.parametrize("kind", ALL, ids=lambda each: each.__name__)
def test_error_names_its_anchor_beside_its_message(kind: type[WindrowError]) -> None:
    made = kind(["what is wrong"]) if kind is SettingsInvalid else kind("what is wrong")
    assert str(made) == "what is wrong"
    assert f"see docs/reference/errors.md#{kind.__name__.lower()}" in "".join(traceback.format_exception(made))
    again = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own
    assert (type(again), str(again), again.__notes__) == (kind, str(made), made.__notes__)
