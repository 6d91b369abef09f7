"""The command line as a person uses it: what it prints, how it ends, what it leaves behind."""

import json
import signal
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
import yaml

from fix_command import marked, relay_config, windrow, windrow_running, write_config
from fix_pipeline import Pipeline, wait_for
from windrow import embedded
from windrow.database.ring import ring_of
from windrow.database.tables import Tables

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def config(pipeline: Pipeline, tmp_path: Path) -> Path:
    """A settings file for the pipeline's relay."""
    return relay_config(tmp_path, pipeline.settings)


def test_init_twice_then_relay_until_interrupted(
    postgres: embedded.Postgres, kafka: embedded.Kafka, pipeline: Pipeline, tmp_path: Path
) -> None:
    name = f"cli_{uuid4().hex[:8]}"
    config = write_config(
        tmp_path, name=name, outboxTable=name, dataSource=postgres.url, baseKafkaConfig=kafka.client_config
    )
    first, second = windrow("init", "--config", config), windrow("init", "--config", config)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "applied migration 1" in first.stderr
    assert "applied" not in second.stderr
    with pipeline.connect() as connection:
        connection.execute(f"INSERT INTO {name} (topic, value) VALUES (%s, 'hello')", (pipeline.topic,))
    mark = uuid4().hex
    with windrow_running("relay", "--config", config, mark=mark) as process:
        wait_for(lambda: pipeline.values() == [b"hello"], "the message")
        process.send_signal(signal.SIGINT)
        _, talk = process.communicate(timeout=30)
    assert process.returncode == 0, talk
    assert "SIGINT: stopping" in talk
    assert "Traceback" not in talk
    wait_for(lambda: not marked(mark), "all processes gone")


@pytest.mark.parametrize("storage", ["plain", "partitioned"])
def test_init_prints_sql_that_makes_the_same_tables(postgres: embedded.Postgres, storage: str) -> None:
    name = f"sql_{uuid4().hex[:8]}"
    printed = windrow("init", "--outbox-table", name, "--name", name, "--shards", "3", "--storage", storage, "--sql")
    assert printed.returncode == 0, printed.stderr
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(printed.stdout.encode())
        assert connection.execute(f"SELECT shards FROM {name}_relay WHERE name = %s", (name,)).fetchone() == (3,)
        assert connection.execute(f"SELECT version FROM {name}_migration").fetchone() == (1,)
        assert bool(ring_of(connection, Tables.beside(name))) == (storage == "partitioned")


def test_relay_killed_leaves_no_process(config: Path, pipeline: Pipeline) -> None:
    pipeline.write(pipeline.message("hello"))
    mark = uuid4().hex
    with windrow_running("relay", "--config", config, mark=mark) as process:
        wait_for(lambda: pipeline.values() == [b"hello"], "the message")
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        wait_for(lambda: not marked(mark), "all processes gone")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"outboxTabel": "x"}, "outboxTabel is not a setting: did you mean outboxTable?", id="unknown key"),
        pytest.param({"shards": "many"}, "shards: give a whole number", id="wrong type"),
        pytest.param({"limits": {"pageRecords": "10kg"}}, "limits.pageRecords: give a whole number", id="nested"),
        pytest.param({"dataSource": None}, "dataSource", id="no database"),
        pytest.param(
            {"dataSource": "postgresql://u:hush@127.0.0.1:1/x"}, "dataSource 127.0.0.1:1/x", id="database away"
        ),
        pytest.param({"baseKafkaConfig": {"bootstrap.servers": "127.0.0.1:1"}}, "bootstrap.servers", id="kafka away"),
        pytest.param({"outboxTable": "missing"}, 'outboxTable "missing" is not there', id="missing table"),
        pytest.param({"name": "missing"}, "relay missing is not initialised", id="missing relay"),
    ],
)
def test_bad_setting_is_named_with_its_remedy(config: Path, change: dict[str, object], said: str) -> None:
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), **change}))
    refused = windrow("relay", "--config", config)
    assert refused.returncode == 2, refused.stderr
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "hush" not in refused.stderr


