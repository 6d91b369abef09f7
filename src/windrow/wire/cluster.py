"""The brokers of a cluster: who leads which partition, who coordinates, and one connection to each that is needed."""

import random
import time
from collections.abc import Mapping
from typing import Final

from windrow.closing import closed_on_error
from windrow.errors import Interrupted
from windrow.wire import messages
from windrow.wire.connection import Connection
from windrow.wire.messages import Node, Topic
from windrow.wire.security import Security

_PORT: Final = 9092
_ASK_AGAIN_AFTER: Final = 0.05
_IDLE: Final = 60.0
_SETTLING: Final = (14, 15, 16)  # the coordinator is loading, not there yet, or another one
_NOT_YET: Final = 5  # a topic that is being created has no leader
UNKNOWN_TOPIC: Final = 3


def addresses(servers: str) -> list[tuple[str, int]]:
    """Hosts and ports of `bootstrap.servers`."""
    found = []
    for each in servers.split(","):
        address = each.strip().rpartition("://")[2]
        host, colon, port = address.rpartition(":")
        if not colon or address.endswith("]"):
            host, port = address, str(_PORT)
        if host.strip("[]"):
            found.append((host.strip("[]"), int(port)))
    return found


class Cluster:
    """Connected to any broker from the start, and to others once they are needed."""

    def __init__(self, config: Mapping[str, str], within: float, refresh: float) -> None:
        self._security, self._within, self._refresh = Security.of(config), within, refresh
        self._nodes: dict[int, Node] = {}
        self._open: dict[int, Connection] = {}
        self._topics: dict[str, Topic] = {}
        self._asked_at: dict[str, float] = {}
        self._first = self._any(addresses(config["bootstrap.servers"]))
        with closed_on_error(self):
            self._ask([])

    @property
    def speaks_all(self) -> bool:
        """Whether the cluster has all that is needed here, as far as the first broker knows."""
        return self._first.speaks_all

    @property
    def connections(self) -> list[Connection]:
        return list({id(each): each for each in (self._first, *self._open.values())}.values())

    def topic(self, name: str, within: float) -> Topic:
        """What is known of a topic, with a leader for each partition; one that cannot be had is waited for."""
        if name in self._topics and time.monotonic() - self._asked_at[name] > self._refresh:
            del self._topics[name]
        deadline = time.monotonic() + within
        while name not in self._topics:
            found = self._ask([name])[name]
            leaderless = any(leader < 0 for leader in found.leaders.values())
            waits = found.error in {UNKNOWN_TOPIC, _NOT_YET} or leaderless
            if not waits or time.monotonic() > deadline:
                if leaderless or found.error == _NOT_YET:
                    raise Interrupted(f"Kafka broke off: topic {name} has partitions without a leader")
                if found.error:
                    return found
                self._topics[name], self._asked_at[name] = found, time.monotonic()
            else:
                time.sleep(_ASK_AGAIN_AFTER)
        return self._topics[name]

    def forget(self) -> None:
        """Ask anew who leads what."""
        self._topics.clear()

    def coordinator(self, key: str, *, transactional: bool, within: float) -> Connection:
        deadline = time.monotonic() + within
        while True:
            request = messages.find_coordinator(key, transactional=transactional)
            error, node = self._first.call(messages.FIND_COORDINATOR, request, messages.coordinator)
            if not error:
                self._nodes[node.number] = node
                return self.node(node.number)
            if error not in _SETTLING or time.monotonic() > deadline:
                raise Interrupted(f"Kafka broke off: there is no coordinator of {key} (error {error})")
            time.sleep(_ASK_AGAIN_AFTER)

    def node(self, number: int) -> Connection:
        if number not in self._open:
            if number not in self._nodes:
                raise Interrupted(f"Kafka broke off: broker {number} is not known to the others")
            node = self._nodes[number]
            self._open[number] = Connection(node.host, node.port, self._security, self._within)
        return self._open[number]

    def keep(self) -> None:
        """Talk to brokers that have heard nothing for a while: they close idle connections after some minutes."""
        for each in self.connections:
            if time.monotonic() - each.used_at > _IDLE:
                each.call(messages.METADATA, messages.metadata([]), messages.described)

    def close(self) -> None:
        for each in self.connections:
            each.close()

    def _ask(self, topics: list[str]) -> dict[str, Topic]:
        nodes, found = self._first.call(messages.METADATA, messages.metadata(topics), messages.described)
        self._nodes |= {node.number: node for node in nodes}
        return found

    def _any(self, servers: list[tuple[str, int]]) -> Connection:
        refusals = []
        for host, port in random.sample(servers, len(servers)):
            try:
                return Connection(host, port, self._security, self._within)
            except Interrupted as refused:
                refusals.append(str(refused))
        raise Interrupted("; ".join(refusals) or "bootstrap.servers names no broker")
