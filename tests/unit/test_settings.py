"""Settings: where they come from, which one wins, what is refused, and what is never shown."""

import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windrow.errors import SettingsInvalid
from windrow.parse import Size, camel, without_secrets
from windrow.settings import Limits, Settings

KAFKA = {"bootstrap.servers": "kafka:9092"}
DATABASE = "postgresql://relay@db/shop"


def load(**overrides: Any) -> Settings:
    return Settings.load(environment={}, **{"data_source": DATABASE, "base_kafka_config": KAFKA} | overrides)


def mistakes_of(
    file: Path | None = None, environment: dict[str, str] | None = None, **overrides: Any
) -> tuple[str, ...]:
    given = {"data_source": DATABASE, "base_kafka_config": KAFKA} | overrides
    with pytest.raises(SettingsInvalid) as caught:
        Settings.load(file, environment or {}, **given)
    return caught.value.mistakes


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "relay.yaml"
    path.write_text("""
name: shop
dataSource: postgresql://relay@db/shop
outboxTable: billing.outbox
leaderGroupID: positions
shards: 4
epoch: 90s
baseKafkaConfig:
  bootstrap.servers: kafka:9092
  enable.ssl.certificate.verification: false
producerKafkaConfig:
  linger.ms: 1
spark:
  master: local[2]
limits:
  pageRecords: 500
  pageBytes: 2MB
  maxMarkBackoff: 0.1s
""")
    return path


def test_everything_in_a_file_arrives_typed(file: Path) -> None:
    settings = Settings.load(file, environment={})
    assert settings == Settings(
        data_source="postgresql://relay@db/shop",
        base_kafka_config={"bootstrap.servers": "kafka:9092", "enable.ssl.certificate.verification": "false"},
        producer_kafka_config={"linger.ms": "1"},
        name="shop",
        outbox_table="billing.outbox",
        leader_group_id="positions",
        shards=4,
        epoch=timedelta(seconds=90),
        spark={"master": "local[2]"},
        limits=Limits(page_records=500, page_bytes=Size(2_000_000), max_mark_backoff=timedelta(milliseconds=100)),
    )


def test_environment_gives_every_plain_setting_kafkas_own_and_limits() -> None:
    settings = Settings.load(
        environment={
            "WINDROW_DATA_SOURCE": DATABASE,
            "WINDROW_NAME": "shop",
            "WINDROW_SHARDS": "2",
            "WINDROW_EPOCH": "2m",
            "WINDROW_KAFKA_BOOTSTRAP_SERVERS": "kafka:9092",
            "WINDROW_KAFKA_SASL_PASSWORD": "hush",
            "WINDROW_PRODUCER_KAFKA_COMPRESSION_TYPE": "lz4",
            "WINDROW_LIMITS_PAGE_RECORDS": "7",
            "WINDROW_LIMITS_PAGE_BYTES": "16kB",
            "WINDROW_CACHE": "/elsewhere",
            "HOME": "/root",
        }
    )
    assert (settings.name, settings.shards, settings.epoch) == ("shop", 2, timedelta(minutes=2))
    assert settings.base_kafka_config == {"bootstrap.servers": "kafka:9092", "sasl.password": "hush"}
    assert settings.producer_kafka_config == {"compression.type": "lz4"}
    assert (settings.limits.page_records, settings.limits.page_bytes) == (7, 16_000)


def test_environment_of_the_process_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDROW_NAME", "from-the-process")
    assert Settings.load(data_source=DATABASE, base_kafka_config=KAFKA).name == "from-the-process"


def test_keywords_win_over_the_environment_and_that_over_the_file(file: Path) -> None:
    environment = {"WINDROW_NAME": "environment", "WINDROW_SHARDS": "5"}
    settings = Settings.load(file, environment, name="keyword", shards=None)
    assert (settings.name, settings.shards, settings.outbox_table) == ("keyword", 5, "billing.outbox")


