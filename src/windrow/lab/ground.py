"""What is put to the test: servers, links to them, two relays, writers, two consumers with an inbox, a receiver; where
it is wanted, a Spark cluster for the relays' tasks, and a queue with its workers and tracker.

All but the receiver and the lab itself reach the servers through proxies. Nothing outlives the context.
"""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from windrow import embedded
from windrow.embedded.spark import Cluster, cluster
from windrow.errors import EnvironmentUnfit
from windrow.kafka.clients import create_topic
from windrow.lab.candidate import Candidate
from windrow.lab.child import Child
from windrow.lab.effects import create_effects, read_effects, run_consumer
from windrow.lab.history import Operation, apart, read_journal, resolved
from windrow.lab.load import Load, create_load, read_commits, run_writers
from windrow.lab.proxy import Proxy
from windrow.lab.queues import Queue, done, open_queue, read_handlings
from windrow.lab.receiver import Receiver
from windrow.relay.leadership import positions
from windrow.relay.setup import prepare
from windrow.settings import Settings

TOPIC: Final = "lab.messages"
_PARTITIONS: Final = 3
_FIRST_WITHIN: Final = 300.0
_BROKER: Final = {
    "message.max.bytes": 20_000_000,
    "fetch.max.bytes": 60_000_000,
    "group.min.session.timeout.ms": 1_000,
}
_MARIADB: Final[Mapping[str, str | int]] = {"log_bin": "binlog", "sync_binlog": 1}
"""Commits can be slowed down where they go to this log."""
_RELAY: Final[Mapping[str, Any]] = {
    "name": "lab",
    "shards": 1,
    # Short, so that heirs and purges are part of every run.
    "epoch": "20s",
    "purge": {"interval": "1s"},
    "spark": {"master": "local[4]"},
}
_SPARK_WORKERS: Final = 2
_CORES: Final = 4
"""Of a relay on a cluster, and so of each worker: each has room for half of both relays."""
_SMALL_BUFFERS: Final = {"queue.buffering.max.messages": "100"}
"""Of librdkafka's producers, so that they can be full; a transaction's are the sockets'."""


