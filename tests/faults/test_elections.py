"""Candidates lead again after their broker was silent, also those whose client has lost it."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

import pytest

from fix_pipeline import wait_for
from windrow import embedded
from windrow.election.neli import Neli
from windrow.kafka.clients import create_topic

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

MANY = 16
SILENT_FOR = 9.0


@dataclass(frozen=True)
class Limits:
    heartbeat_timeout: timedelta = timedelta(seconds=3)
    session_timeout: timedelta = timedelta(seconds=6)


@dataclass(frozen=True)
class Candidacy:
    base_kafka_config: dict[str, str]
    name: str = field(default_factory=lambda: f"test_{uuid4().hex[:12]}")
    limits: Limits = Limits()

    @property
    def leader_topic(self) -> str:
        return f"{self.name}.leader"

    @property
    def leader_group_id(self) -> str:
        return self.name


@pytest.fixture
def candidates(kafka: embedded.Kafka) -> Iterator[list[Neli]]:
    with ExitStack() as stack:
        candidacies = [Candidacy(dict(kafka.client_config)) for _ in range(MANY)]
        for each in candidacies:
            create_topic(each, each.leader_topic, 1)
        yield [stack.enter_context(Neli(each)) for each in candidacies]


def test_all_lead_again_after_the_broker_was_silent(candidates: list[Neli], kafka: embedded.Kafka) -> None:
    wait_for(lambda: all(each.term for each in candidates), "leaders")
    before = {each.term.id for each in candidates if each.term}
    kafka.pause()
    try:
        time.sleep(SILENT_FOR)
        assert not any(each.term for each in candidates), "those who hear nothing step down"
    finally:
        kafka.resume()
    wait_for(lambda: all(each.term for each in candidates), "leaders again")
    assert not before & {each.term.id for each in candidates if each.term}, "a term is never used again"