def test_sections_are_merged_setting_by_setting(file: Path) -> None:
    environment = {"WINDROW_KAFKA_BOOTSTRAP_SERVERS": "other:9092", "WINDROW_LIMITS_PAGE_RECORDS": "9"}
    settings = Settings.load(file, environment, spark={"spark.executor.memory": "2g"})
    assert settings.base_kafka_config == {
        "bootstrap.servers": "other:9092",
        "enable.ssl.certificate.verification": "false",
    }
    assert (settings.limits.page_records, settings.limits.page_bytes) == (9, 2_000_000)
    assert settings.spark == {"master": "local[2]", "spark.executor.memory": "2g"}


def test_names_that_are_not_given_follow_the_relays_name() -> None:
    settings = load(name="shop")
    assert (settings.source, settings.leader_topic, settings.leader_group_id) == (
        "shop",
        "windrow.shop.leader",
        "windrow.shop",
    )


def test_the_group_names_a_relay_that_has_no_name() -> None:
    settings = load(leader_group_id="billing-api")
    assert (settings.name, settings.position_topic) == ("billing-api", "windrow.billing-api.positions")
    assert load().name == "windrow"


@pytest.mark.parametrize(
    ("name", "key"), [("name", "name"), ("outbox_table", "outboxTable"), ("leader_group_id", "leaderGroupID")]
)
def test_a_setting_has_one_name_in_each_place(name: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "relay.yaml"
    path.write_text(f"{key}: other\n")
    given = {"data_source": DATABASE, "base_kafka_config": KAFKA}
    from_file = Settings.load(path, {}, **given)
    from_environment = Settings.load(environment={f"WINDROW_{name.upper()}": "other"}, **given)
    assert from_file == from_environment == load(**{name: "other"})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250us", 0.00025),
        ("250µs", 0.00025),
        ("7000ns", 0.000007),
        ("500ms", 0.5),
        ("30s", 30),
        (".5s", 0.5),
        ("1.5m", 90),
        ("1m30s", 90),
        ("1h2m3s4ms", 3723.004),
        ("2 h", 7200),
        ("1d", 86400),
    ],
)
def test_durations_have_units(text: str, seconds: float) -> None:
    assert load(limits={"maxMarkBackoff": text}).limits.max_mark_backoff == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("value", "size"),
    [(512, 512), ("512", 512), ("16kB", 16_000), ("2M", 2_000_000), ("1 GB", 1_000_000_000)],
)
def test_sizes_may_have_units(value: Any, size: int) -> None:
    assert load(limits={"pageBytes": value}).limits.page_bytes == size


@pytest.mark.parametrize(
    ("overrides", "mistake"),
    [
        ({"shard": 3}, "shard is not a setting: did you mean shards?"),
        ({"outbox_tabel": "x"}, "outboxTabel is not a setting: did you mean outboxTable?"),
        (
            {"limits": {"pageRecord": 3}},
            "limits.pageRecord is not a setting: did you mean limits.pageRecords?",
        ),
        ({"shards": "many"}, "shards: give a whole number, not 'many'"),
        ({"shards": True}, "shards: give a whole number, not True"),
        ({"shards": 1.5}, "shards: give a whole number, not 1.5"),
        ({"shards": 0}, "shards: give 1 to 1024, not 0"),
        ({"shards": 1025}, "shards: give 1 to 1024, not 1025"),
        ({"epoch": 30}, "epoch: give a duration with its unit, for example 500ms, 30s or 5m, not 30"),
        ({"epoch": "soon"}, "epoch: give a duration with its unit, for example 500ms, 30s or 5m, not 'soon'"),
        ({"epoch": "999ms"}, "epoch: give 1s or more, not 0:00:00.999000"),
        (
            {"limits": {"pageBytes": "big"}},
            "limits.pageBytes: give a number of bytes, for example 16MB, not 'big'",
        ),
        ({"limits": {"pageBytes": 0}}, "limits.pageBytes: give 1 or more, not 0"),
        ({"limits": {"pageRecords": 0}}, "limits.pageRecords: give 1 to 100000, not 0"),
        ({"limits": {"markBackoff": "0s"}}, "limits.markBackoff: give more than 0, not 0:00:00"),
        ({"limits": {"ioErrorBackoff": "0s"}}, "limits.ioErrorBackoff: give more than 0, not 0:00:00"),
        ({"limits": {"pageRecords": None}}, "limits.pageRecords: give a value, or leave it out"),
        ({"epoch": "9999999999d"}, "epoch: give 365d at most, not '9999999999d'"),
        ({"epoch": "9" * 400 + "d"}, "epoch: give 365d at most"),
        ({"shards": "9" * 5000}, "shards: give a whole number"),
        ({"outbox_table": "a.b.c"}, "outboxTable: give a name as table or schema.table, not 'a.b.c'"),
        ({"outbox_table": "\ud800"}, "outboxTable: give text that has a UTF-8 form"),
        ({"name": "a/b"}, "name: give 1 to 180 letters, digits, dots, underscores and hyphens, not 'a/b'"),
        ({"data_source": " "}, "dataSource: give the database, for example postgresql://user@host:5432/database"),
        (
            {"base_kafka_config": {"bootstrap.servers": ""}},
            "baseKafkaConfig: bootstrap.servers is missing: name the brokers, for example host:9092",
        ),
        (
            {"spark": {"executor.memory": "2g"}},
            "spark: executor.memory is not a setting of Spark's: give master, remote, or spark.…",
        ),
        (
            {"base_kafka_config": {"client.id": "x"}},
            "baseKafkaConfig: bootstrap.servers is missing: name the brokers, for example host:9092",
        ),
    ],
)
def test_a_mistake_is_told_with_its_remedy(overrides: dict[str, Any], mistake: str) -> None:
    assert mistakes_of(**overrides) == (mistake,)


