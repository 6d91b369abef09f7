"""Faults as values, and the schedule of a run.

A fault is injected, held for a while and healed; some are over by themselves. What it costs is counted from `outage`:
for a fault that others must first detect, from its beginning, less the time that detection may take; for one that
nobody can do anything about, from its end, and so for two at once that take both relays.

The schedule is a pure function of its seed: faults in rounds, each once a round in another order, and now and then two
at once.
"""

import os
import random
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from windrow.database.connections import connect
from windrow.embedded.spark import Worker
from windrow.errors import WindrowError
from windrow.kafka.clients import widen_position_topic
from windrow.lab.effects import SESSION
from windrow.lab.ground import Ground
from windrow.lab.load import Writer
from windrow.lab.proxy import CUT, HALF_OPEN, Condition, Proxy
from windrow.lab.queues import Queue
from windrow.relay.purge import Purger
from windrow.relay.registry import Registry
from windrow.settings import Settings

_LEADS_WITHIN: Final = 30.0
_RESHARDED_WITHIN: Final = 60.0
_HEALED_WITHIN: Final = 60.0
_STEP_SEEN_WITHIN: Final = 2.5
"""Seconds: the file that says how late it is is read every two."""
_STEP: Final = 20
"""Seconds, more than a leader may be silent for. Kafka's client waits by the time of day: after a step back it sleeps
so much longer, and others take over."""
_SLOW: Final[Mapping[str, Sequence[str]]] = {
    "postgresql": (
        "ALTER SYSTEM SET commit_delay = 100000",
        "ALTER SYSTEM SET commit_siblings = 0",
        "SELECT pg_reload_conf()",
    ),
    "mysql": ("SET GLOBAL binlog_commit_wait_count = 1000", "SET GLOBAL binlog_commit_wait_usec = 100000"),
}
_QUICK: Final[Mapping[str, Sequence[str]]] = {
    "postgresql": (
        "ALTER SYSTEM RESET commit_delay",
        "ALTER SYSTEM RESET commit_siblings",
        "SELECT pg_reload_conf()",
    ),
    "mysql": ("SET GLOBAL binlog_commit_wait_count = 0", "SET GLOBAL binlog_commit_wait_usec = 0"),
}
_LATE: Final = Condition(delay=0.05)
_NARROW: Final = Condition(rate=100_000)
_BURST: Final = (3_000, 1_000)
_LEAST_HOLD, _MOST_HOLD = 0.5, 5.0
_BETWEEN: Final = (2.0, 6.0)
_USUALLY: Final = 8.0
"""Seconds that a fault and what it costs take."""
_TWO_AT_ONCE: Final = 0.2

Act = Callable[[Ground], bool | None]
"""What is done; False where it did not come about in time."""
Outage = Literal["beginning", "end"]


def nothing(_: Ground) -> None:
    """A fault that is over by itself, or that needs no deed to begin."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done, and undone."""

    name: str
    inject: Act
    heal: Act = nothing
    outage: Outage = "end"
    detection: float = 0.0
    """Seconds until others notice."""
    holds_up: bool = False
    """Whether what a relay sends may come when others have already gone on without it."""
    takes_relay: bool = False
    """Whether one of the two relays is away meanwhile."""
    hides: float = 0.0
    """Seconds until a relay is missed that goes meanwhile: Kafka does not hear it leave."""
    least_hold: float = 0.0
    """Seconds that it takes to be felt at all."""
    of_consumer: bool = False
    """Whether a consumer with an inbox feels it, and not the relay."""


@dataclass(frozen=True, slots=True)
class Step:
    """Faults of one time: when they begin, in seconds since the run began, and how long they are held."""

    at: float
    hold: float
    faults: tuple[str, ...]


def schedule(seed: int, minutes: float, names: Sequence[str]) -> tuple[Step, ...]:
    """What is to happen when; it may happen later, where recovery takes longer than usual."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    steps: list[Step] = []
    round_: list[str] = []
    at = chance.uniform(*_BETWEEN)
    while at < minutes * 60:
        if not round_:
            round_ = chance.sample(list(names), len(names))
        chosen = [round_.pop()]
        if round_ and chance.random() < _TWO_AT_ONCE:
            chosen.append(round_.pop())
        hold = chance.uniform(_LEAST_HOLD, _MOST_HOLD)
        steps.append(Step(at, hold, tuple(chosen)))
        at += hold + _USUALLY + chance.uniform(*_BETWEEN)
    return tuple(steps)


def outage_of(faults: Sequence[Fault]) -> Outage:
    """From when on is counted what faults of one time cost."""
    one_is_left = sum(each.takes_relay for each in faults) <= 1
    return "beginning" if one_is_left and all(each.outage == "beginning" for each in faults) else "end"


def detection_of(faults: Sequence[Fault]) -> float:
    """Seconds until others notice what faults of one time have done."""
    relay_goes = any(each.takes_relay for each in faults)
    return max(max(each.detection, each.hides if relay_goes else 0.0) for each in faults)


def _to_queue(deed: Callable[[Queue], None]) -> Act:
    """Done to the queue, where there is one."""

    def act(ground: Ground) -> None:
        if ground.queue:
            deed(ground.queue)

    return act


_QUEUE_FAULTS: Final = (
    Fault("worker killed", _to_queue(lambda queue: queue.worker.kill()), _to_queue(lambda queue: queue.worker.start())),
    Fault(
        "worker paused", _to_queue(lambda queue: queue.worker.pause()), _to_queue(lambda queue: queue.worker.resume())
    ),
    Fault(
        "tracker killed", _to_queue(lambda queue: queue.tracker.kill()), _to_queue(lambda queue: queue.tracker.start())
    ),
    Fault(
        "tracker paused",
        _to_queue(lambda queue: queue.tracker.pause()),
        _to_queue(lambda queue: queue.tracker.resume()),
    ),
)


def _to_host(deed: Callable[[Worker], None]) -> Act:
    """Done to one of the cluster's workers, and so to an executor of each relay."""

    def act(ground: Ground) -> None:
        if ground.cluster:
            deed(ground.cluster.workers[0])

    return act


