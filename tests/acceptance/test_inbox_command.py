"""`windrow inbox`: make the tables, run a handler, forget what is old."""

import subprocess
import sys
from pathlib import Path

import yaml

from fix_command import windrow
from fix_consumer import Consuming

HANDLER = """
from fix_consumer import count
def handle(connection, message):
    count({table!r}, connection, message)
"""


def test_a_handler_is_run_until_a_signal_and_its_inbox_is_purged(consuming: Consuming, tmp_path: Path) -> None:
    settings, table = consuming.settings, f"{consuming.table}_other"
    where = ["--data-source", settings.data_source, "--inbox-table", table]
    assert windrow("inbox", "init", *where).returncode == 0
    assert windrow("inbox", "init", *where).stderr == f"inbox {table} is ready\n"
    config = tmp_path / "consumer.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "dataSource": settings.data_source,
                "baseKafkaConfig": dict(settings.base_kafka_config),
                "group": settings.group,
                "topics": [*settings.topics],
                "inboxTable": table,
                "backoff": "100ms",
            }
        )
    )
    (tmp_path / "own.py").write_text(HANDLER.format(table=consuming.table))
    consuming.produce(range(20))
    command = [sys.executable, "-m", "windrow", "inbox", "consume", "own:handle", "--config", str(config)]
    tests = str(Path(__file__).parents[1])
    with subprocess.Popen(command, cwd=tmp_path, env={"PYTHONPATH": tests}, stderr=subprocess.PIPE) as process:
        try:
            consuming.wait_for_effects(20)
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert consuming.effects() == dict.fromkeys(range(20), 1)
    forgotten = windrow("inbox", "purge", *where, "--group", settings.group, "--retention", "0s")
    assert forgotten.stderr == "forgot 20 messages\n"


def test_the_sql_is_printed_without_a_server() -> None:
    printed = windrow("inbox", "init", "--data-source", "mysql://", "--inbox-table", "shop.inbox", "--sql").stdout
    assert "CREATE TABLE IF NOT EXISTS `shop`.`inbox_offset` (" in printed


def test_a_handler_that_is_not_there_is_a_mistake(consuming: Consuming) -> None:
    given = ["--group", "g", "--topics", "a,b", "--data-source", consuming.settings.data_source]
    run = windrow("inbox", "consume", "windrow:nothing", *given, "--bootstrap-servers", "nowhere:1")
    assert run.returncode == 2
    assert "handler windrow:nothing: " in run.stderr