@pytest.mark.parametrize(
    ("overrides", "beginning"),
    [
        ({"weather": "fair"}, "weather is not a setting: known are baseKafkaConfig, capture, "),
        ({"data_source": 7}, "dataSource: give text"),
        ({"base_kafka_config": "kafka:9092"}, "baseKafkaConfig: give a section of names and values"),
        ({"spark": {1: "x"}}, "spark: give a section of names and values"),
        (
            {"spark": {"spark.a": None, "spark.b": []}},
            "spark: give a value (text, a number, true or false) to spark.a, ",
        ),
        ({"limits": 5}, "limits: give a section of names and values"),
        ({"limits": {1: 2}}, "limits: give a section of names and values"),
    ],
)
def test_a_wrong_shape_is_told_with_the_right_one(overrides: dict[str, Any], beginning: str) -> None:
    (mistake,) = mistakes_of(**overrides)
    assert mistake.startswith(beginning)


@pytest.mark.parametrize("section", ["base_kafka_config", "producer_kafka_config"])
@pytest.mark.parametrize("key", ["transactional.id", "enable.idempotence", "group.id", "delivery.report.only.error"])
def test_kafka_settings_that_exactly_once_depends_on_are_refused(section: str, key: str) -> None:
    (mistake,) = mistakes_of(**{section: {**KAFKA, key: "mine"}})
    assert mistake.startswith(f"{camel(section)}: {key} is set by windrow itself")


def test_kafka_settings_that_are_refused_are_told_in_the_same_order_every_time() -> None:
    ours = {"group.id": "a", "enable.idempotence": "b", "transactional.id": "c"}
    told = [mistake.split()[1] for mistake in mistakes_of(base_kafka_config=ours)]
    assert told == ["bootstrap.servers", "transactional.id", "enable.idempotence", "group.id"]


def test_an_unknown_limit_in_the_environment_is_a_mistake_and_other_unknown_variables_are_not() -> None:
    environment = {"WINDROW_LIMITS_PAGE_RECORD": "3", "WINDROW_CI_RUN": "1", "WINDROW_SERVERS_KAFKA": "1"}
    assert mistakes_of(environment=environment) == (
        "limits.pageRecord is not a setting: did you mean limits.pageRecords?",
    )


def test_missing_settings_are_told_with_their_variables() -> None:
    with pytest.raises(SettingsInvalid) as caught:
        Settings.load(environment={})
    database, kafka = caught.value.mistakes
    assert database.startswith("dataSource is missing: ")
    assert database.endswith("or set WINDROW_DATA_SOURCE")
    assert kafka.startswith("baseKafkaConfig is missing: ")
    assert kafka.endswith("or set WINDROW_KAFKA_BOOTSTRAP_SERVERS")


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "relay.yaml"
    path.write_text("shardz: 3\nepoch: soon\nlimits: {pageRecords: many, pageByte: 3}\n")
    with pytest.raises(SettingsInvalid) as caught:
        Settings.load(path, {"WINDROW_SHARDS": "x"})
    assert [mistake.split()[0].rstrip(":") for mistake in caught.value.mistakes] == [
        "shardz",
        "epoch",
        "limits.pageRecords",
        "limits.pageByte",
        "shards",
        "dataSource",
        "baseKafkaConfig",
    ]
    assert str(caught.value).splitlines() == list(caught.value.mistakes)


