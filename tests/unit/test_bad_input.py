"""Input that nobody meant: it is refused in words of ours, or taken; nothing else happens."""

import contextlib
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from windrow.errors import SettingsInvalid
from windrow.inbox.settings import ConsumerSettings
from windrow.queue.marker import MalformedMarker, decode, encode
from windrow.queue.marker_pb2 import Carried, Marker, Span
from windrow.queue.redelivery import State
from windrow.queue.settings import QueueSettings
from windrow.settings import Settings

KEYS = st.sampled_from(
    ["name", "dataSource", "outboxTable", "shards", "epoch", "limits", "purge", "columns", "capture"]
)
KAFKA = st.sampled_from(["baseKafkaConfig", "producerKafkaConfig", "spark", "delivery", "queue", "group", "topics"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates()
ANYTHING = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
SOUND = {"name": "shop", "dataSource": "postgresql://db/shop", "baseKafkaConfig": {"bootstrap.servers": "kafka"}}
VALID = encode(
    Marker(
        type=Marker.CARRY,
        queue="q",
        consumer=b"c" * 16,
        spans=[Span(lease=1, partition=1, offset=7)],
        redeliver_after_ms=50,
        carried=Carried(key=b"q", value=b"v"),
    )
)


@given(given=st.dictionaries(KEYS | KAFKA | st.text(), ANYTHING, max_size=6))
def test_settings_are_taken_or_refused_with_a_remedy(given: dict[str, Any], tmp_path_factory: Any) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    file.write_text(yaml.safe_dump({**SOUND, **given}), encoding="utf-8")
    for kind in (Settings, QueueSettings, ConsumerSettings):
        with contextlib.suppress(SettingsInvalid):
            str(kind.load(file, environment={}))


@given(name=st.text(min_size=1), value=st.text(st.characters(exclude_characters="\0")))
def test_environment_is_taken_or_refused_with_a_remedy(name: str, value: str) -> None:
    for kind in (Settings, QueueSettings, ConsumerSettings):
        with contextlib.suppress(SettingsInvalid):
            str(kind.load(environment={f"WINDROW_{name.upper()}": value}))


def applied(content: bytes) -> None:
    """As the tracker does with a record of the markers topic."""
    state = State(50, 90)
    try:
        state.apply(decode(content), 0, 0)
    except MalformedMarker:
        return
    state.floor(1)
    state.next_at()
    state.settle()
    state.due(2**62)


@given(content=st.binary(max_size=200))
def test_bytes_that_are_no_marker_are_malformed_or_harmless(content: bytes) -> None:
    applied(content)


@given(place=st.integers(0, len(VALID) - 1), byte=st.integers(0, 255), end=st.integers(0, len(VALID)))
def test_damaged_marker_is_malformed_or_harmless(place: int, byte: int, end: int) -> None:
    applied(VALID[:place] + bytes([byte]) + VALID[place + 1 :])
    applied(VALID[:end])
