"""Consumers on Spark: messages told by the inbox's ids, and batches that are in a table once."""

import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from fix_cluster import Connect
from windrow import embedded
from windrow.database.connections import connect_plainly
from windrow.errors import SettingsInvalid
from windrow.inbox import Received
from windrow.inbox.identity import id_of
from windrow.pipeline import Upsert, deduplicate, message_id

pytestmark = pytest.mark.timeout(300)

SCHEMA = (
    "topic string, partition int, offset bigint, timestamp timestamp, headers array<struct<key: string, value: binary>>"
)
AT = datetime(2026, 1, 2, tzinfo=UTC)
OUTBOX = [("x-sequence", b"1"), ("x-sequence", b"7"), ("x-source", b"shop")]
EVENT = [("ce_id", b"a:b"), ("ce_source", "größe".encode())]
HEADERS: list[list[tuple[str, bytes | None]] | None] = [
    None,
    [],
    [*OUTBOX],
    [*EVENT, *OUTBOX],
    [*EVENT],
    [("ce_id", b""), ("ce_source", b"x")],
    [("x-sequence", b"no"), ("x-source", b"shop")],
    [("x-sequence", b"0"), ("x-source", b"shop")],
    [("x-sequence", b"010"), ("x-source", b"shop")],
    [("x-sequence", None), ("x-source", b"shop")],
    [("x-sequence", b"7"), ("x-source", b"s" * 300)],
]


def rows(spark: SparkSession, headers: list[Any]) -> DataFrame:
    return spark.createDataFrame([("orders", 3, number, AT, each) for number, each in enumerate(headers)], SCHEMA)


def test_messages_are_told_as_the_inbox_tells_them(spark: SparkSession) -> None:
    found = rows(spark, HEADERS).select("offset", message_id().alias("id")).orderBy("offset").collect()
    expected = [id_of(Received("orders", 3, number, headers=tuple(each or ()))) for number, each in enumerate(HEADERS)]
    assert [bytes(each.id) for each in found] == expected


