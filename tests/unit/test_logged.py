"""Messages in the log: read as they were written, whole or not at all."""

import struct
from datetime import UTC, datetime

import pytest

from windrow import Message
from windrow.errors import SettingsInvalid
from windrow.logged import packed, prefix_of, unpacked
from windrow.outbox.statement import Statements
from windrow.record import Record

NUMBER = struct.pack(">q", 42)
FULL = Message(
    "orders",
    b"\0value",
    "kéy",
    [("a", b"1"), ("a", None), ("ü", b"")],
    partition=0,
    timestamp=datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC),
)


def test_a_message_is_read_as_it_was_written() -> None:
    assert unpacked(NUMBER + packed(FULL)) == Record(
        42, "orders", "kéy".encode(), b"\0value", ["a", "a", "ü"], [b"1", None, b""], 0, 1_767_323_045_678
    )
    assert unpacked(NUMBER + packed(Message("orders"))) == Record(42, "orders", None, None, [], [], None, None)


def test_whatever_is_cut_off_too_long_or_of_another_version_is_refused() -> None:
    content = NUMBER + packed(FULL)
    for wrong in [*(content[:size] for size in range(len(content))), content + b"\0", NUMBER + b"\2" + content[9:]]:
        with pytest.raises(ValueError, match="the message in the log"):
            unpacked(wrong)


def test_outboxes_are_told_apart() -> None:
    assert prefix_of("outbox") == 'windrow "outbox"'
    assert prefix_of("billing.outbox") == 'windrow "billing"."outbox"'


def test_the_statement_emits_and_returns_the_ids() -> None:
    text, parameters = Statements("billing.outbox", mode="log").statement([FULL, Message("orders")])
    assert text.count("%s::bytea") == 2
    assert 'pg_logical_emit_message(true, \'windrow "billing"."outbox"\',' in text
    assert parameters == (packed(FULL), packed(Message("orders")))
    numbered, _ = Statements(mode="log").statement([FULL, FULL], style="$1")
    assert "$1::bytea" in numbered
    assert "$2::bytea" in numbered


def test_only_postgres_has_such_a_log() -> None:
    with pytest.raises(SettingsInvalid, match="PostgreSQL"):
        Statements(mode="log").statement(FULL, "mysql")
    with pytest.raises(SettingsInvalid, match="mode"):
        Statements(mode="both")  # type: ignore[arg-type]
