"""A leader that is paused until another leads and then wakes up, and one that is killed: nothing lost, doubled or
reordered.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from fix_command import relay_config, signal_marked, windrow_running
from fix_load import Load
from fix_pipeline import Pipeline, wait_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]


class Candidate:
    """A relay in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.mark = uuid4().hex
        self.talk = folder / self.mark

    def said(self, what: str) -> int:
        """How often it said so."""
        return self.talk.read_text().count(what) if self.talk.exists() else 0

    def send(self, number: int) -> None:
        """Send a signal to all of the relay's processes: driver, Spark, Python workers."""
        signal_marked(self.mark, number)


@contextmanager
def running(pipeline: Pipeline, folder: Path) -> Iterator[Candidate]:
    """One more relay of the pipeline's name."""
    config = relay_config(
        folder,
        pipeline.settings,
        capture=pipeline.settings.capture,
        election=pipeline.settings.election,
        limits={"leaseTimeout": f"{pipeline.settings.limits.lease_timeout.total_seconds():g}s"},
    )
    new = Candidate(folder)
    with windrow_running("relay", "--config", config, mark=new.mark, talk=new.talk):
        try:
            yield new
        finally:
            new.send(signal.SIGKILL)


@pytest.mark.parametrize("strategy", [{"capture": "tail"}], ids=["tail"])
def test_standby_takes_over_from_a_leader_that_is_paused_and_from_one_that_is_killed(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    load = Load(pipeline)
    with running(pipeline, tmp_path) as first:
        wait_for(lambda: first.said("LeaderAcquired"), "the first to lead")
        with running(pipeline, tmp_path) as second:
            wait_for(lambda: first.said("LeaderRefreshed"), "the second to join")
            with load.running():
                pipeline.wait_published(None, 500)
                first.send(signal.SIGSTOP)
                wait_for(lambda: second.said("LeaderAcquired"), "the second to lead")
                pipeline.wait_published(None, pipeline.published() + 500)
                first.send(signal.SIGCONT)
                wait_for(lambda: first.said("LeaderRevoked"), "the first to find that it leads no more")
                wait_for(lambda: second.said("LeaderRefreshed"), "the first to join again")
                pipeline.wait_published(None, pipeline.published() + 500)
                second.send(signal.SIGKILL)
                wait_for(lambda: first.said("LeaderAcquired") == 2, "the first to lead again")
                pipeline.wait_published(None, pipeline.published() + 500)
            pipeline.wait_published(None, load.committed * 5)
    assert second.said("LeaderFenced") == 0
    load.judge()


def test_standby_by_lease_takes_over_from_a_leader_that_is_paused_and_from_one_that_is_killed(
    make_pipeline: Callable[..., Pipeline], tmp_path: Path
) -> None:
    pipeline = make_pipeline(capture="mark", election="lease", limits={"leaseTimeout": "5s"})
    load = Load(pipeline)
    with running(pipeline, tmp_path) as first:
        wait_for(lambda: first.said("LeaderAcquired"), "the first to lead")
        with running(pipeline, tmp_path) as second:
            wait_for(lambda: candidates(pipeline) == 2, "the second to stand by")
            with load.running():
                pipeline.wait_published(None, 500)
                first.send(signal.SIGSTOP)
                wait_for(lambda: second.said("LeaderAcquired"), "the second to lead")
                pipeline.wait_published(None, pipeline.published() + 500)
                first.send(signal.SIGCONT)
                wait_for(lambda: first.said("LeaderRevoked"), "the first to find that it leads no more")
                pipeline.wait_published(None, pipeline.published() + 500)
                second.send(signal.SIGKILL)
                wait_for(lambda: first.said("LeaderAcquired") == 2, "the first to lead again")
                pipeline.wait_published(None, pipeline.published() + 500)
            pipeline.wait_published(None, load.committed * 5)
    assert (second.said("LeaderFenced"), second.said("LeaderRevoked")) == (0, 0)
    assert number_of_term(pipeline) == 3
    load.judge()


def candidates(pipeline: Pipeline) -> int:
    """How many relays ask for the lease."""
    with pipeline.connect() as connection:
        return connection.execute(
            "SELECT FROM pg_stat_activity WHERE application_name = %s", (f"windrow {pipeline.settings.name} lease",)
        ).rowcount


def number_of_term(pipeline: Pipeline) -> int:
    with pipeline.connect() as connection:
        row = connection.execute(f"SELECT term FROM {pipeline.settings.outbox_table}_relay").fetchone()
    assert row
    return int(row[0])
