"""One Kafka broker: a JVM that is controller and broker at once, a member of a static KRaft quorum.

Brokers of a cluster know each other from the start by `Quorum`; a broker may die and come back alone. Whoever
comes over the plain listener is a superuser; the secured one, if there is one, is TLS with SASL.
"""

import os
import struct
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from windrow.embedded import jars, ports
from windrow.embedded.security import Security
from windrow.embedded.server import Commands, Server
from windrow.java import find_java

VERSION = "4.2.1"
JARS = jars.JarSet(
    title=f"the Kafka broker {VERSION}",
    wanted=(
        jars.Coordinates("org.apache.kafka", "kafka_2.13", VERSION),
        # Without it the broker logs nothing.
        jars.Coordinates("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    ),
    megabytes=47,
)
_OWN_SEGMENT = 1024 * 1024
LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


@dataclass(frozen=True)
class Quorum:
    """What all brokers of a cluster have in common."""

    cluster_id: str
    controller_ports: Mapping[int, int]
    """By node id."""
    leftover: Path | None
    """The cluster's folder if it is a temporary one."""
    jvm_options: tuple[str, ...] = ()

    @property
    def voters(self) -> str:
        return ",".join(f"{node}@{ports.HOST}:{port}" for node, port in self.controller_ports.items())


@dataclass(frozen=True)
class SecureListener:
    """TLS and SASL on a port of its own."""

    security: Security
    port: int
    certificate: Path


@dataclass(frozen=True)
class ProxiedListener:
    """A plain listener for clients that come through a proxy: whoever asks there is told the proxy's port."""

    port: int
    proxy: int


class Broker(Server):
    """A member of `Kafka.brokers`."""

    name: ClassVar[str] = "Kafka"
    # The last broker of a cluster that is stopped waits in vain for a controller to dismiss it.
    grace: ClassVar[float] = 5

    def __init__(  # noqa: PLR0913, PLR0917 - a broker's whole configuration
        self,
        node: int,
        quorum: Quorum,
        folder: Path,
        settings: Mapping[str, str | int],
        secure: SecureListener | None,
        proxied: ProxiedListener | None = None,
    ) -> None:
        super().__init__(folder, ports.free_port())
        self.node = node
        self.quorum = quorum
        self.settings = settings
        self.secure = secure
        self.proxied = proxied

    @property
    def _leftover(self) -> Path | None:
        return self.quorum.leftover

    def known_brokers(self) -> set[int]:
        """The node ids of the cluster's live brokers, as this one sees them."""
        if not ports.accepts(self.port):
            return set()
        try:
            return set(self.admin().list_topics(timeout=2).brokers)
        except KafkaException:
            return set()

    def known_users(self) -> set[str]:
        """Those with SCRAM credentials, as this broker sees them."""
        admin = self.admin()
        found = admin.describe_user_scram_credentials()
        return set(found.result(timeout=30) if isinstance(found, Future) else found)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": f"{ports.HOST}:{self.port}", "log_level": 0})

    def _answers(self) -> bool:
        return self.node in self.known_brokers()

    def _commands(self) -> Commands:
        config = self._write("server.properties", "")
        config.write_text("".join(f"{name}={_escaped(value)}\n" for name, value in self._properties().items()))
        logging = self.folder / "log4j2.properties"
        logging.write_text(LOGGING)
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        java = [
            str(find_java()),
            *self.quorum.jvm_options,
            "-Xmx512m",
            "-XX:+ExitOnOutOfMemoryError",
            # A killed JVM would leave files in the machine's folder for temporary files.
            "-XX:-UsePerfData",
            f"-Djava.io.tmpdir={temporary}",
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            os.pathsep.join(str(jar) for jar in sorted(jars.fetch(JARS).glob("*.jar"))),
        ]
        preparations = []
        if not (self.folder / "data" / "meta.properties").exists():
            storage = ["kafka.tools.StorageTool", "format", "--ignore-formatted"]
            preparations.append([*java, *storage, f"--cluster-id={self.quorum.cluster_id}", "-c", str(config)])
        return Commands([*java, "kafka.Kafka", str(config)], preparations)

    def _properties(self) -> dict[str, str | int]:
        copies = min(3, len(self.quorum.controller_ports))
        internal = max(1, copies - 1)
        listeners = [f"PLAIN://{ports.HOST}:{self.port}"]
        secured = {} if self.secure is None else _secure_properties(self.secure)
        if self.secure is not None:
            listeners.append(f"SECURE://{ports.HOST}:{self.secure.port}")
        advertised = list(listeners)
        if self.proxied is not None:
            listeners.append(f"PROXIED://{ports.HOST}:{self.proxied.port}")
            advertised.append(f"PROXIED://{ports.HOST}:{self.proxied.proxy}")
        listeners.append(f"CONTROLLER://{ports.HOST}:{self.quorum.controller_ports[self.node]}")
        return {
            "process.roles": "broker,controller",
            "node.id": self.node,
            "controller.quorum.voters": self.quorum.voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": (
                "PLAIN:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL"
            ),
            "inter.broker.listener.name": "PLAIN",
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "true",
            "default.replication.factor": copies,
            "min.insync.replicas": internal,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": internal,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": internal,
            "share.coordinator.state.topic.num.partitions": 4,
            "group.initial.rebalance.delay.ms": 0,
            # Short logs of its own: it has read them to the end before it coordinates again, in a second or in several.
            "offsets.topic.segment.bytes": _OWN_SEGMENT,
            "transaction.state.log.segment.bytes": _OWN_SEGMENT,
            # The default of 128 MB is a quarter of the heap.
            "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
            # How soon a killed broker may come back, and how soon others take over from it.
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
            **secured,
            **self.settings,
        }


def _secure_properties(listener: SecureListener) -> dict[str, str]:
    modules = "org.apache.kafka.common.security"
    users = " ".join(f"user_{name}={_jaas(password)}" for name, password in listener.security.users.items())
    prefix = "listener.name.secure"
    return {
        f"{prefix}.ssl.keystore.type": "PEM",
        f"{prefix}.ssl.keystore.location": str(listener.certificate),
        f"{prefix}.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        f"{prefix}.scram-sha-512.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
        f"{prefix}.plain.sasl.jaas.config": f"{modules}.plain.PlainLoginModule required {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
    }


def _escaped(value: str | int) -> str:
    """As a properties file wants it, which is read as Latin-1."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "".join(_character(unit) for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be")))


def _character(unit: int) -> str:
    return "\\\\" if unit == ord("\\") else chr(unit) if 32 <= unit < 127 else f"\\u{unit:04x}"


def _jaas(secret: str) -> str:
    escaped = secret.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
