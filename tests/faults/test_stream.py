"""A user's own streaming query, killed in mid-transaction and started again from its checkpoint."""

import signal
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from fix_command import marked, signal_marked
from fix_load import Load
from fix_pipeline import Pipeline, wait_for
from fix_stream import streaming

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

STARTED = 300.0
BACKLOG = 2_000
"""Some seven batches: a transaction is open for a second in each, and is to be seen once."""


def test_query_killed_in_mid_batch_loses_and_doubles_nothing(
    make_pipeline: Callable[..., Pipeline], tmp_path: Path
) -> None:
    pipeline = make_pipeline()
    load, mark = Load(pipeline), uuid4().hex
    with load.running():
        wait_for(lambda: load.committed * 5 >= BACKLOG, "a backlog")
    with streaming(pipeline, tmp_path / "checkpoint", mark, tmp_path / "talk") as query:
        wait_for(lambda: pipeline.transaction_open() or query.poll() is not None, "an open transaction", STARTED)
        assert query.poll() is None, (tmp_path / "talk").read_text()
        signal_marked(mark, signal.SIGKILL)
    wait_for(lambda: not marked(mark), "all processes gone")
    with streaming(pipeline, tmp_path / "checkpoint", mark, tmp_path / "talk") as again:
        wait_for(lambda: _received(pipeline) >= load.committed * 5, "all messages", STARTED)
        again.kill()
        wait_for(lambda: not marked(mark), "all processes gone")
    load.judge()


def _received(pipeline: Pipeline) -> int:
    return 0 if pipeline.transaction_open() else len(pipeline.values())
