"""What `status` says is what is."""

from collections.abc import Callable

from fix_pipeline import Pipeline, wait_for
from windrow.relay.status import status


def test_backlog_and_age_are_those_of_unpublished_rows(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(shards=3)
    pipeline.write(*(pipeline.message("published", key=f"{number}") for number in range(30)))
    with pipeline.relay() as relay:
        wait_for(lambda: status(pipeline.settings).leader_id == relay.leader_id is not None, "the leader to be shown")
        pipeline.wait_published(relay, 30)
    pipeline.write(*(pipeline.message("waits", key=f"{number}") for number in range(12)))
    with pipeline.connect() as connection:
        connection.execute(
            f"UPDATE {pipeline.settings.outbox_table} SET create_time = now() - interval '1 hour' WHERE value = 'waits'"
        )
    now = status(pipeline.settings)
    assert (now.leader_id, now.published, now.backlog) == (None, 30, 12)
    assert 3600 <= now.oldest_age < 3700
    assert sum(each.published for each in now.shards) == 30


def test_relay_that_has_never_run_has_everything_before_it(pipeline: Pipeline) -> None:
    pipeline.write(pipeline.message("waits"))
    now = status(pipeline.settings)
    assert (now.leader_id, now.published, now.backlog) == (None, 0, 1)
