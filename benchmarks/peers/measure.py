"""All loads for all contenders, in rounds: in one order, then in the reverse."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.peers.connect import VERSION as DEBEZIUM_VERSION
from benchmarks.peers.connect import Connect
from benchmarks.peers.contenders import WINDROW, Contender, contenders
from benchmarks.peers.floor import FLOOR, measure_floor
from benchmarks.peers.floor import LOAD as FLOOR_LOAD
from benchmarks.peers.loads import LOADS, PeerSize, Run, Stage, warm_up
from windrow.bench import Size, open_bed
from windrow.bench import latency as latencies
from windrow.bench.bed import Bed
from windrow.bench.figures import versions
from windrow.bench.queue_rates import measure_rates
from windrow.queue.settings import QueueSettings

QUEUE: Final = "queue"
LOAD_NAMES: Final = (*(load.name for load in LOADS), QUEUE)
_WAYS: Final = {"share group": "share group", "one by one": "kafka-mq-go's way"}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured; without names, all of them."""

    size: PeerSize
    bed: Size
    partitions: int
    loads: Collection[str] = ()
    contenders: Collection[str] = ()

    def wants(self, load: str) -> bool:
        return not self.loads or load in self.loads

    def chosen(self, there: Sequence[Contender]) -> list[Contender]:
        return [each for each in there if self.names(each.name)]

    def names(self, contender: str) -> bool:
        return not self.contenders or contender in self.contenders


def measure(plan: Plan, say: Callable[[str], None]) -> tuple[list[Run], dict[str, Any], Sequence[Contender]]:
    """The runs; what is to be said of them; and whose they are."""
    with ExitStack() as stack:
        bed = stack.enter_context(open_bed(plan.bed, None, None, say, plan.partitions))
        say("starting Kafka Connect …")
        everybody = contenders(stack.enter_context(Connect(bed.kafka["bootstrap.servers"])))
        taking_part = plan.chosen(everybody)
        latencies.warm_up(bed)
        stage = Stage(bed, plan.size, plan.partitions)
        for each in taking_part:
            warm_up(stage, each)
        runs = [*_rounds(stage, plan, taking_part)]
        if plan.wants(QUEUE):
            runs += _queues(bed, plan.size)
        about = {
            "size": asdict(plan.size),
            "partitions": plan.partitions,
            "versions": versions(bed) | {"debezium": DEBEZIUM_VERSION},
            "machine": f"{os.cpu_count()} cores",
        }
        return runs, about, taking_part


def _rounds(stage: Stage, plan: Plan, taking_part: Sequence[Contender]) -> Iterator[Run]:
    for load in LOADS:
        if not plan.wants(load.name):
            continue
        whose = [each for each in taking_part if load.has(each)]
        for turn in range(plan.size.rounds if load.main else plan.size.more_rounds):
            stage.bed.say(f"{load.title}, round {turn + 1} …")
            for each in reversed(whose) if turn % 2 else whose:
                yield load.run(stage, each)
            if load.name == FLOOR_LOAD and plan.names(FLOOR):
                yield measure_floor(stage)


def _queues(bed: Bed, size: PeerSize) -> Iterator[Run]:
    settings = QueueSettings(base_kafka_config=bed.kafka)
    for turn in range(size.rounds):
        bed.say(f"queues, round {turn + 1} …")
        rates = measure_rates(settings, size.queue, 1, bed.say)
        yield _queue_run(WINDROW, rates.ours, rates.lost, rates.handled_twice)
        for way, name in _WAYS.items():
            yield _queue_run(name, rates.rivals[way])


def _queue_run(name: str, rate: float, lost: int = 0, twice: int = 0) -> Run:
    return Run(QUEUE, name, {"messages_per_s": rate}, complete=True, lost=lost, duplicated=twice, reordered=0)
