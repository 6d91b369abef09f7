"""MariaDB from the command line, as docs/how-to/use-mysql.md says, with the rights that it says and no others."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fix_command import windrow, write_config
from fix_mariadb import maria_connect
from fix_pipeline import Pipeline, wait_for
from windrow import embedded
from windrow.database import mysql
from windrow.database.migrations import migrate
from windrow.kafka.clients import create_topic
from windrow.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "use-mysql.md").read_text()


def snippet(language: str, number: int = 0) -> str:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[number]


def grants(who: str) -> Iterator[str]:
    """What the page's table says that somebody needs: rights, and the tables that they are on."""
    (needs,) = re.findall(rf"^\| {who} \| (.*) \|$", PAGE, re.MULTILINE)
    for rights, tables in re.findall(r"`([A-Z, ]+)` on ((?:`\w+`(?:, | and )?)+)", needs):
        for table in re.findall(r"`(\w+)`", tables):
            yield f"{rights} ON {table}"


@pytest.fixture
def server(mariadb: embedded.MariaDB, maria_database: str) -> str:
    """The server and database, without a user."""
    return f"127.0.0.1:{mariadb.port}/{maria_database}"


@pytest.fixture
def config(server: str, maria_database: str, kafka: embedded.Kafka, tmp_path: Path) -> Path:
    return write_config(
        tmp_path, name=maria_database, dataSource=f"mysql://root@{server}", baseKafkaConfig=kafka.client_config
    )


def test_page_can_be_followed_with_the_rights_that_it_names(
    mariadb: embedded.MariaDB,
    server: str,
    maria_database: str,
    config: Path,
    spark: SparkSession,
) -> None:
    first, second = windrow("init", "--config", config), windrow("init", "--config", config)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "applied migration 1" in first.stderr
    assert "applied" not in second.stderr
    with maria_connect(mariadb, maria_database) as root, root.cursor() as cursor:
        for who in ("applications", "relay"):
            cursor.execute(f"CREATE USER {who[:3]}_{maria_database}@'127.0.0.1'")
            for grant in grants(who if who == "applications" else "the relay"):
                cursor.execute(f"GRANT {grant} TO {who[:3]}_{maria_database}@'127.0.0.1'")
    settings = Settings.load(config, environment={}, data_source=f"mysql://rel_{maria_database}@{server}")
    create_topic(settings, "orders", 1)
    with mysql.connect(f"mysql://app_{maria_database}@{server}") as application:
        application.execute(f"SET sql_mode = ''; {snippet('sql')}")
    doctor = windrow("doctor", "--config", config, "--data-source", settings.data_source)
    assert doctor.returncode == 0, doctor.stdout
    pipeline = Pipeline(settings, "orders", spark)
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
        wait_for(lambda: relay.in_flight_records == 0, "the page to be over")
    (message,) = [
        each for each in pipeline.received() if dict(each.headers() or ())["x-source"] == settings.name.encode()
    ]
    assert (message.key(), message.value()) == (b"4711", b'{"total": 12}')
    assert (message.headers() or [])[0] == ("content-type", b"application/json")
    status = json.loads(windrow("status", "--config", config, "--json").stdout)
    assert (status["published"], status["backlog"]) == (1, 0)
    assert windrow("dead-letters", "list", "--config", config).returncode == 0


def test_init_prints_sql_that_makes_the_same_tables(server: str) -> None:
    url = f"mysql://root@{server}"
    printed = windrow("init", "--data-source", url, "--name", "shop", "--shards", "3", "--sql")
    assert printed.returncode == 0, printed.stderr
    with mysql.connect(url) as connection:
        connection.execute(printed.stdout.rstrip().removesuffix(";"))
        assert connection.execute("SELECT shards FROM outbox_relay WHERE name = 'shop'").fetchone() == (3,)
        assert connection.execute("SELECT version FROM outbox_migration").fetchone() == (1,)
        made = connection.execute("SHOW CREATE TABLE outbox").fetchone()
        connection.execute("DROP TABLE outbox, outbox_migration")
    settings = Settings.load(environment={}, data_source=url, base_kafka_config={"bootstrap.servers": "-"})
    with mysql.connect(url) as connection:
        migrate(connection, settings)
        assert connection.execute("SHOW CREATE TABLE outbox").fetchone() == made


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("republish", "--id", "1"), "nothing to republish"),
        (("repair",), "nothing to repair"),
        (("init", "--storage", "partitioned"), "storage plain"),
        (("relay", "--transform", "SELECT 1"), "transform"),
    ],
)
def test_what_needs_snapshots_is_refused_with_the_reason(config: Path, command: tuple[str, ...], said: str) -> None:
    assert windrow("init", "--config", config).returncode == 0
    refused = windrow(*command, "--config", config)
    assert refused.returncode != 0
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr
