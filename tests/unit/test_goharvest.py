"""goharvest's settings files are read as they are; a key that means nothing any more is answered with a warning."""

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from windrow.errors import SettingsInvalid
from windrow.goharvest import GONE
from windrow.settings import Settings

CONFIG = """
baseKafkaConfig:
  bootstrap.servers: localhost:9094
  security.protocol: sasl_ssl
  ssl.ca.location: ca-cert.pem
  sasl.mechanism: SCRAM-SHA-512
  sasl.username: alice
  sasl.password: alice-secret
  go.logs.channel.enable: true
producerKafkaConfig:
  compression.type: lz4
  go.batch.producer: true
leaderTopic: billing-api
leaderGroupID: billing-api
dataSource: host=localhost port=5432 user=postgres password=hush dbname=postgres sslmode=disable
outboxTable: outbox
limits:
  ioErrorBackoff: 100ms
  pollDuration: 1ms
  minPollInterval: 1s
  maxPollInterval: 2500ms
  heartbeatTimeout: 1m30s
  drainInterval: 2.5s
  queueTimeout: 30s
  markBackoff: 10000000
  sendConcurrency: 4
  sendBuffer: 10
  markQueryRecords: 100
  maxInFlightRecords: 1000
  minMetricsInterval: 5s
"""
LIMITS_THAT_ARE_GONE = {key for key in GONE if key.startswith("limits.")}


def load(path: Path, content: str, **more: Any) -> Settings:
    path.write_text(content)
    return Settings.load(path, {}, **more)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "goharvest.yaml"


def test_a_file_of_goharvests_means_the_same_here(path: Path) -> None:
    settings = load(path, CONFIG)
    assert (settings.leader_topic, settings.leader_group_id, settings.outbox_table) == (
        "billing-api",
        "billing-api",
        "outbox",
    )
    assert settings.base_kafka_config["sasl.mechanism"] == "SCRAM-SHA-512"
    assert settings.producer_kafka_config == {"compression.type": "lz4"}
    assert settings.limits.io_error_backoff == timedelta(milliseconds=100)
    assert settings.limits.heartbeat_timeout == timedelta(seconds=90)
    assert settings.limits.mark_backoff == timedelta(milliseconds=10)
    assert "hush" not in str(settings)
    assert "alice-secret" not in str(settings)


def test_each_key_without_effect_is_told_once_with_what_does_its_work(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load(path, CONFIG, limits={"sendBuffer": 20})
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert {line.partition(" has no effect: ")[0] for line in told} == {
        *LIMITS_THAT_ARE_GONE,
        "baseKafkaConfig.go.logs.channel.enable",
        "producerKafkaConfig.go.batch.producer",
    }
    assert len(told) == len(LIMITS_THAT_ARE_GONE) + 2
    assert all(line.partition(" has no effect: ")[2] for line in told)


def test_limits_without_effect_are_taken_from_the_environment_and_keywords_as_well(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text(CONFIG.partition("limits:")[0])
    Settings.load(path, {"WINDROW_LIMITS_SEND_CONCURRENCY": "8"}, limits={"queueTimeout": "30s"})
    assert "limits.sendConcurrency has no effect" in caplog.text
    assert "limits.queueTimeout has no effect" in caplog.text


def test_a_file_of_reaper_has_the_settings_one_level_deeper(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inner = "".join(f"  {line}\n" for line in CONFIG.splitlines())
    settings = load(path, f"harvest:\n{inner}logging:\n  level: Debug\n", name="shop")
    path.write_text(CONFIG)
    assert settings == Settings.load(path, {}, name="shop")
    assert "logging has no effect: " in caplog.text


def test_kafkas_own_topic_is_no_leader_topic(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = load(path, CONFIG.replace("leaderTopic: billing-api", "leaderTopic: __consumer_offsets"))
    assert settings.leader_topic == "windrow.billing-api.leader"
    assert "leaderTopic has no effect: " in caplog.text


def test_a_bare_number_is_nanoseconds_in_goharvests_limits_alone(path: Path) -> None:
    with pytest.raises(SettingsInvalid, match=r"epoch: give a duration with its unit"):
        load(path, f"{CONFIG}epoch: 300\n")
    assert load(path, CONFIG.replace("100ms", "250000000")).limits.io_error_backoff == timedelta(milliseconds=250)


def test_mistakes_are_told_all_at_once_beside_keys_without_effect(path: Path) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        load(path, CONFIG.replace("1m30s", "soon").replace("outboxTable", "outboxTabel"))
    assert [mistake.split()[0] for mistake in caught.value.mistakes] == ["outboxTabel", "limits.heartbeatTimeout:"]
