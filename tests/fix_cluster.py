"""A Spark Connect server, out of the pip package and on the loopback."""

from windrow.embedded import ports
from windrow.embedded.server import Commands
from windrow.embedded.spark import SparkServer


class Connect(SparkServer):
    """On a Spark of its own."""

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