def test_messages_that_came_before_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    twice = rows(spark, [OUTBOX, EVENT, OUTBOX, EVENT, None, None])
    assert deduplicate(twice).count() == 4
    twice.write.parquet(str(tmp_path / "in"))
    table = f"once_{uuid4().hex[:8]}"

    def run() -> int:
        stream = deduplicate(spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in")))
        writer = stream.writeStream.format("parquet").option("path", str(tmp_path / table))
        query = writer.option("checkpointLocation", str(tmp_path / "kept")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        return spark.read.parquet(str(tmp_path / table)).count()

    assert run() == 4
    rows(spark, [OUTBOX, EVENT]).write.mode("append").parquet(str(tmp_path / "in"))
    assert run() == 4


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_batch_that_is_run_again_changes_nothing(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    server: embedded.Postgres | embedded.MariaDB = request.getfixturevalue(kind)
    table = f"totals_{uuid4().hex[:8]}"
    upsert = Upsert(server.url, table, ["customer"], latest_by="version")

    def execute(statement: str) -> list[tuple[Any, ...]]:
        with closing(connect_plainly(server.url)) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            found = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
            return found

    def run(checkpoint: str = "kept", times: int = 1) -> None:
        def several(frame: DataFrame, batch: int) -> None:
            for _ in range(times):
                upsert(frame, batch)

        stream = spark.readStream.schema("customer string, amount int, version int").parquet(str(tmp_path / "in"))
        writer = stream.writeStream.foreachBatch(several).option("checkpointLocation", str(tmp_path / checkpoint))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    def arrive(*given: tuple[str, int, int]) -> None:
        frame = spark.createDataFrame([*given], "customer string, amount int, version int")
        frame.repartition(3).write.mode("append").parquet(str(tmp_path / "in"))

    execute(f"CREATE TABLE {table} (customer varchar(50) PRIMARY KEY, amount integer, version integer)")
    arrive(("alice", 1, 1), ("bob", 2, 1), ("alice", 3, 2))
    run(times=2)
    assert sorted(execute(f"SELECT * FROM {table}")) == [("alice", 3, 2), ("bob", 2, 1)]
    execute(f"UPDATE {table} SET amount = 100")  # by somebody else, in between
    (tmp_path / "kept" / "commits" / "0").unlink()  # as if the query had died before Spark noted the batch
    (tmp_path / "kept" / "commits" / ".0.crc").unlink()
    run()
    assert sorted(execute(f"SELECT * FROM {table}")) == [("alice", 100, 2), ("bob", 100, 1)]
    arrive(("bob", 5, 2), ("carol", 6, 1))
    run()
    assert sorted(execute(f"SELECT * FROM {table}")) == [("alice", 100, 2), ("bob", 5, 2), ("carol", 6, 1)]
    run("another")  # a new query, whose numbers begin anew
    assert sorted(execute(f"SELECT * FROM {table}")) == [("alice", 3, 2), ("bob", 5, 2), ("carol", 6, 1)]
    assert execute(f"SELECT count(*) FROM {table}_staged")[0][0] == 0


OVER_CONNECT = """
import sys
from pyspark.sql import SparkSession, functions
from windrow.pipeline import Upsert, deduplicate

remote, database, table, folder = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
headers = "array(named_struct('key', 'ce_id', 'value', encode(string(id % 5), 'UTF-8')),"
headers += " named_struct('key', 'ce_source', 'value', encode('/shop', 'UTF-8')))"
columns = ["'orders' AS topic", "0 AS partition", "id AS offset", "timestamp'2026-01-02' AS timestamp"]
spark.range(20).selectExpr(*columns, f"{headers} AS headers").write.parquet(folder + "/in")
stream = spark.readStream.schema(spark.read.parquet(folder + "/in").schema).parquet(folder + "/in")
once = deduplicate(stream).select(functions.col("offset").alias("number"))
writer = once.writeStream.foreachBatch(Upsert(database, table, ["number"]))
query = writer.option("checkpointLocation", folder + "/kept").trigger(availableNow=True).start()
assert query.awaitTermination(120)
assert query.exception() is None, query.exception()
"""


def test_all_of_it_works_over_spark_connect(postgres: embedded.Postgres, tmp_path: Path) -> None:
    table = f"connected_{uuid4().hex[:8]}"
    with closing(connect_plainly(postgres.url)) as connection, Connect() as server:
        connection.execute(f"CREATE TABLE {table} (number bigint PRIMARY KEY)".encode())
        connection.commit()
        arguments = [sys.executable, "-c", OVER_CONNECT, server.url, postgres.url, table, str(tmp_path)]
        run = subprocess.run(arguments, capture_output=True, text=True, timeout=200, check=False)
        assert run.returncode == 0, run.stderr
        found = connection.execute(f"SELECT count(*), count(DISTINCT number % 5) FROM {table}".encode()).fetchone()
    assert found == (5, 5)


def test_mistakes_are_told() -> None:
    with pytest.raises(SettingsInvalid, match=r"^table: .*\nkey: "):
        Upsert("postgresql://", "a.b.c", [])


def test_values_of_all_kinds_arrive(postgres: embedded.Postgres, spark: SparkSession, tmp_path: Path) -> None:
    table = f"kinds_{uuid4().hex[:8]}"
    with closing(connect_plainly(postgres.url)) as connection:
        kinds = "id bigint PRIMARY KEY, t timestamptz, b bytea, d numeric, n text"
        connection.execute(f"CREATE TABLE {table} ({kinds})".encode())
        connection.commit()
        frame = spark.range(5).select(
            "id",
            functions.lit(AT).alias("t"),
            functions.lit(b"\x00\xff").alias("b"),
            functions.lit("1.50").cast("decimal(10,2)").alias("d"),
            functions.lit(None).cast("string").alias("n"),
        )
        frame.write.parquet(str(tmp_path / "in"))
        stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
        writer = stream.writeStream.foreachBatch(Upsert(postgres.url, table, ["id"]))
        query = writer.option("checkpointLocation", str(tmp_path / "kept")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        found = connection.execute(f"SELECT count(*), min(t), min(d), max(n) FROM {table}".encode()).fetchone()
        assert found == (5, AT, frame.first().d, None)  # type: ignore[union-attr]
