"""Spark beyond this process, out of the pip package and on the loopback: a standalone cluster, and a Connect server."""

import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

from windrow.embedded import ports
from windrow.embedded.server import Commands, Server
from windrow.lab.child import python_workers


class _SparkServer(Server):
    """A JVM of Spark's, whose Python workers are this interpreter. It answers once its log says so."""

    start_seconds: ClassVar[float] = 180
    ready: ClassVar[str]

    def __init__(self) -> None:
        super().__init__(folder=None, port=None)

    def _answers(self) -> bool:
        return self.ready in self.log.read_text()

    def _spark(self, program: str, *arguments: str) -> Commands:
        spec = importlib.util.find_spec("pyspark")
        assert spec
        assert spec.origin
        home = Path(spec.origin).parent
        environment = {
            "SPARK_HOME": home,
            "SPARK_LOCAL_DIRS": self.folder,
            "SPARK_LOCAL_IP": ports.HOST,
            "SPARK_DAEMON_MEMORY": "600m",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        given = [f"{name}={value}" for name, value in environment.items()]
        return Commands(["env", *given, str(home / "bin" / program), *arguments])


class Master(_SparkServer):
    """A standalone cluster's master."""

    name = "Spark-master"
    ready = "I have been elected leader"

    @property
    def url(self) -> str:
        return f"spark://{ports.HOST}:{self.port}"

    def _commands(self) -> Commands:
        where = ("--host", ports.HOST, "--port", str(self.port), "--webui-port", "0")
        return self._spark("spark-class", "org.apache.spark.deploy.master.Master", *where)


class Worker(_SparkServer):
    """A worker with one core, hence one task at a time."""

    name = "Spark-worker"
    ready = "Successfully registered with master"

    def __init__(self, master: str) -> None:
        super().__init__()
        self._master = master

    @property
    def tasks(self) -> int:
        """How many of its Python workers are at work."""
        return len(python_workers(self.pid))

    def _commands(self) -> Commands:
        where = ("--host", ports.HOST, "--port", str(self.port), "--webui-port", "0")
        size = ("--cores", "1", "--memory", "600m", "--work-dir", str(self.folder / "work"))
        return self._spark("spark-class", "org.apache.spark.deploy.worker.Worker", *where, *size, self._master)


class Connect(_SparkServer):
    """A Connect server, on a Spark of its own with as many slots as given."""

    name = "Spark-Connect"
    ready = "Spark Connect server started"

    @property
    def url(self) -> str:
        return f"sc://{ports.HOST}:{self.port}"

    def _commands(self) -> Commands:
        settings = {
            "spark.connect.grpc.binding.address": ports.HOST,
            "spark.connect.grpc.binding.port": self.port,
            "spark.driver.host": ports.HOST,
            "spark.ui.enabled": "false",
            "spark.sql.warehouse.dir": self.folder / "warehouse",
            "spark.sql.shuffle.partitions": 4,
        }
        given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
        return self._spark("spark-submit", "--master", "local[4]", *given, *server)


@contextmanager
def standalone(workers: int) -> Iterator[tuple[Master, Sequence[Worker]]]:
    """A master and its workers, running."""
    with Master() as master, ExitStack() as stack:
        started = [Worker(master.url) for _ in range(workers)]
        for worker in started:
            stack.callback(worker.stop)
            worker.launch()
        for worker in started:
            worker.await_answer()
        yield master, started
