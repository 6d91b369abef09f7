"""Commands and settings on the pages are ones that windrow takes, and no block is of a language that nobody checks."""

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import click
import pytest
import yaml

from fix_snippets import PLAYED, ROOT, Snippet, pages, snippets
from windrow.cli import windrow
from windrow.parse import read
from windrow.settings import Settings

LANGUAGES = {"console", "yaml", "python", "sql", "text", ""}
OTHERS = {
    *(".", "cd", "curl", "docker", "export", "grep", "jq", "kafka-acls", "kcat", "kill", "kubectl", "mkdir", "pip"),
    *("psql", "sed", "uvicorn", "venv-pack"),
}
"""Programs that pages may name; whether their options exist is not ours to say."""
FORMATS = {"apiVersion", "groups", "scrape_configs"}
"""What YAML begins with that is for other programs: Kubernetes, Prometheus."""
REQUIRED = {"dataSource": "postgresql://db/shop", "baseKafkaConfig": {"bootstrap.servers": "kafka:9092"}}
SPOKEN = re.compile(r"(?<!`)`(windrow [a-z][^`]*)`")


def commands(snippet: Snippet) -> Iterator[list[str]]:
    """The commands of a block: each line after `$ `, continued over backslashes, and parted at pipes and the like."""
    lines = snippet.text.replace("\\\n", " ").splitlines()
    for line in [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]:
        words = shlex.shlex(re.sub(r"(^|\s)# .*$|\s{2,}#.*$", "", line), posix=True, punctuation_chars="|&;<>")
        words.whitespace_split, words.commenters = True, ""
        command: list[str] = []
        for word in words:
            if re.fullmatch(r"[|&;]+", word):
                yield command
                command = []
            elif not (word.isdigit() and not command) and (command or not re.match(r"[A-Z_]+=", word)):
                command.append(word)
        yield command


def refused(arguments: list[str]) -> str:
    """Why windrow would not take these arguments; empty where it would."""
    command: click.Command | None = windrow
    context: click.Context | None = None
    name: str | None = "windrow"
    with ExitStack() as opened:  # files among the values
        try:
            while command:
                context = opened.enter_context(command.make_context(name, list(arguments), parent=context))
                if not isinstance(command, click.Group):
                    break
                name, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
        except click.UsageError as error:
            return error.format_message()
    return ""


def fault(snippet: Snippet, command: list[str]) -> str:
    """What is wrong with a command on a page; empty where nothing is."""
    if ">" in command:
        command = command[: command.index(">")]
    program, *arguments = command
    match program:
        case "windrow":
            return refused(arguments)
        case "spark-submit":
            script = next(place for place, word in enumerate(arguments) if word.endswith("submit.py"))
            return refused(arguments[script + 1 :])
        case "make":
            targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            return "" if arguments[0] in targets else f"no target {arguments[0]}"
        case "python" if arguments[0] != "-c":
            there = (ROOT / arguments[0]).exists() or f"`{arguments[0]}`" in (ROOT / snippet.page).read_text()
            return "" if there else f"no file {arguments[0]}"
        case _:
            return "" if program in OTHERS or program == "python" else f"who is {program}?"


@pytest.fixture(autouse=True)
def files_that_pages_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "query.sql").write_text("SELECT * FROM outbox")


@pytest.mark.parametrize("snippet", snippets("console"), ids=str)
def test_commands_are_ones_that_can_be_given(snippet: Snippet) -> None:
    found = list(commands(snippet))
    assert found
    assert not [fault for command in found if (fault := fault_of(snippet, command))]


def fault_of(snippet: Snippet, command: list[str]) -> str:
    said = fault(snippet, command)
    return said and f"{' '.join(command)}: {said}"


@pytest.mark.parametrize("page", pages())
def test_commands_in_the_text_exist(page: str) -> None:
    wrong = []
    for spoken in SPOKEN.findall((ROOT / page).read_text()):
        command: click.Command = windrow
        for word in spoken.split()[1:]:
            if isinstance(command, click.Group) and re.fullmatch(r"[a-z-]+", word) and not word.startswith("-"):
                below = command.get_command(click.Context(command), word)
                if below is None:
                    wrong.append(spoken)
                    break
                command = below
            elif word.startswith("--"):
                known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
                if re.split("[=/]", word)[0].rstrip(".,") not in known | {"--help"}:
                    wrong.append(spoken)
    assert not wrong


@pytest.mark.parametrize("snippet", snippets("yaml"), ids=str)
def test_settings_are_valid(snippet: Snippet) -> None:
    given = yaml.safe_load(snippet.text)
    if not FORMATS & given.keys():
        read(Settings, REQUIRED | given)


def test_every_block_is_of_a_language_that_is_checked() -> None:
    assert not [str(each) for each in snippets() if each.language not in LANGUAGES]
    assert not [str(each) for each in snippets() if each.language in {"text", ""} and "$ " in each.text]


def test_every_page_that_is_played_elsewhere_is_read_there() -> None:
    for page, test in PLAYED.items():
        assert f'"{page}"' in (ROOT / test).read_text()


def test_mistakes_on_pages_are_found() -> None:
    text = "$ windrow relay --confog x\n$ windrow fly\n$ make hay\n$ frobnicate\n$ windrow pump --rate many | jq .\n"
    snippet = Snippet("README.md", 1, "console", text)
    faults = [fault_of(snippet, command) for command in commands(snippet)]
    assert [bool(each) for each in faults] == [True, True, True, True, True, False]
