"""A blocked key under load, and faults in the middle of its release: nothing lost, doubled or reordered."""

from collections.abc import Callable

import pytest

from fix_faults import kill_python_workers
from fix_load import Load
from fix_pipeline import Pipeline, limit_message_size, wait_for
from windrow import embedded
from windrow.publish.dead_letter import DeadLetters

pytestmark = [pytest.mark.faults, pytest.mark.timeout(480)]


def test_faults_in_the_middle_of_a_release(make_pipeline: Callable[..., Pipeline], kafka: embedded.Kafka) -> None:
    pipeline = make_pipeline(poison="block-key", shards=2, limits={"pageRecords": 100, "ioErrorBackoff": "10ms"})
    letters = DeadLetters(pipeline.settings)
    load = Load(pipeline, lambda key, number: "x" * 20_000 if key == "key 0" and number % 50 == 7 else "")

    def waiting() -> int:
        return len(letters.list(10_000))

    def kill_broker() -> None:
        kafka.kill()
        kafka.restart()

    with pipeline.relay() as relay:
        with load.running():
            for fault in (kill_python_workers, kill_broker):
                limit_message_size(pipeline, 10_000)
                wait_for(lambda: waiting() > 300, "a key blocked for a while")
                letters.retry(None)
                wait_for(lambda: letters.list(1)[0].release is None, "the key to be blocked again")
                limit_message_size(pipeline, 100_000)
                put_aside = waiting()
                letters.retry([letters.list(1)[0].id])
                wait_for(lambda many=put_aside: waiting() < many, "the release to begin")
                fault()
                wait_for(lambda: waiting() == 0, "the release to end")
        pipeline.wait_published(relay, load.committed * 5)
    load.judge()
