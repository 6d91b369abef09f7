"""Headers as JSON: what was encoded is decoded as it was, and anything malformed is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.headers import decoded, encoded

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
CONTENTS = st.none() | st.binary() | st.text(st.characters(codec="utf-8")).map(str.encode)


@given(st.lists(st.tuples(NAMES, CONTENTS)))
def test_what_was_encoded_is_decoded_as_it_was(headers: list[tuple[str, bytes | None]]) -> None:
    names, contents = encoded(headers)
    assert (names + contents).isascii()
    expected = [name for name, _ in headers], [content for _, content in headers]
    assert decoded(names, contents) == expected
    assert decoded(names.encode(), contents.encode()) == expected


def test_text_is_a_string_none_is_null_and_other_bytes_are_base64() -> None:
    headers = [("a", b""), ("b", None), ("a", b"\xff\x00"), ("d", "Größe".encode())]
    assert encoded(headers) == ('["a", "b", "a", "d"]', '["", null, {"base64": "/wA="}, "Gr\\u00f6\\u00dfe"]')


@pytest.mark.parametrize(
    ("names", "contents"), [(None, None), ("[]", "[]"), (None, "[]"), (b"[]", None), (None, "{}"), (None, "null")]
)
def test_nothing_and_empty_arrays_are_no_headers(names: str | bytes | None, contents: str | bytes | None) -> None:
    assert decoded(names, contents) == ([], [])


def test_an_object_is_read_as_its_names_and_contents_and_what_is_no_text_as_its_json() -> None:
    given = '{"a": "Größe", "b": null, "c": 1, "d": 2.50, "e": true, "f": {"base64": "ü"}, "g": [1, null], "h": ""}'
    names, contents = decoded(None, given)
    assert names == list("abcdefgh")
    expected = ["Größe", None, "1", "2.5", "true", '{"base64": "ü"}', "[1, null]", ""]
    assert contents == [text if text is None else text.encode() for text in expected]
    assert decoded(None, given.encode()) == (names, contents)
    assert decoded(None, '{"a": 1, "a": "2"}') == (["a"], [b"2"])


@pytest.mark.parametrize(
    ("names", "contents"),
    [
        ('["a"]', None),
        ('["a"]', '["1", "2"]'),
        ('["a"', '["1"]'),
        ("", ""),
        ('"a"', '["1"]'),
        ('{"a": 1}', '["1"]'),
        ("[1]", '["1"]'),
        ("[null]", '["1"]'),
        (r'["\u0000"]', '["1"]'),
        (r'["\ud800"]', '["1"]'),
        ('["a"]', "[1]"),
        ('["a"]', "[true]"),
        ('["a"]', "[[]]"),
        ('["a"]', "[{}]"),
        ('["a"]', '[{"base64": 1}]'),
        ('["a"]', '[{"base64": "/"}]'),
        ('["a"]', '[{"base64": "/w A="}]'),
        ('["a"]', '[{"base64": "/wA=", "more": 1}]'),
        ('["a"]', r'["\ud800"]'),
        ('["a"]', b'["\xff"]'),
        ("[" * 100_000, "[]"),
        (None, '{"a": ' * 100_000),
        ("[]", '{"a": "1"}'),
        (None, '"a"'),
        (None, "1"),
        (None, '["1"]'),
        (None, '{"a": "1"'),
        (None, r'{"\u0000": "1"}'),
        (None, r'{"a": "\ud800"}'),
        (None, r'{"a": ["\ud800"]}'),
    ],
)
def test_anything_malformed_is_refused(names: str | bytes, contents: str | bytes | None) -> None:
    with pytest.raises(ValueError, match=r"."):
        decoded(names, contents)
