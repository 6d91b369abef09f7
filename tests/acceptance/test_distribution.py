"""What is installed: the client alone from the wheel, in an environment of its own, and each extra with all that its
parts import.
"""

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from windrow import embedded
from windrow.relay.setup import prepared_by_hand
from windrow.settings import Settings

ROOT = Path(__file__).parents[2]
DRIVER = ("psycopg", "psycopg_binary", "psycopg_binary.libs", "typing_extensions.py")
SERVICE = """
import sys
import psycopg
from windrow import Message, Outbox
from windrow.inbox import Inbox, Received
url, table = sys.argv[1:]
with psycopg.connect(url) as connection:
    print(Outbox(table).write(connection, Message("orders", "one", "key")))
    inbox = Inbox("billing", f"{table}_inbox")
    inbox.create(connection)
    received = Received("orders", 0, 7, None, b"one", (("x-source", b"shop"), ("x-sequence", b"1")))
    print(inbox.accept(connection, received), inbox.accept(connection, received))
loaded = {name.partition(".")[0] for name in sys.modules if getattr(sys.modules[name], "__file__", None)}
print(*sorted(loaded & {"pyspark", "confluent_kafka", "pyarrow", "click", "rich", "yaml"}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (built,) = folder.glob("windrow-*.whl")
    return built


@pytest.fixture(scope="module")
def empty(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has windrow and nothing else, not even pip."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python")]
    install = [*pip, "install", "--quiet", "--no-index", "--no-compile", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=60)
    return folder / "bin"


def linked(folder: Path, *names: str) -> dict[str, str]:
    """An environment for processes in which some of the packages that we have are there, too."""
    packages = Path(psycopg.__file__).parents[1]
    for name in names:
        (folder / name).symlink_to(packages / name)
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)}


def run(*command: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=env or {"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_client_works_with_a_driver_and_nothing_else(
    empty: Path, postgres: embedded.Postgres, tmp_path: Path
) -> None:
    name = f"wheel_{uuid4().hex[:8]}"
    settings = Settings.load(
        environment={},
        name=name,
        outbox_table=name,
        data_source=postgres.url,
        base_kafka_config={"bootstrap.servers": "-"},
    )
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(prepared_by_hand(settings, None).encode())
    done = run(empty / "python", "-c", SERVICE, postgres.url, name, env=linked(tmp_path, *DRIVER))
    assert done.stdout.splitlines() == ["1", "True False", ""], done.stderr
    with psycopg.connect(postgres.url) as connection:
        assert connection.execute(f"SELECT topic, value FROM {name}").fetchall() == [("orders", b"one")]


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("relay --config relay.yaml", "relay"),
        ("queue list", "queue"),
        ("inbox consume a:b", "inbox"),
        ("demo", "embedded"),
    ],
)
def test_the_bare_command_says_what_to_install(empty: Path, command: str, extra: str) -> None:
    said = run(empty / "windrow", *command.split())
    assert said.returncode == 2
    assert f'click is not installed: run pip install "windrow[{extra}]"' in said.stderr
    assert "docs/reference/errors.md#extramissing" in said.stderr
    assert "Traceback" not in said.stderr


def test_commands_that_are_not_installed_are_listed_and_say_what_to_install(empty: Path, tmp_path: Path) -> None:
    env = linked(tmp_path, "click")
    listed = run(empty / "python", "-m", "windrow", "--help", env=env)
    assert listed.returncode == 0, listed.stderr
    assert "completion" in listed.stdout
    refused = run(empty / "windrow", "relay", "--config", "relay.yaml", env=env)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert 'is not installed: run pip install "windrow[relay]"' in refused.stderr
    traced = run(empty / "windrow", "--debug", "relay", env=env)
    assert "Traceback" in traced.stderr


@pytest.mark.parametrize(
    ("statement", "extra"),
    [
        ("from windrow.relay import Relay", "relay"),
        ("from windrow.pipeline import register", "relay"),
        ("from windrow.dispatch import Dispatcher", "relay"),
        ("from windrow.inbox import InboxConsumer", "inbox"),
        ("from windrow.queue import QueueProducer", "queue"),
        ("from windrow.embedded import Kafka", "embedded"),
    ],
)
def test_an_import_that_needs_an_extra_names_it(empty: Path, statement: str, extra: str) -> None:
    failed = run(empty / "python", "-c", statement)
    last = failed.stderr.strip().splitlines()[-2:]
    assert last[0].startswith("windrow.errors.ExtraMissing: ")
    assert last[0].endswith(f'is not installed: run pip install "windrow[{extra}]"')
    assert last[1] == "see docs/reference/errors.md#extramissing"


def test_the_wheel_holds_what_is_read_at_run_time_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    read = [
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src/windrow").rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc", ".pyi"}
    ]
    assert {*read} <= {*names}
    assert {name.split("/")[0] for name in names} == {"windrow", f"windrow-{distribution('windrow').version}.dist-info"}


def brought(extra: str) -> Iterator[str]:
    """The distributions that an extra brings, with what they in turn need."""
    waiting, seen = [("windrow", extra)], set()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        yield name
        for line in distribution(name).requires or ():
            needs = Requirement(line)
            if needs.marker is None or needs.marker.evaluate({"extra": wanted}):
                found = canonicalize_name(needs.name)
                waiting += [(found, ""), *((found, more) for more in needs.extras)]


PARTS = {
    "inbox": "inbox:InboxConsumer inbox:OwnEvents cli.inbox",
    "queue": "queue:AsyncQueueConsumer queue:Lost queue:QueueConsumer queue:QueueProducer queue:Worker cli.queue",
    "relay": (
        "relay pipeline dispatch cli.completion cli.dead_letters cli.doctor cli.init cli.pump cli.purge cli.relay"
        " cli.repair cli.republish cli.reshard cli.status"
    ),
    "dashboard": "cli.dashboard",
    "queue,relay": "cli.queue_tracker",
    "embedded": "embedded:Kafka embedded:MariaDB embedded:Postgres cli.bench cli.demo cli.servers cli.torture",
}
BEHIND_A_WALL = """
import importlib, sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Wall())
for part in {parts!r}:
    module, _, attribute = part.partition(":")
    found = importlib.import_module(f"windrow.{{module}}")
    attribute and getattr(found, attribute)
import yaml
"""


def imported(extras: str, parts: str) -> subprocess.CompletedProcess[str]:
    """Import parts of windrow where there is nothing but what the extras bring."""
    have = {name for extra in extras.split(",") for name in brought(extra)}
    refused = [
        package
        for package, names in packages_distributions().items()
        if not {canonicalize_name(name) for name in names} & have
    ]
    return run(sys.executable, "-c", BEHIND_A_WALL.format(refused=refused, parts=parts.split()))


@pytest.mark.parametrize("extras", PARTS)
def test_an_extra_brings_all_that_its_parts_import(extras: str) -> None:
    done = imported(extras, PARTS[extras])
    assert done.returncode == 0, done.stderr


def test_the_wall_keeps_out_what_an_extra_does_not_bring() -> None:
    assert 'run pip install "windrow[relay]"' in imported("queue", "relay").stderr
