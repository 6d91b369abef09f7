"""The pytest plugin for services, in a run of its own, as docs/how-to/test-your-service.md shows it."""

import subprocess
import sys
from pathlib import Path

import pytest

from fix_snippets import code


@pytest.mark.timeout(240)
def test_the_pages_own_tests_pass(tmp_path: Path) -> None:
    snippets = [each.removeprefix("# ").split("\n", 1) for each in code("docs/how-to/test-your-service.md")]
    assert [name for name, _ in snippets] == ["service.py", "test_service.py", "conftest.py", "test_service_whole.py"]
    for name, content in snippets:
        (tmp_path / name).write_text(content)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert "2 passed" in run.stdout
