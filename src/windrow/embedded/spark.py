"""A standalone Spark cluster out of the pip package: a master and its workers, each a process of its own.

Executors run in Java below their worker, and their Python workers, which are this interpreter, below them.
"""

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from windrow.embedded import ports
from windrow.embedded.server import Commands, Server

_DRIVER: Final[Mapping[str, str]] = {
    "spark.driver.host": ports.HOST,
    "spark.driver.bindAddress": ports.HOST,
    "spark.executor.memory": "512m",
    "spark.pyspark.python": sys.executable,
    "spark.ui.enabled": "false",
}


class SparkServer(Server):
    """A Java of Spark's. It answers once its log says so."""

    start_seconds: ClassVar[float] = 180
    ready: ClassVar[str]

    def __init__(self) -> None:
        super().__init__(folder=None, port=None)

    def _answers(self) -> bool:
        said = [] if self._process is None else self._process.output()
        return any(self.ready in line for line in said)

    def _spark(self, program: str, *arguments: str) -> Commands:
        spec = importlib.util.find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError("pyspark", name="pyspark")
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


class Master(SparkServer):
    """Knows the workers, and gives their cores to drivers."""

    name = "Spark-master"
    ready = "I have been elected leader"

    @property
    def url(self) -> str:
        return f"spark://{ports.HOST}:{self.port}"

    def _commands(self) -> Commands:
        where = ("--host", ports.HOST, "--port", str(self.port), "--webui-port", "0")
        return self._spark("spark-class", "org.apache.spark.deploy.master.Master", *where)


class Worker(SparkServer):
    """As a host with so many cores, hence tasks at a time."""

    name = "Spark-worker"
    ready = "Successfully registered with master"

    def __init__(self, master: str, cores: int) -> None:
        super().__init__()
        self._master, self._cores = master, cores

    def _commands(self) -> Commands:
        where = ("--host", ports.HOST, "--port", str(self.port), "--webui-port", "0")
        size = ("--cores", str(self._cores), "--memory", "2g", "--work-dir", str(self.folder / "work"))
        return self._spark("spark-class", "org.apache.spark.deploy.worker.Worker", *where, *size, self._master)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What runs, and what a driver has to be told of it."""

    master: Master
    workers: tuple[Worker, ...]

    def settings(self, cores: int) -> dict[str, str]:
        """Of a driver that is to have so many cores, in executors of two each."""
        two = str(min(2, cores))
        return {**_DRIVER, "master": self.master.url, "spark.cores.max": str(cores), "spark.executor.cores": two}


@contextmanager
def cluster(workers: int, cores: int) -> Iterator[Cluster]:
    """A cluster of so many workers with so many cores each, while the context lasts."""
    with Master() as master, ExitStack() as stack:
        started = tuple(Worker(master.url, cores) for _ in range(workers))
        for each in started:
            stack.callback(each.stop)
            each.launch()
        for each in started:
            each.await_answer()
        yield Cluster(master, started)
