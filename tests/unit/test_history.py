"""Journals: what a client did is there when the client is not."""

from pathlib import Path

from windrow.lab.history import Journal, Operation, Sent, read_journal

MESSAGES = (Sent("a", "key", 1), Sent("b", "key", 2))


def test_an_operation_without_an_end_is_unknown(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "writer.jsonl")
    journal.end(journal.begin(MESSAGES, 1.0), "ok")
    journal.begin((), 2.0)
    first, second = read_journal(tmp_path / "writer.jsonl")
    assert (first.client, first.number, first.messages, first.outcome, first.began) == (
        "writer",
        1,
        MESSAGES,
        "ok",
        1.0,
    )
    assert second == Operation("writer", 2, (), began=2.0)


def test_a_journal_goes_on_after_its_client_was_killed_within_a_line(tmp_path: Path) -> None:
    path = tmp_path / "writer.jsonl"
    number = Journal(path).begin(MESSAGES, 1.0)
    with path.open("ab") as torn:
        torn.write(b'[2, 1.5, [["c", "k')
    again = Journal(path)
    again.end(number, "failed")
    again.end(again.begin((), 2.0), "ok")
    assert [(each.number, each.outcome) for each in read_journal(path)] == [(1, "failed"), (2, "ok")]