_CLUSTER_FAULTS: Final = (
    Fault("Spark worker killed", _to_host(lambda host: host.kill()), _to_host(lambda host: host.start())),
    Fault(
        "Spark worker paused", _to_host(lambda host: host.pause()), _to_host(lambda host: host.resume()), holds_up=True
    ),
)


def detection(settings: Settings) -> float:
    """Seconds after which a leader that is silent is replaced."""
    limits = settings.limits
    return (limits.lease_timeout if settings.election == "lease" else limits.session_timeout).total_seconds()


def faults(  # noqa: PLR0913 - what there is on the ground
    unheard: float,
    *,
    tails: bool = False,
    brokers: int = 1,
    clocks: bool = True,
    cluster: bool = False,
    queues: bool = False,
) -> dict[str, Fault]:
    """All that can be done, by name, to relays that are replaced when they are unheard of for so many seconds.

    Not all of it to one that reads the log's tail, where there is one broker alone, where clocks cannot be had that
    step, as on a cluster, or where there is no cluster or queue.
    """
    all_faults = [
        Fault("leader killed", lambda ground: ground.leader.kill(), _refill, "beginning", unheard, takes_relay=True),
        Fault("leader paused", _pause_leader, _resume, "beginning", unheard, holds_up=True, takes_relay=True),
        Fault("leader flaps", _flap, _resume, "beginning", 2 * unheard, holds_up=True, takes_relay=True),
        Fault("leader stopped", lambda ground: ground.leader.stop(), _refill, "beginning", takes_relay=True),
        Fault("standby killed", lambda ground: ground.standby.kill(), _refill, "beginning", takes_relay=True),
        Fault(
            "executors killed", lambda ground: ground.leader.kill_executors(), _refill, "beginning", takes_relay=True
        ),
        Fault("executors paused", lambda ground: ground.leader.pause_executors(), _resume, holds_up=True),
        Fault("Python workers killed", lambda ground: ground.leader.kill_workers(), outage="beginning"),
        Fault("Python workers paused", lambda ground: ground.leader.pause_workers(), _resume, holds_up=True),
        Fault("writers killed", lambda ground: ground.writers.kill(), lambda ground: ground.writers.start()),
        # A group remembers its members over a restart, and waits for those that gave up meanwhile as for the dead. So
        # it does after a pause in which the only broker was taken for gone: not all clients come back from that.
        Fault("broker killed", lambda ground: ground.kafka.kill(), _restart_kafka, detection=unheard),
        Fault("broker paused", lambda ground: ground.kafka.pause(), _resume_brokers, detection=unheard, holds_up=True),
        Fault("broker restarted", _restart_kafka, detection=unheard),
        Fault("database killed", lambda ground: ground.database.kill(), lambda ground: ground.database.restart()),
        Fault("database shut down at once", _shut_down_at_once, lambda ground: ground.database.restart()),
        Fault("database paused", lambda ground: ground.database.pause(), lambda ground: ground.database.resume()),
        Fault("database restarted", lambda ground: ground.database.restart()),
        Fault("database's commits slow", _slow_commits, _quick_commits),
        *_link_faults("database", lambda ground: (ground.database_link,)),
        *_link_faults("Kafka", lambda ground: ground.kafka_links, holds_up=True, hides=unheard),
        Fault("one broker killed", lambda ground: ground.kafka.brokers[0].kill(), _restart_brokers),
        Fault("one broker paused", lambda ground: ground.kafka.brokers[0].pause(), _resume_brokers, holds_up=True),
        Fault(
            "consumer killed",
            lambda ground: ground.consumer.kill(),
            lambda ground: ground.consumer.start(),
            detection=SESSION,
            of_consumer=True,
        ),
        # So long that the other one takes its place, and it wakes up with messages in hand that are its own no more.
        Fault(
            "consumer paused",
            lambda ground: ground.consumer.pause(),
            lambda ground: ground.consumer.resume(),
            "beginning",
            SESSION,
            least_hold=1.5 * SESSION,
            of_consumer=True,
        ),
        *_clock_faults(unheard),
        Fault("producer's buffer full", _burst, lambda ground: _mend(ground.kafka_links), holds_up=True),
        *(_CLUSTER_FAULTS if cluster else ()),
        *(_QUEUE_FAULTS if queues else ()),
        Fault("purge", _purge, outage="beginning"),
        Fault("reshard", _reshard, _await_reshard),
    ]
    left_out = {"reshard"} if tails else set()
    if brokers == 1:
        left_out |= {"one broker killed", "one broker paused"}
    if cluster or not clocks:
        left_out |= {each.name for each in _clock_faults(unheard)}
    return {each.name: each for each in all_faults if each.name not in left_out}


