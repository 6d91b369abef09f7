"""Journals: what a client did is there when the client is not."""

from pathlib import Path

from windrow.lab.history import Journal, Operation, Sent, read_journal, resolved

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


def test_what_a_client_never_learnt_the_database_tells() -> None:
    outcomes = (("ok", 1), ("failed", 2), ("unknown", 3), ("unknown", 4))
    operations = [Operation("writer", number, MESSAGES, outcome) for outcome, number in outcomes]  # type: ignore[arg-type]
    told = resolved(operations, {("writer", 1), ("writer", 3), ("other", 4)})
    assert [each.outcome for each in told] == ["ok", "failed", "ok", "failed"]


def test_an_operation_may_become_unknown_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "worker.jsonl")
    number = journal.begin(MESSAGES, 1.0)
    journal.end(number, "failed", at=1.0)
    assert [(each.outcome, each.ended) for each in read_journal(tmp_path / "worker.jsonl")] == [("failed", 1.0)]
    journal.end(number, "unknown")
    assert [each.outcome for each in read_journal(tmp_path / "worker.jsonl")] == ["unknown"]
    journal.end(number, "ok", at=3.0)
    assert [(each.outcome, each.ended) for each in read_journal(tmp_path / "worker.jsonl")] == [("ok", 3.0)]


def test_a_journal_goes_on_after_its_client_was_killed_within_a_line(tmp_path: Path) -> None:
    path = tmp_path / "writer.jsonl"
    number = Journal(path).begin(MESSAGES, 1.0)
    with path.open("ab") as torn:
        torn.write(b'[2, 1.5, [["c", "k')
    again = Journal(path)
    again.end(number, "failed")
    again.end(again.begin((), 2.0), "ok")
    assert [(each.number, each.outcome) for each in read_journal(path)] == [(1, "failed"), (2, "ok")]
