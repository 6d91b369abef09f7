"""Headers as two JSON arrays, for databases that have no arrays of their own: the names, and their contents.

A content is a string, which stands for its UTF-8; null, which is a header without content; or `{"base64": "…"}`, for
bytes that are no UTF-8. The arrays are of one length; no array is an empty one.

Others write headers as one JSON object: then it stands in the contents' place, with nothing in the names'. What is
neither a string nor null in it, a number for instance, is taken as the text that it is in JSON.

Invariant: what `encoded` wrote, `decoded` reads as it was, and whatever else `decoded` is given, it reads it whole or
raises a ValueError. The JSON is ASCII, so that no connection's character set can change it.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any


def encoded(headers: Iterable[tuple[str, bytes | None]]) -> tuple[str, str]:
    pairs = list(headers)
    return json.dumps([name for name, _ in pairs]), json.dumps([_encoded(content) for _, content in pairs])


def decoded(names: str | bytes | None, contents: str | bytes | None) -> tuple[list[str], list[bytes | None]]:
    try:
        keys, values = (None if text is None else json.loads(text) for text in (names, contents))
        if keys is None and isinstance(values, dict):
            return [_name(key) for key in values], [_as_text(content) for content in values.values()]
    except RecursionError:
        raise ValueError("the headers are nested too deeply") from None
    read = [_name(key) for key in _array(keys)], [_decoded(content) for content in _array(values)]
    if len(read[0]) != len(read[1]):
        raise ValueError(f"there are {len(read[0])} names of headers, but {len(read[1])} contents")
    return read


def _encoded(content: bytes | None) -> str | dict[str, str] | None:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(content).decode()}


def _array(loaded: object) -> list[Any]:
    match loaded:
        case None:
            return []
        case list():
            return loaded
        case _:
            raise ValueError(f"the headers are no JSON array, but {type(loaded).__name__}")


def _name(key: object) -> str:
    if not isinstance(key, str) or "\0" in key:
        raise ValueError(f"a header's name is not text, or has a NUL in it: {key!r}")
    key.encode()
    return key


def _decoded(content: object) -> bytes | None:
    match content:
        case None:
            return None
        case str():
            return content.encode()
        case {"base64": str(text), **others} if not others:
            return b64decode(text, validate=True)
        case _:
            raise ValueError(f'a header\'s content is neither text, null nor {{"base64": "…"}}: {content!r}')


def _as_text(content: object) -> bytes | None:
    if content is None:
        return None
    return (content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)).encode()
