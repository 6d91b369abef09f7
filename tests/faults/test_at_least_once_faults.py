"""Publishing without transactions while the broker is away: records may repeat at once, and nothing else."""

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from fix_faults import kill_python_workers
from fix_load import Load
from fix_outbox import MemoryOutbox, Nowhere, memory_outbox, overtaken
from fix_pipeline import Pipeline, wait_for
from windrow import embedded
from windrow.errors import Interrupted

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

COUNT, KEYS = 10_000, 100


def test_broker_killed_until_records_time_out(kafka: embedded.Kafka) -> None:
    outbox = memory_outbox(kafka, limits={"sessionTimeout": "1s"})
    assert _interruptions(outbox, kafka.kill, kafka.restart) > 0


def test_broker_killed_and_restarted_before_records_time_out(kafka: embedded.Kafka) -> None:
    outbox = memory_outbox(kafka, limits={"sessionTimeout": "60s"})
    assert _interruptions(outbox, kafka.kill, kafka.restart) == 0


def test_broker_paused_until_records_time_out_that_it_has_in_hand(kafka: embedded.Kafka) -> None:
    outbox = memory_outbox(kafka, limits={"sessionTimeout": "1s"})
    assert _interruptions(outbox, kafka.pause, kafka.resume) > 0


@pytest.mark.parametrize("fault", ["workers", "database"])
def test_relay_without_transactions_loses_nothing_and_repeats_only_at_once(
    make_pipeline: Callable[..., Pipeline], postgres: embedded.Postgres, fault: str
) -> None:
    pipeline = make_pipeline(capture="mark", delivery="at-least-once", limits={"ioErrorBackoff": "10ms"})
    load = Load(pipeline)
    with pipeline.relay() as relay:
        with load.running():
            for _ in range(2):
                pipeline.wait_published(relay, pipeline.published() + 200)
                if fault == "workers":
                    kill_python_workers()
                else:
                    postgres.kill()
                    postgres.restart()
            pipeline.wait_published(relay, pipeline.published() + 200)
        wait_for(lambda: _emptied(pipeline), "the outbox to be empty")
    load.judge()


def _emptied(pipeline: Pipeline) -> bool:
    """What was published is deleted: the count of it may lag behind where a task was killed."""
    with pipeline.connect() as connection:
        return connection.execute(f"SELECT FROM {pipeline.settings.outbox_table} LIMIT 1").rowcount == 0


def _interruptions(outbox: MemoryOutbox, fault: Callable[[], None], remedy: Callable[[], None]) -> int:
    """Publish all through a fault of two and a half seconds, and judge the log; how often a publisher gave up."""
    outbox.write(COUNT, KEYS)
    mending = threading.Timer(2.5, remedy)

    def break_it(_: Sequence[int]) -> None:
        if len(outbox.purged) > COUNT // 3 and not mending.ident:
            fault()
            mending.start()

    outbox.before_purge = break_it
    interruptions = 0
    deadline = time.monotonic() + 120
    while outbox.rows:
        assert time.monotonic() < deadline
        try:
            with outbox.publisher() as publisher:
                publisher.publish(list(outbox.rows.values()), Nowhere())
        except Interrupted:
            interruptions += 1
    mending.join()
    log = outbox.log()
    for key in range(KEYS):
        written = range(key, COUNT, KEYS)
        assert sorted(set(log[b"%d" % key])) == list(written)
        assert overtaken(log[b"%d" % key], written) == []
    return interruptions
