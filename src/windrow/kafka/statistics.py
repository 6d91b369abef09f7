"""librdkafka's own statistics, of which a few say how a producer is; the rest is for its developers."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

_EVERY_MS: Final = 5_000
_AT_MOST: Final = 500_000
"""Characters; thousands of partitions make more, which would take the publishing loop too long to read."""
_ADDED: Final = ("sent_bytes", "requests", "queued_messages", "errors")


Figures: TypeAlias = Mapping[str, float]


class Statistics:
    """Of several producers, the latest; made into one row of figures."""

    def __init__(self, told: Callable[[Figures], object]) -> None:
        self._told = told
        self._latest: dict[str, Figures] = {}

    def config(self) -> dict[str, Any]:
        """What a client of librdkafka's is to be configured with, so that it tells."""
        return {"statistics.interval.ms": _EVERY_MS, "stats_cb": self._receive}

    def hear(self, name: str, figures: Figures) -> None:
        """What a client says of itself, in place of what it said before."""
        self._latest[name] = figures
        self._told(together(self._latest.values()))

    def _receive(self, text: str) -> None:
        if len(text) <= _AT_MOST:
            each = json.loads(text)
            self.hear(each["name"], figures_of(each))


def figures_of(client: Mapping[str, Any]) -> Figures:
    """Figures of one client of librdkafka's. Round trips are the slowest broker's average, in seconds."""
    brokers = client.get("brokers", {}).values()
    return {
        "sent_bytes": client.get("tx_bytes", 0),
        "requests": client.get("tx", 0),
        "queued_messages": client.get("msg_cnt", 0),
        "errors": sum(broker.get("txerrs", 0) + broker.get("req_timeouts", 0) for broker in brokers),
        "round_trip": max((broker.get("rtt", {}).get("avg", 0) / 1e6 for broker in brokers), default=0.0),
    }


def together(clients: Iterable[Figures]) -> Figures:
    """Figures of several: all add up, but of round trips the slowest counts."""
    clients = [*clients]
    sums = {name: sum(each[name] for each in clients) for name in _ADDED}
    return {**sums, "round_trip": max((each["round_trip"] for each in clients), default=0.0)}
