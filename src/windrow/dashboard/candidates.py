"""Who stands for election: the members of the relay's group, and which of them holds the leader topic's partition."""

from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from windrow.errors import Interrupted
from windrow.kafka.clients import answer, client_config, error_of
from windrow.settings import Settings

_ANSWER_WITHIN: Final = 10.0


class Candidate(NamedTuple):
    """A relay that leads or stands by."""

    id: str
    host: str
    leads: bool


def candidates(settings: Settings) -> list[Candidate]:
    """Those in the group, the leader first. By lease there is no group: then nobody knows who stands by."""
    if settings.election == "lease":
        return []
    group = settings.leader_group_id
    admin = AdminClient(client_config(settings))  # kept: it takes its answers along when it goes
    try:
        found = answer(lambda: admin.describe_consumer_groups([group], request_timeout=_ANSWER_WITHIN)[group]).members
    except KafkaException as exception:
        if error_of(exception).code() == KafkaError.GROUP_ID_NOT_FOUND:
            return []
        raise Interrupted(f"group {group} could not be looked at: {error_of(exception).str()}") from exception
    seen = [Candidate(each.member_id, each.host.lstrip("/"), _leads(each, settings.leader_topic)) for each in found]
    return sorted(seen, key=lambda each: (not each.leads, each.host, each.id))


def _leads(member: object, topic: str) -> bool:
    assignment = getattr(member, "assignment", None)
    return any(each.topic == topic for each in (assignment.topic_partitions if assignment else ()))