def test_every_value_out_of_bounds_is_told_at_once() -> None:
    assert len(mistakes_of(shards=0, epoch="1ms", name="a b", limits={"pageRecords": 0, "pageBytes": 0})) == 5


def test_mistakes_of_every_kind_are_told_at_once() -> None:
    assert len(mistakes_of(shard=3, shards=0)) == 2
    limits = {"pageRecord": 3, "pageRecords": 0, "markBackoff": "soon"}
    kafka = {"group.id": "mine"}
    assert len(mistakes_of(limits=limits, epoch=7, name="a b", base_kafka_config=kafka, outbox_table="%")) == 8


def test_settings_made_directly_are_checked_as_well() -> None:
    with pytest.raises(SettingsInvalid, match=r"limits\.pageRecords"):
        Limits(page_records=0)
    with pytest.raises(SettingsInvalid, match="shards"):
        Settings(DATABASE, KAFKA, shards=0)


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        (b"- a\n- b\n", "give a mapping of settings"),
        (b"just text", "give a mapping of settings"),
        (b"1: a\n", "give a mapping of settings"),
        (b"name: [", "is not YAML"),
        (b"\xff\xfe", "is not YAML"),
        (b"name: 2026-13-45", "is not YAML"),
        (b"[" * 5000, "is not YAML"),
        (b"name: a\nshards: [1, 2\n", "is not YAML: line 3, column 1: expected …"),
    ],
)
def test_a_file_that_is_no_settings_file_is_refused(tmp_path: Path, content: bytes, mistake: str) -> None:
    path = tmp_path / "relay.yaml"
    path.write_bytes(content)
    (found,) = mistakes_of(path)
    assert found.startswith(f"settings file {path}")
    assert mistake in found


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert mistakes_of(tmp_path / "no.yaml") == (f"settings file {tmp_path / 'no.yaml'}: No such file or directory",)


def test_an_empty_file_leaves_everything_to_the_others(tmp_path: Path) -> None:
    path = tmp_path / "relay.yaml"
    path.write_text("# nothing yet\n")
    assert Settings.load(path, {}, data_source=DATABASE, base_kafka_config=KAFKA) == load()


def test_settings_travel_to_executors_by_pickling(file: Path) -> None:
    settings = Settings.load(file, environment={})
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - our own


def test_settings_are_shown_by_their_names_in_a_file(file: Path) -> None:
    lines = str(Settings.load(file, environment={})).splitlines()
    assert "outboxTable: billing.outbox" in lines
    assert "baseKafkaConfig.bootstrap.servers: kafka:9092" in lines
    assert "limits.pageBytes: 2000000" in lines
    assert "dataSource: postgresql://relay@db/shop" in lines


# Whether a secret shows: the text must be the same whatever the secret is.

_PASSWORD = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


def _in_quotes(password: str) -> str:
    return "'" + password.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _escaped(password: str) -> str:
    return "".join(f"\\{each}" if each in "\\'" or each.isspace() else each for each in password)


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(lambda password: f"postgresql://u:{quote(password, safe='')}@db:5432/shop", id="URL"),
        pytest.param(
            lambda password: f"postgresql://db/shop?user=u&password={quote(password, safe='')}&a=b",
            id="query",
        ),
        pytest.param(lambda password: f"host=db password={_in_quotes(password)} user=u", id="quoted"),
        pytest.param(lambda password: f"host=db password = {_escaped(password)} user=u", id="escaped"),
        pytest.param(lambda password: f"host=db password={password} user=u", id="not escaped"),
        pytest.param(lambda password: f"host=db password='{password} user=u", id="quote left open"),
        pytest.param(lambda password: f"host=db PASSWORD={_escaped(password)}", id="capitals"),
        pytest.param(lambda password: f"host=db sslpassword={_in_quotes(password)}", id="key's password"),
    ],
)
@given(password=_PASSWORD)
@example(password="a&b")
def test_no_password_of_the_database_is_ever_shown(form: Any, password: str) -> None:
    settings, other = load(data_source=form(password)), load(data_source=form("another"))
    assert str(settings) == str(other)
    assert repr(settings) == repr(other)
    assert "***" in str(settings)
    assert "db" in without_secrets(form(password))


