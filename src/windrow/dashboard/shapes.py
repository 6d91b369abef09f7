"""What the page is told, as plain values for JSON. Keys and contents of messages are in it only where that is asked."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from windrow.dashboard.look import Latency, Look
from windrow.publish.dead_letter import DeadLetter, DeadLetterContent
from windrow.queue.dead_letter import QueueLetter
from windrow.queue.overview import QueueFigures
from windrow.queued import OURS

_POSITION_AT_MOST: Final = 120
_PAYLOAD_AT_MOST: Final = 20_000


def relay(look: Look, latency: Latency | None) -> dict[str, Any]:
    """A relay as it was seen."""
    status = look.status
    return {
        "name": status.name,
        "looked_at": look.at,
        "leader": str(status.leader_id) if status.leader_id else None,
        "candidates": [each._asdict() for each in look.candidates],
        "published": status.published,
        "backlog": status.backlog,
        "oldest_age": status.oldest_age,
        "in_flight": status.in_flight_records,
        "dead_letters": look.dead_letters,
        "latency": latency._asdict() if latency else None,
        "log": status.log._asdict() if status.log else None,
        "shards": [{**asdict(each), "position": _short(each.position, _POSITION_AT_MOST)} for each in status.shards],
    }


def queues(figures: Mapping[str, QueueFigures]) -> list[dict[str, Any]]:
    return [asdict(each) for each in figures.values()]


def letters(found: Iterable[DeadLetter], *, whole: bool) -> list[dict[str, Any]]:
    """Dead letters of a relay; their keys only where all may be shown."""
    return [
        {
            "id": each.id,
            "topic": each.topic,
            **({"key": plain(each.key)} if whole else {}),
            "size": each.size,
            "reason": each.reason,
            "created": _moment(each.create_time),
            "refused": _moment(each.refused_at),
            "behind": each.behind,
            "released": each.release is not None,
        }
        for each in found
    ]


def letter(found: DeadLetterContent) -> dict[str, Any]:
    """One dead letter, whole."""
    headers = zip(found.header_keys, found.header_values, strict=True)
    return {
        "id": found.id,
        "topic": found.topic,
        "key": plain(found.key),
        "value": plain(found.value),
        "headers": [[name, plain(value)] for name, value in headers],
        "reason": found.reason,
        "created": _moment(found.create_time),
        "refused": _moment(found.refused_at),
        "behind": found.behind,
        "released": found.release is not None,
    }


def queue_letters(found: Iterable[QueueLetter]) -> list[dict[str, Any]]:
    """Dead letters of queues, whole."""
    return [
        {
            "id": each.id,
            "queue": each.queue,
            "reason": each.reason,
            "attempts": each.attempts,
            "died": each.died_at / 1000,
            "payload": plain(each.payload),
            "headers": [[name, plain(value)] for name, value in each.headers if name not in OURS],
        }
        for each in found
    ]


def plain(content: bytes | None) -> str | None:
    """Bytes as text, or in hexadecimal where they are none; the beginning, where they are many."""
    if content is None:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = f"0x{content[:_PAYLOAD_AT_MOST].hex()}"
    return _short(text, _PAYLOAD_AT_MOST)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _moment(time: datetime) -> float:
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