def _clock_faults(unheard: float) -> list[Fault]:
    def step(seconds: int) -> Act:
        return lambda ground: ground.leader.clock.step(seconds)

    return [
        Fault(name, step(by), _set_clocks, detection=unheard, holds_up=True, least_hold=_STEP_SEEN_WITHIN)
        for name, by in (("leader's clock ahead", _STEP), ("leader's clock behind", -_STEP))
    ]


def _link_faults(
    name: str, links: Callable[[Ground], tuple[Proxy, ...]], *, holds_up: bool = False, hides: float = 0.0
) -> list[Fault]:
    def impose(condition: Condition) -> Act:
        return lambda ground: _impose(links(ground), condition)

    def mend(ground: Ground) -> None:
        _mend(links(ground))

    return [
        Fault(f"{name} cut off", impose(CUT), mend, hides=hides),
        Fault(f"{name} delayed", impose(_LATE), mend),
        Fault(f"{name} throttled", impose(_NARROW), mend, holds_up=holds_up),
        Fault(f"{name} half-open", impose(HALF_OPEN), mend, hides=hides),
    ]


def _impose(links: tuple[Proxy, ...], condition: Condition) -> None:
    for each in links:
        each.impose(condition)


def _mend(links: tuple[Proxy, ...]) -> None:
    for each in links:
        each.mend()


def _refill(ground: Ground) -> None:
    ground.staffed()


def _pause_leader(ground: Ground) -> bool:
    """Until the other leads. When the first wakes up, there are two that believe to."""
    leader, since = ground.leader, ground.leader.leads_since or 0.0
    leader.pause()
    ground.struck()
    return ground.comes_to(lambda: (ground.leader.leads_since or 0.0) > since, _LEADS_WITHIN)


def _resume(ground: Ground) -> None:
    for each in ground.relays:
        each.resume()


def _flap(ground: Ground) -> bool:
    once = _pause_leader(ground)
    _resume(ground)
    return _pause_leader(ground) and once


def _shut_down_at_once(ground: Ground) -> bool:
    """As pg_ctl's immediate mode does; MariaDB knows no such thing, and is killed."""
    if ground.settings.dialect == "mysql":
        ground.database.kill()
    elif ground.database.running:
        os.kill(ground.database.pid, signal.SIGQUIT)
    return ground.comes_to(lambda: not ground.database.running, 10)


def _restart_kafka(ground: Ground) -> None:
    ground.kafka.restart()


def _restart_brokers(ground: Ground) -> None:
    for each in ground.kafka.brokers:
        if not each.running:
            each.start()


def _resume_brokers(ground: Ground) -> None:
    for each in ground.kafka.brokers:
        each.resume()


def _set_clocks(ground: Ground) -> None:
    for each in ground.relays:
        each.clock.step(0)


def _slow_commits(ground: Ground) -> bool:
    """As on a disk that takes long to sync: each commit waits before its records are flushed."""
    with suppress(WindrowError):  # a second fault at the same time may have taken the server away
        _order(ground, _SLOW[ground.settings.dialect])
        return True
    return False


def _quick_commits(ground: Ground) -> bool:
    def done() -> bool:
        with suppress(WindrowError):
            _order(ground, _QUICK[ground.settings.dialect])
            return True
        return False

    return ground.comes_to(done, _HEALED_WITHIN)


def _order(ground: Ground, statements: Sequence[str]) -> None:
    with connect(ground.direct.data_source, "windrow lab") as connection:
        for each in statements:
            connection.execute(each)


def _burst(ground: Ground) -> None:
    """More messages at once than the producers' buffers hold, on a link that does not carry them off."""
    _impose(ground.kafka_links, _NARROW)
    Writer(ground.direct, ground.load, ground.folder / "burst.jsonl").write_burst(*_BURST)


def _purge(ground: Ground) -> bool:
    """As another process does it, besides the leader."""
    with suppress(WindrowError):  # a second fault at the same time may have taken the server away
        for _ in Purger(ground.direct).purge():
            pass
        return True
    return False


def _reshard(ground: Ground) -> bool:
    with suppress(WindrowError):  # as above
        wanted = 2 if Registry(ground.direct).shards() == 1 else 1
        widen_position_topic(ground.direct, wanted)
        ground.shards.append(wanted)
        Registry(ground.direct).want_shards(wanted)
        return True
    return False


def _await_reshard(ground: Ground) -> bool:
    def done() -> bool:
        with suppress(WindrowError):
            return Registry(ground.direct).shards() == ground.shards[-1]
        return False

    return ground.comes_to(done, _RESHARDED_WITHIN)
