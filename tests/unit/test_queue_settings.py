"""Settings of queues, from where they come."""

from datetime import timedelta
from pathlib import Path

import pytest

from windrow.errors import SettingsInvalid
from windrow.queue.settings import QueueSettings

KAFKA = {"WINDROW_KAFKA_BOOTSTRAP_SERVERS": "host:9092"}


def test_topics_are_named_after_the_messages() -> None:
    settings = QueueSettings.load(environment={**KAFKA, "WINDROW_MESSAGE_TOPIC": "jobs"})
    assert (settings.marker_topic, settings.control_topic) == ("jobs.markers", "jobs.control")
    assert (settings.leader_topic, settings.tracker_group) == ("jobs.tracker-leader", "windrow.jobs.tracker")


def test_trackers_own_come_from_the_file_and_over_it_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text("redeliveryTracker: {numOffsetsPerCommit: 5, carryAfter: 2m}\nredeliveryTimeout: 10s\n")
    settings = QueueSettings.load(file, {**KAFKA, "WINDROW_REDELIVERY_TRACKER_CARRY_AFTER": "3m"})
    assert settings.redelivery_tracker.num_offsets_per_commit == 5
    assert settings.redelivery_tracker.carry_after == timedelta(minutes=3)
    assert settings.redelivery_timeout == timedelta(seconds=10)


def test_all_mistakes_are_told_at_once() -> None:
    given = {"WINDROW_MAX_ATTEMPTS": "0", "WINDROW_REDELIVERY_TRACKER_EPOCH": "1ms", "WINDROW_KAFKA_GROUP_ID": "mine"}
    with pytest.raises(SettingsInvalid) as raised:
        QueueSettings.load(environment=given)
    told = "\n".join(raised.value.mistakes)
    assert all(name in told for name in ("maxAttempts", "redeliveryTracker.epoch", "group.id", "bootstrap.servers"))
