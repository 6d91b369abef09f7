"""One contract for all: whatever strategies are combined, committed messages come, in order, and no others."""

import random
from collections.abc import Callable
from contextlib import ExitStack

from fix_load import Load
from fix_pipeline import STRATEGIES, Pipeline, wait_for
from windrow.relay.status import status


@STRATEGIES
def test_committed_messages_come_in_order_and_no_others(
    make_pipeline: Callable[..., Pipeline], strategy: dict[str, str]
) -> None:
    """Writers at work, transactions that commit in another order than they began in, epochs that turn, a relay that
    stops and goes on.
    """
    shards = 1 if strategy["capture"] == "tail" else 2
    limits = {"pageRecords": 40, "sweepAfter": "50ms"}
    pipeline = make_pipeline(partitions=3, shards=shards, epoch="1s", limits=limits)
    load = Load(pipeline, pause=0.05)
    with ExitStack() as opened:
        late = [load.begin(opened.enter_context(pipeline.connect()), f"late {number}") for number in range(10)]
        random.shuffle(late)
        with load.running():
            with pipeline.relay() as relay:
                for first, second in zip(late[:8:2], late[1:8:2], strict=True):
                    pipeline.wait_published(relay, pipeline.published() + 5)
                    first()
                    second()
                epochs = relay.epochs
                wait_for(lambda: relay.epochs > epochs, "an epoch to turn")
            late[8]()
        with pipeline.relay() as relay:
            late[9]()
            wait_for(lambda: _nothing_waits(pipeline), "all to be published")
    assert load.committed > 10
    load.judge()


def _nothing_waits(pipeline: Pipeline) -> bool:
    return status(pipeline.settings).backlog == 0
