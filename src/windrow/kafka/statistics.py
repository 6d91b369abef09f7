"""librdkafka's own statistics, of which a few say how a producer is; the rest is for its developers."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

_EVERY_MS: Final = 5_000
_AT_MOST: Final = 500_000
"""Characters; thousands of partitions make more, which would take the publishing loop too long to read."""


class Statistics:
    """Of several producers, the latest; made into one row of figures."""

    def __init__(self, told: Callable[[Mapping[str, float]], object]) -> None:
        self._told = told
        self._latest: dict[str, dict[str, Any]] = {}

    def config(self) -> dict[str, Any]:
        """What a client is to be configured with, so that it tells."""
        return {"statistics.interval.ms": _EVERY_MS, "stats_cb": self._receive}

    def _receive(self, text: str) -> None:
        if len(text) > _AT_MOST:
            return
        each = json.loads(text)
        self._latest[each["name"]] = each
        self._told(figures(self._latest.values()))


def figures(clients: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Figures of clients together. Round trips are the slowest broker's average, in seconds."""
    clients = [*clients]
    brokers = [broker for each in clients for broker in each.get("brokers", {}).values()]
    return {
        "sent_bytes": sum(each.get("tx_bytes", 0) for each in clients),
        "requests": sum(each.get("tx", 0) for each in clients),
        "queued_messages": sum(each.get("msg_cnt", 0) for each in clients),
        "errors": sum(broker.get("txerrs", 0) + broker.get("req_timeouts", 0) for broker in brokers),
        "round_trip": max((broker.get("rtt", {}).get("avg", 0) / 1e6 for broker in brokers), default=0.0),
    }