@given(password=_PASSWORD)
@example(password="a@b")
@example(password="a b/c?d:e@f#g")
@example(password="a token=b@c")
@pytest.mark.parametrize("user", ["u", "u@corp", "u v", ""])
def test_no_password_in_a_url_is_shown_that_should_have_been_encoded(user: str, password: str) -> None:
    shown = without_secrets(f"postgresql://{user}:{password}@db/shop")
    assert shown in {f"postgresql://{user}:***@db/shop", f"postgresql://{user}:***"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:hush@db/shop?password=hush@hush", "postgresql://u:***"),
        ("postgresql://u:hush@db/shop?password=hush", "postgresql://u:***@db/shop?password=***"),
        ("postgresql://db/shop?password=hush:hush@hush", "postgresql://db/shop?password=***"),
        ("postgresql://u@db:5432/shop", "postgresql://u@db:5432/shop"),
        ("http://u:hush@one:80,http://u:hush@two:80", "http://u:***@two:80"),
        ("sc://host:15002/;token=hush", "sc://host:15002/;token=***"),
        ("-Dpath=/a -DtrustStorePassword=hush", "-Dpath=/a -DtrustStorePassword=***"),
        ('{"password": "hush"}', '{"password":***'),
    ],
)
def test_more_is_hidden_rather_than_less(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.key.pem",
        "sasl.jaas.config",
        "sasl.oauthbearer.client.secret",
        "schema.registry.basic.auth.user.info",
        "sasl.oauthbearer.assertion.private.key.passphrase",
    ],
)
@given(password=_PASSWORD)
def test_no_secret_of_kafka_is_ever_shown(key: str, password: str) -> None:
    for section in ("base_kafka_config", "producer_kafka_config"):
        settings, other = (load(**{section: {**KAFKA, key: secret}}) for secret in (password, "another"))
        assert str(settings) == str(other)
        assert repr(settings) == repr(other)


def test_no_password_in_an_address_among_kafkas_or_sparks_settings_is_shown() -> None:
    assert "hush" not in str(load(spark={"spark.proxy": "http://u:hush@proxy"}))
    assert "hush" not in str(load(producer_kafka_config={"https.proxy": "http://u:hush@proxy"}))


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param({"data_source": {"host": "db", "password": "hush"}}, id="database as a section"),
        pytest.param({"base_kafka_config": "sasl.password=hush"}, id="Kafka as text"),
        pytest.param({"producer_kafka_config": ["sasl.password=hush"]}, id="Kafka as a list"),
        pytest.param({"base_kafka_config": {"sasl": {"password": "hush"}}}, id="a section too many"),
        pytest.param({"base_kafka_config": {**KAFKA, "sasl.password:hush": None}}, id="no space after the colon"),
        pytest.param({"spark": {"password:hush": "x"}}, id="Spark"),
        pytest.param({"shards": {"password": "hush"}}, id="another setting"),
        pytest.param({"data_source:postgresql://u:hush@db": ""}, id="unknown setting"),
    ],
)
def test_no_secret_of_the_wrong_shape_is_shown_in_the_error(overrides: dict[str, Any]) -> None:
    assert "hush" not in "".join(mistakes_of(**overrides))


@pytest.mark.parametrize(
    "content",
    [
        'dataSource: "postgresql://u:hush@db\n',
        "baseKafkaConfig: {sasl.password: *hush}\n",
        "baseKafkaConfig: {sasl.password: !hush}\n",
        "baseKafkaConfig:\n  a: b\n  sasl.password:hush\n",
    ],
)
def test_no_secret_in_a_broken_file_is_shown_in_the_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "relay.yaml"
    path.write_text(content)
    (mistake,) = mistakes_of(path)
    assert f"settings file {path} is not YAML: line " in mistake
    assert "hush" not in mistake
