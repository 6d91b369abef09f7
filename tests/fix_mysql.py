"""MySQL in MariaDB's place, for those who have a `mysqld`: the same tests then run on it."""

from pathlib import Path
from typing import ClassVar

from windrow import embedded
from windrow.embedded.server import Commands

SETTINGS: dict[str, str | int] = {
    "skip_name_resolve": "ON",
    "max_connections": 300,
    "mysqlx": "OFF",
    "secure_file_priv": "NULL",
}
ROOT = "CREATE USER IF NOT EXISTS root@'127.0.0.1';\nGRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"


class MySQL(embedded.MariaDB):
    """Of the program that is named."""

    name: ClassVar[str] = "MySQL"

    def __init__(self, program: str) -> None:
        super().__init__()
        self._program, self.settings = program, SETTINGS

    def _commands(self) -> Commands:
        self._write("init.sql", f"CREATE DATABASE IF NOT EXISTS test;\n{ROOT}")
        options = self._write("my.cnf", self._options(Path(self._program).parents[1]))
        server = [self._program, f"--defaults-file={options}"]
        return Commands(server, [] if self._data.exists() else [[*server, "--initialize-insecure"]])
