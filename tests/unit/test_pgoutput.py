"""pgoutput's messages, read from bytes as the server sends them."""

import struct

import pytest

from windrow.capture.pgoutput import Begin, Commit, Emitted, Relation, RowReader, array, said
from windrow.record import Record

FIELDS = ("id", "topic", "key", "value", "header_keys", "header_values", "partition", "timestamp")


def an_array(*elements: bytes | None, kind: int = 25) -> bytes:
    if not elements:
        return struct.pack(">iii", 0, 0, kind)
    return struct.pack(">iiiii", 1, None in elements, kind, len(elements), 1) + b"".join(map(sized, elements))


def sized(content: bytes | None) -> bytes:
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content


def a_row(*fields: bytes | None, relation: int = 7) -> bytes:
    parts = [b"n" if each is None else b"b" + sized(each) for each in fields]
    return b"I" + struct.pack(">Ich", relation, b"N", len(parts)) + b"".join(parts)


def a_relation(*columns: str, number: int = 7) -> bytes:
    parts = [struct.pack(">b", 0) + each.encode() + b"\0" + struct.pack(">Ii", 25, -1) for each in columns]
    return b"R" + struct.pack(">I", number) + b"public\0outbox\0d" + struct.pack(">h", len(parts)) + b"".join(parts)


FULL = (
    struct.pack(">q", 41),
    b"orders",
    b"key",
    b"value",
    an_array(b"a", "ü".encode()),
    an_array(b"1", None, kind=17),
    struct.pack(">i", 3),
    struct.pack(">q", 1_500_000),
)


def test_transactions_are_told_by_where_they_commit_and_where_the_log_goes_on() -> None:
    assert said(b"B" + struct.pack(">qqi", 1234, 0, 9)) == Begin(1234, 946_684_800_000_000)
    assert said(b"C" + struct.pack(">bqqq", 0, 1234, 1300, 0)) == Commit(1300)


def test_a_relation_names_its_columns() -> None:
    assert said(a_relation("id", "tx", "topic")) == Relation(7, ["id", "tx", "topic"])


def test_an_emitted_message_is_read_whole() -> None:
    message = b"M" + struct.pack(">bq", 1, 55) + b"windrow\0" + sized(b"con\0tent")
    assert said(message) == Emitted(True, 55, "windrow", b"con\0tent")


@pytest.mark.parametrize("message", [b"Y123", b"O", b"T\0", b"U", b"D"])
def test_what_we_did_not_ask_for_says_nothing(message: bytes) -> None:
    assert said(message) is None


@pytest.mark.parametrize(
    "message", [b"", b"Z", b"B\0", b"C\0\0", b"M\0", b"R\0\0\0\1public", b"M" + b"\1" * 9 + b"p\0\0\0\0\5abc"]
)
def test_what_is_unknown_or_cut_off_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"pgoutput|subsection"):
        said(message)


def test_a_row_becomes_a_record() -> None:
    assert RowReader(Relation(7, FIELDS)).record(a_row(*FULL)) == Record(
        41, "orders", b"key", b"value", ["a", "ü"], [b"1", None], 3, 946_684_801_500
    )


def test_a_row_is_read_by_its_columns_names_whatever_else_there_is() -> None:
    columns = ("tx", *reversed(FIELDS), "colour")
    record = RowReader(Relation(7, columns)).record(a_row(b"12345678", *reversed(FULL), None))
    assert record == RowReader(Relation(7, FIELDS)).record(a_row(*FULL))


def test_nulls_stay_nulls() -> None:
    row = a_row(struct.pack(">q", 1), b"orders", None, None, an_array(), an_array(kind=17), None, None)
    assert RowReader(Relation(7, FIELDS)).record(row) == Record(1, "orders", None, None, [], [], None, None)


def test_a_time_that_never_comes_is_none() -> None:
    for never in (2**63 - 1, -(2**63)):
        row = a_row(*FULL[:-1], struct.pack(">q", never))
        assert RowReader(Relation(7, FIELDS)).record(row).timestamp is None


def test_a_row_that_is_cut_off_too_long_or_not_binary_is_refused() -> None:
    reader, row = RowReader(Relation(7, FIELDS)), a_row(*FULL)
    for wrong in [*(row[:size] for size in range(8, len(row))), row + b"n", row.replace(b"b\0", b"t\0")]:
        with pytest.raises(ValueError, match="pgoutput sent"):
            reader.record(wrong)


def test_a_table_without_a_message_s_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks key, value"):
        RowReader(Relation(7, [each for each in FIELDS if each not in {"key", "value"}]))


def test_an_array_of_two_dimensions_gives_its_elements() -> None:
    content = struct.pack(">iiiiiii", 2, 0, 25, 2, 1, 1, 1) + sized(b"a") + sized(b"b")
    assert array(content) == [b"a", b"b"]
