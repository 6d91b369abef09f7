"""Every fenced block of every page, found in one place; its language says how it is checked.

`console`, `yaml` and unnamed blocks: tests/unit/test_snippets.py. `sql` and `python`:
tests/integration/test_snippet_runs.py, or, where a page tells a longer story, the test that `PLAYED` names.
"""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\s`]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)

PLAYED = {
    "docs/tutorial/order-service.md": "tests/acceptance/test_tutorial.py",
    "docs/how-to/test-your-service.md": "tests/acceptance/test_testing_plugin.py",
    "docs/how-to/queues.md": "tests/integration/test_queue_work.py",
    "docs/how-to/write-from-your-framework.md": "tests/integration/test_write_how_to.py",
}
"""Pages whose Python is run by a test of their own."""


class Snippet(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """README and all of the documentation, as paths from the root."""
    return [str(path.relative_to(ROOT)) for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]


def snippets(language: str | None = None, page: str | None = None) -> list[Snippet]:
    """The blocks of a language, or of all; directives of Sphinx's are none."""
    found = []
    for each in [page] if page else pages():
        text = (ROOT / each).read_text()
        for block in _FENCE.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            found.append(Snippet(each, line, block["language"], textwrap.dedent(block["text"])))
    return [each for each in found if not each.language.startswith("{") and language in {None, each.language}]


def code(page: str, language: str = "python") -> list[str]:
    """The texts of a page's blocks."""
    return [each.text for each in snippets(language, page)]
