"""Who may lead by lease: nobody beyond the time-out after the last renewal, and no term twice."""

from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from windrow.election.mandate import Term
from windrow.election.tenure import Tenure

TIMEOUT = 5.0


def term(number: int) -> Term:
    return Term(uuid4(), b"nobody", number)


def test_holder_leads_until_the_timeout_after_it_last_asked_with_success() -> None:
    first = term(1)
    tenure = Tenure().taken(first, 10.0)
    assert tenure.at(14.9, TIMEOUT) == first
    assert tenure.at(15.0, TIMEOUT) is None
    assert tenure.renewed(first, 12.0, 12.1, TIMEOUT).at(16.9, TIMEOUT) == first


def test_answer_that_came_too_late_gives_no_time_to_lead() -> None:
    asked_at, answered_at = 10.0, 16.0
    assert Tenure().taken(term(1), asked_at).at(answered_at, TIMEOUT) is None


def test_renewal_of_a_term_that_was_given_up_meanwhile_does_not_bring_it_back() -> None:
    first, second = term(1), term(2)
    given_up = Tenure().taken(first, 0.0).ended(first)
    assert given_up.renewed(first, 1.0, 1.1, TIMEOUT).at(1.2, TIMEOUT) is None
    assert given_up.taken(second, 1.0).renewed(first, 2.0, 2.1, TIMEOUT) == Tenure(second, 1.0)


def test_renewal_that_is_answered_after_the_term_has_run_out_does_not_bring_it_back() -> None:
    first = term(1)
    assert Tenure().taken(first, 0.0).renewed(first, 4.9, 5.1, TIMEOUT).at(5.2, TIMEOUT) is None


def test_end_of_a_term_does_not_end_the_next() -> None:
    first, second = term(1), term(2)
    assert Tenure().taken(first, 0.0).taken(second, 1.0).ended(first).at(2.0, TIMEOUT) == second


steps = st.lists(st.tuples(st.sampled_from(["asked", "refused", "resigned", "looked"]), st.floats(0.1, 7.0)))


@given(steps, st.floats(0.0, 7.0))
def test_whatever_happens(history: list[tuple[str, float]], answer_takes: float) -> None:
    """Leads only within the time-out after it asked; a term that was seen to be over never comes back."""
    tenure, now, number, granted_at = Tenure(), 0.0, 0, -TIMEOUT
    ended = set[UUID]()
    for step, later in history:
        now += later
        current = tenure.at(now, TIMEOUT)
        if tenure.term and current is None:
            ended.add(tenure.term.id)
        match step:
            case "asked":
                granted_at = now
                number += current is None
                now += answer_takes
                if tenure.at(now, TIMEOUT) is None and tenure.term:
                    ended.add(tenure.term.id)
                if current:
                    tenure = tenure.renewed(current, granted_at, now, TIMEOUT)
                else:
                    tenure = tenure.taken(term(number), granted_at)
            case "refused" | "resigned" if current:
                tenure = tenure.ended(current)
                ended.add(current.id)
        leads = tenure.at(now, TIMEOUT)
        assert leads is None or now - granted_at < TIMEOUT
        assert leads is None or leads.id not in ended
