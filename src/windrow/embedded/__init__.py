"""Real servers for the demo and the tests: `Postgres`, `Kafka` and `MariaDB`, each a context manager.

They listen on free ports of the loopback, keep their data in a temporary or a given folder, and can be
paused, killed and restarted, for tests of what happens then. None of their processes outlives the one that
started them. Importing this package needs the standard library alone; a server's parts are loaded when it is
first named. Linux only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from windrow.extras import needed

if TYPE_CHECKING:
    from windrow.embedded.kafka import Kafka
    from windrow.embedded.mariadb import MariaDB
    from windrow.embedded.postgres import Postgres
    from windrow.embedded.security import Security

__all__ = ["Kafka", "MariaDB", "Postgres", "Security"]

_HOMES = {"Kafka": "kafka", "MariaDB": "mariadb", "Postgres": "postgres", "Security": "security"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needed("embedded"):
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
