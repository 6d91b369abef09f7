"""The log: one line an event, its fields, and what is left out."""

import io
import json
import logging
import re

from windrow.observe.logs import HumanFormatter, JsonFormatter, Repeats, RepeatsFilter, about


def logged(formatter: logging.Formatter, *lines: tuple[int, str, tuple[object, ...]], term: str | None = None) -> str:
    """What a logger of this form writes."""
    stream, log = io.StringIO(), logging.Logger("windrow.test")  # noqa: LOG001 - apart from all others
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    handler.addFilter(RepeatsFilter())
    log.addHandler(handler)
    for level, message, arguments in lines:
        log.log(level, message, *arguments, extra={"term": term} if term else None)
    return stream.getvalue()


def test_what_a_line_is_about() -> None:
    assert about("relay shop, shard 3: broke off: why") == ({"relay": "shop", "shard": 3}, "broke off: why")
    assert about("relay shop: LeaderAcquired") == ({"relay": "shop"}, "LeaderAcquired")
    tracker = "tracker of windrow.queue, markers partition 2: gone"
    assert about(tracker) == ({"tracker": "windrow.queue", "partition": 2}, "gone")
    assert about("group billing: x") == ({"group": "billing"}, "x")
    assert about("something else: x") == ({}, "something else: x")


def test_json_has_the_fields_on_one_line() -> None:
    text = logged(JsonFormatter(), (logging.WARNING, "relay %s, shard %d: two\nlines", ("shop", 3)), term="t1")
    line = json.loads(text)
    assert text.count("\n") == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "warning",
        "logger": "windrow.test",
        "relay": "shop",
        "shard": 3,
        "term": "t1",
        "message": "two\nlines",
    }


def test_repeats_are_left_out_and_counted() -> None:
    repeats = Repeats(at_once=2, every=60)
    assert [repeats.admit("a", now) for now in (0, 1, 2, 3, 59)] == [0, 0, None, None, None]
    assert repeats.admit("b", 3) == 0
    assert [repeats.admit("a", now) for now in (60, 61, 62)] == [3, 0, None]


def test_repeats_are_told_by_what_they_are_about_and_errors_never_left_out() -> None:
    same = [(logging.WARNING, "relay %s, shard %d: %s", ("shop", 1, f"{number}")) for number in range(20)]
    other = [(logging.WARNING, "relay %s, shard %d: %s", ("shop", 2, "x"))]
    errors = [(logging.ERROR, "relay %s: ended", ("shop",))] * 20
    lines = logged(HumanFormatter(), *same, *other, *errors).splitlines()
    assert [sum(what in line for line in lines) for what in ("shard 1", "shard 2", "ended")] == [5, 1, 20]
