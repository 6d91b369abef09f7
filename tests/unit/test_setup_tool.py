"""`tools/setup.py`: what is wrong with a machine or an environment is told with its remedy."""

import ast
import importlib.util
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "setup.py"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool, at work on an empty folder."""
    spec = importlib.util.spec_from_file_location("setup_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, path in {"ROOT": "", "VENV": ".venv", "PYTHON": ".venv/bin/python"}.items():
        monkeypatch.setattr(module, name, tmp_path / path)
    return module


def test_an_old_python_can_read_it_up_to_the_message() -> None:
    assert ast.parse(TOOL.read_text(), feature_version=(3, 7))


def test_an_old_python_is_refused(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool.sys, "version_info", (3, 9, 2))
    with pytest.raises(tool.Unfit, match=r"Python 3\.11 or newer is needed.*make setup PYTHON="):
        tool.check_machine()


def test_a_python_without_ensurepip_is_refused(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else name)
    with pytest.raises(tool.Unfit, match="apt-get install python3-venv"):
        tool.check_machine()


def test_a_full_disk_is_refused(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")  # noqa: PYI024 - as shutil's own
    monkeypatch.setattr(tool.shutil, "disk_usage", lambda _: usage(1.2e9))
    with pytest.raises(tool.Unfit, match=r"3 GB of free disk are needed.*has 1\.2"):
        tool.check_space()


def test_environments_that_cannot_be_used_are_told_apart(tool: ModuleType) -> None:
    assert tool.environment_fault() == "new"
    tool.VENV.mkdir()
    assert "half made" in tool.environment_fault()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tool.VENV)], check=True)
    assert "its Python is gone" in tool.environment_fault()
    pip = next(tool.VENV.glob("lib/python3*/site-packages")) / "pip"
    pip.mkdir()
    assert tool.environment_fault() == ""
    tool.PYTHON.unlink()
    assert "its Python is gone" in tool.environment_fault()
    shutil.move(tool.VENV, tool.ROOT / "moved")
    tool.VENV = tool.ROOT / "moved"
    assert "another folder" in tool.environment_fault()


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (
            ["WARNING: Retrying (Retry(total=0", "ERROR: No matching distribution found for click==8"],
            (
                "the package registry did not answer: No matching distribution found for click==8; check the network"
                " or pip's index settings (pip config list), then run make setup again"
            ),
        ),
        (
            ["ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"],
            "the disk is full; free 3 GB, then run make setup again",
        ),
        (
            ["ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE."],
            (
                "a package is not the one that requirements.lock pins, see above;"
                " empty pip's cache (pip cache purge) and run make setup again"
            ),
        ),
        (["ERROR: something else"], "pip failed: something else; mend that, then run make setup again"),
        ([], "pip failed: see above; mend that, then run make setup again"),
    ],
)
def test_complaints_of_pip_are_told_with_their_remedy(tool: ModuleType, said: list[str], remedy: str) -> None:
    assert tool.remedy(said) == remedy
