"""Kafka Connect, standalone, with Debezium's PostgreSQL connector and its outbox event router.

One worker for the whole run, so that its code is compiled as that of a service that has run for a while; a connector
for each outbox, by the worker's REST interface.
"""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from windrow.embedded import jars, ports
from windrow.embedded.broker import LOGGING
from windrow.embedded.broker import VERSION as KAFKA_VERSION
from windrow.embedded.server import Commands, Server
from windrow.errors import EnvironmentUnfit
from windrow.java import find_java

VERSION: Final = "3.6.0.Final"
JARS: Final = jars.JarSet(
    title=f"Kafka Connect {KAFKA_VERSION} and Debezium {VERSION}",
    wanted=(
        jars.Coordinates("io.debezium", "debezium-connector-postgres", VERSION),
        jars.Coordinates("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
        jars.Coordinates("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    ),
    megabytes=41,
)
HEAP: Final = ("-Xms256m", "-Xmx2g")
"""As Kafka Connect's own scripts have it."""
_RUNNING_WITHIN: Final = 60.0
_CONVERTERS: Final = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "io.debezium.converters.BinaryDataConverter",
}


class Connect(Server):
    """`with Connect(kafka.bootstrap_servers) as connect, connect.connector(name, config): …`"""

    name: ClassVar[str] = "Kafka Connect"

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(None, None)
        self._bootstrap_servers = bootstrap_servers

    @contextmanager
    def connector(self, name: str, config: Mapping[str, str]) -> Iterator[None]:
        """A connector, running; deleted afterwards."""
        self._ask("PUT", f"/connectors/{name}/config", config)
        try:
            self._await_running(name)
            yield
        finally:
            self._ask("DELETE", f"/connectors/{name}")

    def _commands(self) -> Commands:
        logging = self._write("log4j2.properties", LOGGING.replace("INFO", "WARN"))
        worker = self._write(
            "worker.properties",
            "".join(f"{name}={value}\n" for name, value in self._properties().items()),
        )
        java = [
            str(find_java()),
            *HEAP,
            "-XX:-UsePerfData",
            f"-Djava.io.tmpdir={self.folder}",
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            os.pathsep.join(str(jar) for jar in sorted(jars.fetch(JARS).glob("*.jar"))),
        ]
        return Commands([*java, "org.apache.kafka.connect.cli.ConnectStandalone", str(worker)])

    def _properties(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self._bootstrap_servers,
            "listeners": f"http://{ports.HOST}:{self.port}",
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "plugin.discovery": "service_load",
            **_CONVERTERS,
        }

    def _answers(self) -> bool:
        try:
            self._ask("GET", "/")
        except OSError:
            return False
        return True

    def _await_running(self, name: str) -> None:
        deadline = time.monotonic() + _RUNNING_WITHIN
        while True:
            status = self._status(name)
            tasks = [task["state"] for task in status.get("tasks", [])]
            if tasks == ["RUNNING"]:
                return
            if "FAILED" in tasks or time.monotonic() > deadline:
                raise EnvironmentUnfit(f"Debezium's connector does not run; mend what it says: {status}")
            time.sleep(0.1)

    def _status(self, name: str) -> Mapping[str, Any]:
        try:
            status: Mapping[str, Any] = self._ask("GET", f"/connectors/{name}/status")
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return {}
        return status

    def _ask(self, method: str, path: str, content: Mapping[str, str] | None = None) -> Any:
        data = None if content is None else json.dumps(content).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{ports.HOST}:{self.port}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - the loopback
            return json.loads(answer.read() or b"null")