def test_settings_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    refused = windrow("relay", "--config", tmp_path / "nowhere.yaml")
    assert refused.returncode == 2
    assert "nowhere.yaml" in refused.stderr


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["init"],
        ["relay"],
        ["pump"],
        ["demo"],
        ["doctor"],
        ["status"],
        ["purge"],
        ["repair"],
        ["republish"],
        ["reshard"],
        ["dead-letters"],
        ["servers", "up"],
        ["bench", "relay"],
    ],
)
def test_help_teaches(command: list[str]) -> None:
    shown = windrow(*command, "--help")
    assert shown.returncode == 0
    assert "Usage: " in shown.stdout
    assert len(shown.stdout) > 300
    assert "\\b" not in shown.stdout


def test_doctor_tells_by_its_exit_status_what_is_wrong(config: Path, tmp_path: Path) -> None:
    sound = windrow("doctor", "--config", config)
    assert sound.returncode == 0, sound.stdout + sound.stderr
    assert "ok      database" in sound.stdout
    assert "0 failed" in sound.stderr
    failed = windrow("doctor", "--config", config, "--outbox-table", "missing", "--json")
    assert failed.returncode == 1, failed.stderr
    answer = json.loads(failed.stdout)
    assert [each["check"] for each in answer["findings"] if each["verdict"] == "failed"] == ["outbox"]
    wrong = windrow("doctor", "--config", write_config(tmp_path, shards="many"))
    assert wrong.returncode == 2
    assert "shards: give a whole number" in wrong.stdout
    assert "java" in wrong.stdout


def test_pump_creates_its_topic_and_ends_at_ctrl_c_with_a_summary(config: Path, pipeline: Pipeline) -> None:
    topic = f"{pipeline.settings.name}.pumped"
    load = ("--topic", topic, "--rate", "100", "--seconds", "600", "--json")
    with windrow_running("pump", "--config", config, *load, mark=uuid4().hex) as process:
        assert process.stderr is not None
        assert "created topic" in process.stderr.readline()
        for line in process.stderr:
            if line.startswith("committed"):
                break
        process.send_signal(signal.SIGINT)
        answer, talk = process.communicate(timeout=60)
    assert process.returncode == 0, talk
    with pipeline.connect() as connection:
        written = connection.execute(
            f"SELECT count(*) FROM {pipeline.settings.outbox_table} WHERE topic = %s", (topic,)
        ).fetchone()
    assert written == (json.loads(answer)["committed"],)


def test_torture_names_its_faults_to_whoever_asks_for_another() -> None:
    answer = windrow("torture", "--only", "bad weather")
    assert answer.returncode == 2
    assert "no fault 'bad weather'; there are: leader killed, " in answer.stderr


def test_demo_ends_with_a_sound_verdict_and_leaves_nothing_behind() -> None:
    mark = uuid4().hex
    with windrow_running("demo", "--seconds", "5", "--rate", "200", "--json", mark=mark) as process:
        answer, talk = process.communicate(timeout=150)
    assert process.returncode == 0, talk
    verdict = json.loads(answer)
    assert verdict["written"] == verdict["received"] > 100
    assert [verdict[key] for key in ("lost", "duplicated", "reordered", "phantom")] == [0, 0, 0, 0]
    wait_for(lambda: not marked(mark), "all processes gone")


def test_demo_ends_early_at_ctrl_c_with_a_verdict() -> None:
    mark = uuid4().hex
    with windrow_running("demo", "--seconds", "600", "--json", mark=mark) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "received" in line:
                break
        process.send_signal(signal.SIGINT)
        answer, talk = process.communicate(timeout=60)
    assert process.returncode == 0, talk
    assert json.loads(answer)["lost"] == 0
    wait_for(lambda: not marked(mark), "all processes gone")
