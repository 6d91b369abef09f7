"""What becomes of a due message."""

from windrow.queue.copies import Payload, copy_of
from windrow.queue.redelivery import Due

DUE = Due("q", (b"c" * 16, 1, 0), 7, 3, None, 100, over=False, unstarted=False, rejected=None)
PAYLOAD = Payload(b"q", b"value", [("color", b"red"), ("color", None)], 1000)


def headers(due: Due = DUE, *more: tuple[str, bytes], now: int = 2000, refusal: str | None = None) -> dict[str, object]:
    payload = PAYLOAD._replace(headers=[*PAYLOAD.headers, *more])
    copy = copy_of(due, payload, now, 3, refusal)
    assert (copy.key, copy.value, copy.headers[:2]) == (b"q", b"value", list(PAYLOAD.headers))
    assert copy.dead == any(name == "x-dead-letter-reason" for name, _ in copy.headers)
    return dict(copy.headers[2:])


def test_copy_counts_the_attempt_and_keeps_when_it_was_sent() -> None:
    assert headers() == {"x-attempt": "2", "x-sent-ms": "1000"}
    assert headers(DUE, ("x-attempt", b"2"), ("x-sent-ms", b"400")) == {"x-attempt": "3", "x-sent-ms": "400"}


def test_attempt_of_what_nobody_began_does_not_count() -> None:
    assert headers(DUE._replace(unstarted=True), ("x-attempt", b"3"))["x-attempt"] == "3"


def test_last_attempt_and_time_to_live_and_rejection_and_refusal_make_a_dead_letter() -> None:
    assert headers(DUE, ("x-attempt", b"3"))["x-dead-letter-reason"] == "not acknowledged in 3 attempts"
    assert headers(DUE, ("x-max-attempts", b"1"))["x-dead-letter-reason"] == "not acknowledged in 1 attempts"
    assert "x-dead-letter-reason" not in headers(DUE, ("x-attempt", b"3"), ("x-max-attempts", b"4"))
    told = {("x-ttl-ms", b"999"): "x-dead-letter-reason", ("x-ttl-ms", b"1000"): None}
    for header, reason in told.items():
        assert (reason in headers(DUE, header)) == bool(reason)
    assert headers(DUE._replace(rejected=""))["x-dead-letter-reason"] == "rejected"
    assert headers(refusal="too large") == {
        "x-attempt": "1",
        "x-sent-ms": "1000",
        "x-dead-letter-reason": "too large",
        "x-dead-letter-time": "2000",
    }


def test_header_that_is_no_number_counts_as_missing() -> None:
    assert headers(DUE, ("x-attempt", b"many"), ("x-ttl-ms", b"-5"))["x-attempt"] == "2"