@dataclass
class Ground:
    """All that runs, and what it is called."""

    database: embedded.Postgres | embedded.MariaDB
    kafka: embedded.Kafka
    database_link: Proxy
    kafka_links: tuple[Proxy, ...]
    """One for each broker."""
    settings: Settings
    """Of all that is disturbed, through the proxies."""
    direct: Settings
    """Of the lab itself."""
    load: Load
    relays: tuple[Candidate, Candidate]
    writers: Child
    consumer: Child
    """With an inbox; faults are done to it, and another has its peace."""
    other_consumer: Child
    receiver: Receiver
    folder: Path
    cluster: Cluster | None = None
    """Where the relays' tasks run, if not below them."""
    queue: Queue | None = None
    """Where there is one."""
    over: threading.Event = field(default_factory=threading.Event)
    """Set where the run is to end early."""
    shards: list[int] = field(default_factory=lambda: [1])
    """How many shards there were to be, one after the other."""
    struck_at: float = 0.0
    """When the present fault was done; at first 0."""

    @property
    def leader(self) -> Candidate:
        """Whichever came to lead last."""
        return max(self.relays, key=lambda each: each.leads_since or 0.0)

    @property
    def standby(self) -> Candidate:
        return next(each for each in self.relays if each is not self.leader)

    def staff(self) -> None:
        """Start what is dead: a server that was away may have ended it."""
        for each in self.parties:
            each.start()

    def staffed(self) -> bool:
        """Whether both relays are up and warm, once all are started."""
        self.staff()
        return all(each.warm for each in self.relays)

    @property
    def parties(self) -> tuple[Candidate | Child, ...]:
        """Whoever is to be up at all times, writers apart."""
        return (*self.relays, self.consumer, self.other_consumer, *(self.queue.children if self.queue else ()))

    def struck(self) -> None:
        """The present fault has been done, for the first time."""
        self.struck_at = self.struck_at or time.monotonic()

    def operations(self) -> list[Operation]:
        """As their clients know them."""
        return [each for path in sorted(self.folder.glob("*.jsonl")) for each in read_journal(path)]

    def outcomes(self) -> list[Operation]:
        """The operations, of each of which it is known whether it was committed; once writers have ended."""
        return resolved(self.operations(), read_commits(self.direct))

    def published(self) -> int:
        """What the committed positions count."""
        return sum(at.published for at in positions(self.direct).values())

    def comes_to(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether it came to hold in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or self.over.wait(0.1):
                return condition()
        return True


@contextmanager
def open_ground(folder: Path, load: Load, say: Callable[[str], None], **settings: Any) -> Iterator[Ground]:
    """Start everything, and wait until messages come through.

    `settings` are those of the relays, and `database`, which may be mariadb, `brokers`, their number, and `on_cluster`,
    whether their tasks run on a Spark cluster.
    """
    mariadb = settings.pop("database", "postgres") == "mariadb"
    server = embedded.MariaDB(settings=_MARIADB) if mariadb else embedded.Postgres()
    brokers, on_cluster = settings.pop("brokers", 1), settings.pop("on_cluster", False)
    with ExitStack() as stack:
        say(f"starting {server.name} and Kafka …")
        stack.enter_context(server)
        database_link = stack.enter_context(Proxy(lambda: server.port))

        def port_of(place: int) -> int:
            return _proxied_port(kafka, place)

        kafka_links = tuple(stack.enter_context(Proxy(partial(port_of, place))) for place in range(brokers))
        kafka = embedded.Kafka(brokers, settings=_BROKER, proxies=[each.port for each in kafka_links])
        stack.enter_context(kafka)
        hosts = None
        if on_cluster:
            say(f"starting a Spark cluster of {_SPARK_WORKERS} workers …")
            hosts = stack.enter_context(cluster(_SPARK_WORKERS, _CORES))
            settings["spark"] = hosts.settings(_CORES)
        direct = Settings.load(
            environment={},
            data_source=server.url,
            base_kafka_config=kafka.client_config,
            producer_kafka_config=_SMALL_BUFFERS if settings.get("delivery") == "at-least-once" else {},
            **{**_RELAY, **settings},
        )
        through = dataclasses.replace(
            direct,
            data_source=server.url.replace(f":{server.port}/", f":{database_link.port}/"),
            base_kafka_config={"bootstrap.servers": ",".join(f"127.0.0.1:{each.port}" for each in kafka_links)},
        )
        through_any_shards = dataclasses.replace(through, shards=None)
        prepare(direct)
        create_load(direct)
        create_effects(direct)
        create_topic(direct, TOPIC, _PARTITIONS)
        relays = (
            Candidate(through_any_shards, folder / "relay-1.log", hosts),
            Candidate(through_any_shards, folder / "relay-2.log", hosts),
        )
        writers = Child(folder / "writers.log", run_writers, through, load, folder)
        reached = (through.data_source, dict(through.base_kafka_config), TOPIC)
        consumers = [Child(folder / f"consumer-{each}.log", run_consumer, *reached) for each in (1, 2)]
        receiver = stack.enter_context(Receiver(direct, TOPIC))
        queue = None
        if load.queues:
            queue = stack.enter_context(open_queue(kafka.client_config, through.base_kafka_config, folder))
        ground = Ground(
            server,
            kafka,
            database_link,
            kafka_links,
            through,
            direct,
            load,
            relays,
            writers,
            consumers[0],
            consumers[1],
            receiver,
            folder,
            hosts,
            queue,
        )
        say("starting two relays, each with its Spark …")
        for each in (*ground.parties, writers):
            stack.callback(each.kill)
            each.start()
        began = time.monotonic()
        if not ground.comes_to(lambda: receiver.newest > began and ground.staffed(), _FIRST_WITHIN):
            raise EnvironmentUnfit(f"no message came through in {_FIRST_WITHIN:.0f} s; look at the logs in {folder}")
        yield ground


def _proxied_port(kafka: embedded.Kafka, place: int) -> int:
    proxied = kafka.brokers[place].proxied
    if proxied is None:
        raise AssertionError("made with a proxy")
    return proxied.port


def end_writers(ground: Ground) -> None:
    """Let the transactions under way end, and those that were prepared be committed."""
    ground.writers.start()
    ground.writers.stop()


def _committed(operations: Iterable[Operation]) -> set[str]:
    return {sent.id for each in operations if each.outcome == "ok" for sent in each.messages}


def settle(ground: Ground, seconds: float) -> None:
    """Wait until all that was committed has come and has had its effect, but not for ever."""
    operations = ground.outcomes()
    wanted, queued = (_committed(apart(operations, queued=queued)) for queued in (False, True))

    def settled() -> bool:
        ground.staff()
        return (
            wanted.issubset(each.id for each in list(ground.receiver.receipts))
            and wanted.issubset(each.message for each in read_effects(ground.direct))
            and queued.issubset(done(read_handlings(ground.folder), time.monotonic()))
        )

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not settled():
        time.sleep(0.5)
