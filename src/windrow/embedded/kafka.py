"""A Kafka cluster of one or more brokers, each a process of its own.

Brokers are started side by side, since a quorum needs most of them; the cluster answers once every broker
knows all of them. With `Security` there is a second listener, with TLS and SASL, for `client_config`.
"""

import base64
import os
import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, but not in mypy's sense
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from windrow.embedded import ports, training
from windrow.embedded.broker import Broker, ProxiedListener, Quorum, SecureListener
from windrow.embedded.folders import make_folder
from windrow.embedded.security import Security
from windrow.errors import EnvironmentUnfit


class Kafka:
    """`with Kafka() as kafka: Producer(kafka.client_config)`

    `settings` are lines of server.properties, for all brokers. `proxies` are ports, one for each broker, behind which a
    proxy leads to the broker's `proxied` listener. `pause`, `resume`, `kill` and `restart` act on all brokers; each of
    `brokers` has them too.
    """

    def __init__(
        self,
        brokers: int = 1,
        folder: str | os.PathLike[str] | None = None,
        settings: Mapping[str, str | int] | None = None,
        security: Security | None = None,
        proxies: Sequence[int] = (),
    ) -> None:
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        if len(proxies) not in {0, brokers}:
            raise ValueError("give one proxy for each broker, or none")
        self._size = brokers
        self._given_folder = None if folder is None else Path(folder)
        self._folder: Path | None = None
        self.settings = dict(settings or {})
        self.security = security
        self._proxies = proxies
        self.brokers: tuple[Broker, ...] = ()

    @property
    def folder(self) -> Path:
        if self._folder is None:
            raise RuntimeError("Kafka is not started")
        return self._folder

    @property
    def running(self) -> bool:
        """Whether all brokers are alive."""
        return bool(self.brokers) and all(broker.running for broker in self.brokers)

    @property
    def bootstrap_servers(self) -> str:
        """The plain listeners, where everybody is a superuser."""
        return ",".join(f"{ports.HOST}:{broker.port}" for broker in self.brokers)

    @property
    def secure_bootstrap_servers(self) -> str:
        """The listeners with TLS and SASL."""
        return ",".join(f"{ports.HOST}:{broker.secure.port}" for broker in self.brokers if broker.secure)

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority that signed the brokers'."""
        return self.folder / "authority.pem"

    @property
    def client_config(self) -> dict[str, str]:
        """Settings for clients of confluent_kafka: those of the secured listener's first user, if any."""
        if self.security is None:
            return {"bootstrap.servers": self.bootstrap_servers}
        user, password = next(iter(self.security.users.items()))
        return {
            "bootstrap.servers": self.secure_bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.ca_file),
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the brokers and waits until all of them answer."""
        if any(broker.running for broker in self.brokers):
            raise RuntimeError("Kafka runs already")
        quick = training.options()
        try:
            if not self.brokers:
                self._folder = make_folder(self._given_folder, "kafka", None)
                self.brokers = self._make_brokers(quick)
            self._start_brokers()
            self._add_users()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the brokers, and removes their folder if that is a temporary one."""
        for broker in self.brokers:
            broker.tell_to_stop()
        for broker in self.brokers:
            broker.stop()
        if self._folder is not None and self._given_folder is None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder, self.brokers = None, ()

    def kill(self) -> None:
        for broker in self.brokers:
            broker.kill()

    def pause(self) -> None:
        for broker in self.brokers:
            broker.pause()

    def resume(self) -> None:
        for broker in self.brokers:
            broker.resume()

    def restart(self) -> None:
        """Stops the brokers that are alive, all at once, and starts all on the same ports and data."""
        for broker in self.brokers:
            broker.tell_to_halt()
        for broker in self.brokers:
            broker.halt()
        self._start_brokers()

    def _start_brokers(self) -> None:
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.await_answer()
        everybody = {broker.node for broker in self.brokers}
        _await(
            lambda: all(broker.known_brokers() == everybody for broker in self.brokers),
            "the Kafka brokers do not find each other",
        )

    def _make_brokers(self, jvm_options: tuple[str, ...]) -> tuple[Broker, ...]:
        nodes = range(1, self._size + 1)
        leftover = self.folder if self._given_folder is None else None
        quorum = Quorum(self._cluster_id(), {node: ports.free_port() for node in nodes}, leftover, jvm_options)
        return tuple(
            Broker(node, quorum, self.folder / f"broker-{node}", self.settings, secure, proxied)
            for node, secure, proxied in zip(nodes, self._listeners(), self._proxied(), strict=True)
        )

    def _listeners(self) -> list[SecureListener | None]:
        if self.security is None:
            return [None] * self._size
        from windrow.embedded.certificates import write_certificates  # noqa: PLC0415 - cryptography is not small

        certificate = write_certificates(self.folder)
        return [SecureListener(self.security, ports.free_port(), certificate) for _ in range(self._size)]

    def _proxied(self) -> list[ProxiedListener | None]:
        if not self._proxies:
            return [None] * self._size
        return [ProxiedListener(ports.free_port(), proxy) for proxy in self._proxies]

    def _cluster_id(self) -> str:
        """The same one for all brokers and for all starts on the same folder."""
        path = self.folder / "cluster.id"
        if not path.exists():
            path.write_text(base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="))
        return path.read_text()

    def _add_users(self) -> None:
        if self.security is None:
            return
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        users = self.security.users
        admin = self.brokers[0].admin()
        changes = [UserScramCredentialUpsertion(name, how, users[name].encode()) for name in users]
        for future in admin.alter_user_scram_credentials(list(changes)).values():
            future.result(timeout=30)
        _await(
            lambda: all(set(users) <= broker.known_users() for broker in self.brokers),
            "the Kafka brokers do not take the users over",
        )


def _await(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            raise EnvironmentUnfit(f"{otherwise}; is the machine very busy? try again when it is not")
        time.sleep(0.02)
