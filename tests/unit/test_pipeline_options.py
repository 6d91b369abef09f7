"""Options of the Spark formats: the settings' names, in Spark's lower case; and the columns that can be published."""

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from windrow.errors import SettingsInvalid
from windrow.pipeline.options import settings_from
from windrow.publish.rows import check_columns

NO_KAFKA = "WINDROW_KAFKA_BOOTSTRAP_SERVERS"


def settings(unused: str = NO_KAFKA, **options: str) -> str:
    given = CaseInsensitiveDict({name.replace("__", "."): value for name, value in options.items()})
    return str(settings_from(given, ours=frozenset({"maxRowsPerTrigger"}), unused=unused))


def test_settings_are_options_by_their_own_names() -> None:
    lines = settings(dataSource="host=db", outboxTable="billing.outbox", shards="3", limits__pageRecords="7")
    assert {"dataSource: host=db", "outboxTable: billing.outbox", "shards: 3", "limits.pageRecords: 7"} <= set(
        lines.splitlines()
    )


def test_settings_of_kafka_clients_have_a_prefix() -> None:
    lines = settings("WINDROW_DATA_SOURCE", kafka__bootstrap__servers="kafka:9092", producer__linger__ms="5")
    assert "baseKafkaConfig.bootstrap.servers: kafka:9092" in lines
    assert "producerKafkaConfig.linger.ms: 5" in lines


def test_what_is_sparks_or_the_formats_own_is_no_setting() -> None:
    settings(dataSource="host=db", checkpointLocation="/tmp/x", path="/", maxRowsPerTrigger="5")  # noqa: S108 - only a name


def test_mistakes_are_told_with_their_remedy() -> None:
    with pytest.raises(SettingsInvalid, match="outboxtabel is not a setting"):
        settings(dataSource="host=db", outboxTabel="x")
    with pytest.raises(SettingsInvalid, match="dataSource is missing"):
        settings()


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"topic": "string"}, "column value: is missing"),
        ({"topic": "string", "value": "int"}, "column value: give string or binary, not int; use CAST"),
        ({"topic": "string", "value": "binary", "amount": "int"}, "column amount: not one of"),
        ({"topic": "string", "value": "binary", "headers": "string"}, "column headers: give array<struct"),
    ],
)
def test_columns_that_cannot_be_published_are_named(columns: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsInvalid, match=said):
        check_columns(columns)


def test_columns_that_can_be_published_pass() -> None:
    check_columns({"topic": "string", "value": "string"})
    check_columns(
        {
            "id": "bigint",
            "topic": "string",
            "key": "binary",
            "value": "binary",
            "headers": "array<struct<key:string,value:binary>>",
            "partition": "int",
            "timestamp": "timestamp",
        },
        "id",
    )
