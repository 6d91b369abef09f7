"""Publishing without transactions while the broker is killed: records may repeat at once, and nothing else."""

import threading
import time
from collections.abc import Sequence

import pytest

from fix_outbox import Nowhere, memory_outbox, overtaken
from windrow import embedded
from windrow.errors import Interrupted

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]


@pytest.mark.parametrize(("timeout", "interrupted"), [("1s", True), ("30s", False)])
def test_broker_killed_and_restarted_while_records_are_under_way(
    kafka: embedded.Kafka, timeout: str, *, interrupted: bool
) -> None:
    """Those that time out meanwhile are published anew; those that may take longer arrive after it."""
    count, keys = 10_000, 100
    outbox = memory_outbox(kafka, limits={"sessionTimeout": timeout})
    outbox.write(count, keys)
    restart = threading.Thread(target=lambda: (time.sleep(1.5), kafka.restart()))

    def kill(_: Sequence[int]) -> None:
        if len(outbox.purged) > count // 3 and not restart.ident:
            kafka.kill()
            restart.start()

    outbox.before_purge = kill
    interruptions = 0
    deadline = time.monotonic() + 90
    while outbox.rows:
        assert time.monotonic() < deadline
        try:
            with outbox.publisher() as publisher:
                publisher.publish(list(outbox.rows.values()), Nowhere())
        except Interrupted:
            interruptions += 1
    restart.join()
    assert bool(interruptions) == interrupted
    log = outbox.log()
    for key in range(keys):
        written = range(key, count, keys)
        assert sorted(set(log[b"%d" % key])) == list(written)
        assert overtaken(log[b"%d" % key], written) == []
