"""Values in Kafka's protocol: compact strings, arrays and bytes, whose lengths are variable, and tagged fields."""

import struct
from collections.abc import Callable, Iterable
from typing import Final, TypeVar
from uuid import UUID

T = TypeVar("T")

NO_TAGS: Final = b"\0"
NULL: Final = b"\0"
_CONTINUED: Final = 0x80
_LOW: Final = 0x7F


def unsigned(number: int) -> bytes:
    """A length, or a count: seven bits a byte."""
    encoded = bytearray()
    while number > _LOW:
        encoded.append(number & _LOW | _CONTINUED)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def signed(number: int) -> bytes:
    """What stands in records: numbers around zero are short."""
    return unsigned(number << 1 if number >= 0 else (-number << 1) - 1)


def text(content: str | None) -> bytes:
    if content is None:
        return NULL
    encoded = content.encode()
    return unsigned(len(encoded) + 1) + encoded


def array(elements: Iterable[bytes]) -> bytes:
    encoded = [*elements]
    return unsigned(len(encoded) + 1) + b"".join(encoded)


class Reader:
    """Reads the values of an answer, one after the other."""

    def __init__(self, answer: bytes | memoryview) -> None:
        self._answer, self._at = memoryview(answer), 0
        self.throttle = 0
        """Milliseconds for which the broker does not listen, since a quota is used up."""

    def take(self, layout: str) -> tuple[int, ...]:
        """Numbers of fixed length, as `struct` names them."""
        numbers = struct.unpack_from(">" + layout, self._answer, self._at)
        self._at += struct.calcsize(">" + layout)
        return numbers

    def number(self, layout: str) -> int:
        return self.take(layout)[0]

    def throttled(self) -> None:
        self.throttle = self.number("i")

    def unsigned(self) -> int:
        number, shift = 0, 0
        while True:
            byte = self._answer[self._at]
            self._at += 1
            number |= (byte & _LOW) << shift
            if not byte & _CONTINUED:
                return number
            shift += 7

    def content(self) -> bytes | None:
        length = self.unsigned() - 1
        return None if length < 0 else self._bytes(length)

    def text(self) -> str:
        return (self.content() or b"").decode()

    def plain_text(self) -> str:
        """As it was before there were compact ones."""
        return self._bytes(max(0, self.number("h"))).decode()

    def uuid(self) -> UUID:
        return UUID(bytes=self._bytes(16))

    def array(self, element: Callable[[], T]) -> list[T]:
        return [element() for _ in range(self.unsigned() - 1)]

    def tags(self) -> dict[int, "Reader"]:
        """Tagged fields, which later versions of Kafka may add to."""
        found = {}
        for _ in range(self.unsigned()):
            tag = self.unsigned()
            found[tag] = Reader(self._bytes(self.unsigned()))
        return found

    def _bytes(self, length: int) -> bytes:
        content = bytes(self._answer[self._at : self._at + length])
        if len(content) < length:
            raise struct.error("the answer ends too early")
        self._at += length
        return content
