"""Who may lead: at most one term at a time, none without own heartbeats, no id ever used twice."""

from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from windrow.election.mandate import Mandate, Term

TIMEOUT = 5.0


def test_owner_leads_and_keeps_its_term_through_a_new_generation() -> None:
    first, second = uuid4(), uuid4()
    mandate = Mandate().assigned(b"generation 1", 0.0, first)
    assert mandate.term == Term(first, b"generation 1")
    assert mandate.renewed(b"generation 2").term == Term(first, b"generation 2")
    assert mandate.assigned(b"generation 2", 1.0, second).term == Term(first, b"generation 2")


def test_leader_that_does_not_hear_itself_steps_down_and_comes_back_with_another_term() -> None:
    first, second = uuid4(), uuid4()
    mandate = Mandate().assigned(b"m", 0.0, first)
    assert mandate.checked(TIMEOUT, TIMEOUT).term is not None
    silent = mandate.checked(TIMEOUT + 0.1, TIMEOUT)
    assert silent.term is None
    assert silent.heard(b"m", 9.0, second).term == Term(second, b"m")


def test_heartbeat_of_a_partition_that_was_taken_away_gives_no_mandate() -> None:
    mandate = Mandate().assigned(b"m", 0.0, uuid4()).revoked()
    assert mandate.heard(b"m", 1.0, uuid4()).term is None


def test_fenced_leader_waits_for_its_next_heartbeat() -> None:
    mandate = Mandate().assigned(b"m", 0.0, uuid4()).resigned()
    assert mandate.term is None
    assert mandate.renewed(b"m2").term is None
    assert mandate.heard(b"m2", 1.0, uuid4()).term is not None


steps = st.lists(
    st.tuples(st.sampled_from(["assigned", "revoked", "heard", "renewed", "checked", "resigned"]), st.floats(0.1, 4.0))
)


@given(steps)
def test_whatever_happens(history: list[tuple[str, float]]) -> None:
    """Leads only as owner and within the time-out; a term that ended never comes back."""
    mandate, now, ended = Mandate(), 0.0, set[UUID]()
    for number, (step, later) in enumerate(history):
        now += later
        before, membership = mandate, b"%d" % number
        match step:
            case "assigned":
                mandate = mandate.assigned(membership, now, uuid4())
            case "heard":
                mandate = mandate.heard(membership, now, uuid4())
            case "renewed":
                mandate = mandate.renewed(membership)
            case "checked":
                mandate = mandate.checked(now, TIMEOUT)
                assert mandate.term is None or now - mandate.heard_at <= TIMEOUT
            case "revoked":
                mandate = mandate.revoked()
            case "resigned":
                mandate = mandate.resigned()
        if before.term and (mandate.term is None or mandate.term.id != before.term.id):
            ended.add(before.term.id)
        assert mandate.owner or mandate.term is None
        assert mandate.term is None or mandate.term.id not in ended
