"""The documentation builds: every page is in the table of contents, and every link leads somewhere."""

import subprocess
import sys
from pathlib import Path

from fix_snippets import ROOT


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    arguments = ["--fail-on-warning", "--keep-going", "--quiet", ROOT / "docs", tmp_path]
    run = subprocess.run(
        [sys.executable, "-m", "sphinx", *arguments], capture_output=True, text=True, timeout=200, check=False
    )
    assert run.returncode == 0, run.stderr
    pages = [*tmp_path.rglob("*.html")]
    assert len(pages) > 70
    outside = [page.name for page in pages if 'src="http' in (text := page.read_text()) or '@import url("http' in text]
    assert not outside
