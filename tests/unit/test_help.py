"""Help teaches by examples: every command has some, and each of them is what the command takes."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from windrow import __main__
from windrow.cli import windrow
from windrow.extras import extra_of


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, by the words that name it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


ALL = dict(commands(windrow))


def examples(command: click.Command) -> list[list[str]]:
    """The words of each example, without what a shell does around them and what is said about them."""
    text = f"{command.help}\n{command.epilog or ''}"
    block = re.search(r"^ *Examples?:\n((?: +\S.*\n?)+)", text, re.MULTILINE)
    lines = re.findall(r"^ +(?:[A-Z_]+=\S+ )?windrow (.*)$", block[1] if block else "", re.MULTILINE)
    return [shlex.split(re.split(r"  +[^-\s]| [|>#] ", line)[0], comments=True) for line in lines]


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_example_is_what_its_command_takes(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "query.sql").write_text("SELECT id, topic, value FROM outbox")
    shown = examples(ALL[path])
    assert shown, f"windrow {' '.join(path)} has no examples"
    for words in shown:
        assert tuple(words[: len(path)]) == path
        with ALL[path].make_context(" ".join(path), words[len(path) :]):
            pass


def test_the_walk_sees_what_does_not_parse() -> None:
    @click.command(help="Do.\n\n\\b\nExamples:\n  windrow do --wrong    say it\n")
    def do() -> None: ...

    assert examples(do) == [["do", "--wrong"]]
    with pytest.raises(click.NoSuchOption):
        do.make_context("do", ["--wrong"])


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_option_is_explained_in_a_help_that_keeps_its_lines(path: tuple[str, ...]) -> None:
    command = ALL[path]
    with click.Context(command, info_name=" ".join(path), max_content_width=110) as context:
        shown = command.get_help(context)
    assert "\b" not in shown
    unexplained = [each.name for each in command.params if isinstance(each, click.Option) and not each.help]
    assert unexplained == []


def test_only_what_is_asked_for_is_imported() -> None:
    program = (
        "import sys; sys.argv = ['windrow', '--version']\n"
        "from windrow.__main__ import main\n"
        "main()\n"
        "print(*{'pyspark', 'confluent_kafka', 'psycopg', 'rich', 'pyarrow'} & {*sys.modules}, file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (run.stdout.split(), run.stderr.split()) == (["windrow,", "version", version("windrow")], [])


def test_the_version_is_semantic_and_the_changelog_begins_with_it() -> None:
    changelog = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
    newest = re.search(r"^## (\S+)", changelog, re.MULTILINE)
    assert newest
    assert newest[1] == version("windrow")
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", newest[1])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    windrow(["completion", shell], standalone_mode=False)
    assert f"_WINDROW_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("windrow re", "relay repair republish reshard"),
        ("windrow queue tr", "tracker"),
        ("windrow bench write --q", "--quick"),
    ],
)
def test_bash_completes(typed: str, completed: str) -> None:
    words = typed.split()
    script = (
        'eval "$(windrow completion bash)"\n'
        f"COMP_WORDS=({typed}) COMP_CWORD={len(words) - 1}\n"
        '_windrow_completion windrow "${COMP_WORDS[-1]}"\n'
        'echo "${COMPREPLY[@]}"'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(["bash", "-c", script], env={"PATH": path}, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == completed


def test_every_command_has_an_extra_that_there_is() -> None:
    named = {extra_of(path[0]) for path in ALL}
    assert named == {"relay", "inbox", "queue", "dashboard", "embedded"}
    assert callable(__main__.main)
