"""Ctrl-C and SIGTERM: each command that runs for long ends in order and says so."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from fix_command import marked, relay_config, windrow, windrow_running
from fix_consumer import Consuming
from fix_pipeline import Pipeline, wait_for
from fix_queue import Queues
from windrow.lab.child import runs

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
WORK = """
from pathlib import Path
import time

def handle(message):
    Path("begun").touch()
    time.sleep(1)
    Path("ended").touch()
"""


def brokers(settings: object) -> list[str]:
    return ["--bootstrap-servers", settings.base_kafka_config["bootstrap.servers"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("number", STATUS, ids=lambda each: each.name)
def test_a_queues_worker_ends_what_it_has_in_hand(
    make_queues: Callable[..., Queues], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(WORK)
    queues = make_queues()
    queues.send("one", queue="jobs")
    topic = ["--message-topic", queues.settings.message_topic]
    given = ["queue", "work", "jobs", "own:handle", *brokers(queues.settings), *topic]
    with windrow_running(*given, mark=uuid4().hex) as process:
        wait_for((tmp_path / "begun").exists, "the handler")
        process.send_signal(number)
        _, talk = process.communicate(timeout=60)
    assert process.returncode == 0, talk
    assert f"{number.name}: ending after what is in hand; once more ends at once" in talk
    assert "Traceback" not in talk
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize("number", STATUS, ids=lambda each: each.name)
def test_a_consumer_that_waits_ends_at_once(
    consuming: Consuming, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("def handle(connection, message): pass")
    settings = consuming.settings
    config = tmp_path / "consumer.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "dataSource": settings.data_source,
                "baseKafkaConfig": dict(settings.base_kafka_config),
                "group": f"{settings.group}_{number.name}",
                "topics": [*settings.topics],
                "inboxTable": settings.inbox_table,
            }
        )
    )
    with windrow_running("inbox", "consume", "own:handle", "--config", config, mark=uuid4().hex) as process:
        assert process.stderr is not None
        assert "consumes" in process.stderr.readline()
        process.send_signal(number)
        _, talk = process.communicate(timeout=60)
    assert process.returncode == 0, talk
    assert f"{number.name}: ending after the transaction that is under way" in talk
    assert "Traceback" not in talk


@pytest.mark.parametrize("number", STATUS, ids=lambda each: each.name)
def test_a_watch_ends_well(pipeline: Pipeline, tmp_path: Path, number: signal.Signals) -> None:
    settings = pipeline.settings
    config = relay_config(tmp_path, settings)
    with windrow_running(
        "status", "--config", config, "--watch", "--json", "--every", "600", mark=uuid4().hex
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["name"] == settings.name
        process.send_signal(number)
        _, talk = process.communicate(timeout=60)
    assert process.returncode == 0, talk
    assert f"{number.name}: ending" in talk


@pytest.mark.parametrize("number", STATUS, ids=lambda each: each.name)
def test_what_has_no_steps_is_unwound(make_queues: Callable[..., Queues], number: signal.Signals) -> None:
    queues = make_queues()
    queues.send("one", queue="jobs")
    topic = ["--message-topic", queues.settings.message_topic]
    with windrow_running("queue", "drain", "jobs", *brokers(queues.settings), *topic, mark=uuid4().hex) as process:
        assert process.stderr is not None
        assert "1 wait" in process.stderr.readline()
        process.send_signal(number)
        _, talk = process.communicate(timeout=60)
    assert process.returncode == STATUS[number], talk
    assert f"{number.name}: stopping; once more ends at once" in talk
    assert talk.endswith("windrow: interrupted\n")
    assert "Traceback" not in talk


@pytest.mark.parametrize("number", STATUS, ids=lambda each: each.name)
def test_a_bench_takes_its_servers_down(number: signal.Signals) -> None:
    mark = uuid4().hex
    with windrow_running("bench", "write", mark=mark) as process:
        assert process.stderr is not None
        assert "starting PostgreSQL" in process.stderr.readline()
        process.send_signal(number)
        _, talk = process.communicate(timeout=60)
    assert process.returncode == STATUS[number], talk
    assert f"{number.name}: stopping" in talk
    assert "Traceback" not in talk
    wait_for(lambda: not marked(mark), "all processes gone")


def test_no_jvm_stays_behind_whose_start_is_interrupted() -> None:
    mark = uuid4().hex
    program = (
        "from windrow.cli.interrupt import unwound_by_signal\n"
        "from windrow.spark.session import session\n"
        "with unwound_by_signal():\n    session({}, 'interrupted')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "WINDROW_TEST_MARK": mark},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        wait_for(lambda: len(marked(mark)) > 1, "the JVM")
        process.terminate()
        _, talk = process.communicate(timeout=60)
    assert "SIGTERM: stopping" in talk
    wait_for(lambda: not marked(mark), "all processes gone")


def test_a_relay_that_loses_its_java_says_so_and_ends(pipeline: Pipeline, tmp_path: Path) -> None:
    mark, talk = uuid4().hex, tmp_path / "talk"
    pipeline.write(pipeline.message("before"))
    config = relay_config(tmp_path, pipeline.settings)
    with windrow_running("relay", "--config", config, mark=mark, talk=talk) as process:
        pipeline.wait_published(None, 1)
        (java,) = [pid for pid in marked(mark) if runs(pid, b"SparkSubmit")]
        os.kill(java, signal.SIGKILL)
        assert process.wait(60) == 1, talk.read_text()
    said = talk.read_text()
    assert "windrow: Spark's Java process has ended" in said, said
    assert "errors.md#sparklost" in said, said
    wait_for(lambda: not marked(mark), "all processes gone")


def test_a_reader_who_has_had_enough_is_no_error() -> None:
    with windrow_running("init", "--outbox-table", "x", "--sql", mark=uuid4().hex) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 1
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("queue work jobs broken:handle --bootstrap-servers nowhere:1", "handler broken:handle: SyntaxError: "),
        ("queue work jobs own:handle --bootstrap-servers nowhere:1", "handler own:handle: 1 cannot be called"),
        ("queue send jobs one --header nothing --bootstrap-servers nowhere:1", "give NAME=VALUE, not 'nothing'"),
        ("queue peek jobs --limit 0 --bootstrap-servers nowhere:1", "--limit"),
        ("bench write --database nonsense", "cannot be read as a URL"),
        ("torture --picture nowhere/timeline.svg", "--picture"),
        ("demo --rate 0", "--rate"),
    ],
)
def test_a_mistake_is_a_sentence_without_a_stack_trace(
    command: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "broken.py").write_text("def handle(:")
    (tmp_path / "own.py").write_text("handle = 1")
    answer = windrow(*command.split())
    assert answer.returncode == 2
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


def test_debug_shows_where_a_mistake_was_found() -> None:
    answer = windrow("--debug", "bench", "write", "--database", "nonsense")
    assert answer.returncode == 2
    assert answer.stderr.startswith("Traceback")
    assert "see docs/reference/errors.md#databaseunreachable" in answer.stderr
