"""A connection to one broker. Requests may follow each other before the first is answered: a broker works on those of
one connection in turn, and answers in their order.

Invariant: whatever is wrong with a connection is an `Interrupted`, after which it is of no use.
"""

import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final, TypeVar

from windrow.errors import Interrupted
from windrow.wire import messages
from windrow.wire.codec import Reader
from windrow.wire.messages import Api, Piece
from windrow.wire.security import Security

T = TypeVar("T")

CLIENT: Final = "windrow"
_CONNECT_WITHIN: Final = 5.0
_LARGEST_ANSWER: Final = 100_000_000
_PIECES: Final = 512
"""How many the system takes at once."""
_AT_ONCE: Final = 65_536
"""Bytes of a part, over TLS."""


class Connection:
    """Open, authenticated, and known to speak what is needed or not."""

    def __init__(self, host: str, port: int, security: Security, within: float) -> None:
        self.address = f"{host}:{port}"
        self.sent_bytes = self.requests = 0
        self.used_at = time.monotonic()
        self._within, self._quiet_until = within, 0.0
        self._correlation = 0
        self._unanswered: deque[tuple[Api, int]] = deque()
        self._socket: socket.socket | None = None
        with self._interruptible():
            self._socket = _connected(host, port, security)
            asked = messages.api_versions(version("windrow"))
            self.speaks_all = self.call(messages.API_VERSIONS, asked, messages.has_all)
            if security.mechanism:
                self._authenticate(security)

    def send(self, api: Api, *pieces: Piece) -> None:
        self._correlation += 1
        head = messages.head(api, self._correlation, CLIENT)
        size = len(head) + sum(map(len, pieces))
        with self._interruptible():
            self._send([struct.pack(">i", size) + head, *pieces])
        self._unanswered.append((api, self._correlation))
        self.sent_bytes += size + 4
        self.requests += 1
        self.used_at = time.monotonic()

    def receive(self, read: Callable[[Reader], T], within: float | None = None) -> T:
        """What is read of the answer to the oldest request that has none."""
        api, expected = self._unanswered.popleft()
        with self._interruptible():
            self._opened.settimeout(self._patience(within or self._within))
            (size,) = struct.unpack(">i", self._read(4))
            if size > _LARGEST_ANSWER:
                raise ConnectionError(f"an answer of {size:,} bytes")
            correlation, answer = messages.answered(api, self._read(size))
            if correlation != expected:
                raise ConnectionError("an answer to what was not asked")
            told = read(answer)
            self._quiet_until = max(self._quiet_until, time.monotonic() + answer.throttle / 1000)
            return told

    def call(self, api: Api, request: bytes, read: Callable[[Reader], T], within: float | None = None) -> T:
        """Send, and wait for the answer; nothing else may be unanswered."""
        self.send(api, request)
        return self.receive(read, within)

    def close(self) -> None:
        if self._socket:
            self._socket.close()
        self._socket = None

    def _patience(self, within: float) -> float:
        """Beside what a broker may take, the time for which it hears nobody who has used up his quota."""
        return within + max(0.0, self._quiet_until - time.monotonic())

    @property
    def _opened(self) -> socket.socket:
        if self._socket is None:
            raise ConnectionError("the connection is closed")
        return self._socket

    def _send(self, pieces: list[Piece]) -> None:
        """Each part within the time that a broker has to take any of it, not all within that time."""
        self._opened.settimeout(self._patience(self._within))
        if isinstance(self._opened, ssl.SSLSocket):
            whole = memoryview(b"".join(pieces))
            for at in range(0, len(whole), _AT_ONCE):
                self._opened.sendall(whole[at : at + _AT_ONCE])
            return
        left = deque(memoryview(piece) for piece in pieces)
        while left:
            sent = self._opened.sendmsg([left[place] for place in range(min(len(left), _PIECES))])
            while left and sent >= len(left[0]):
                sent -= len(left.popleft())
            if sent:
                left[0] = left[0][sent:]

    def _read(self, size: int) -> memoryview:
        content, at = bytearray(size), 0
        while at < size:
            received = self._opened.recv_into(memoryview(content)[at:])
            if not received:
                raise ConnectionError("the broker has closed the connection")
            at += received
        return memoryview(content)

    def _authenticate(self, security: Security) -> None:
        name = security.mechanism.encode()
        error = self.call(messages.SASL_HANDSHAKE, struct.pack(">h", len(name)) + name, messages.first_error)
        if error:
            raise Interrupted(f"broker {self.address} does not offer sasl.mechanism {security.mechanism}")
        security.authenticate(self._exchange)

    def _exchange(self, step: bytes) -> bytes:
        request = messages.sasl_authenticate(step)
        error, reason, answer = self.call(messages.SASL_AUTHENTICATE, request, messages.authenticated)
        if error:
            raise Interrupted(f"broker {self.address}: {reason or 'authentication failed'}")
        return answer

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        try:
            yield
        except (OSError, struct.error, ValueError, IndexError) as error:
            self.close()
            why = "no answer in time" if isinstance(error, TimeoutError) else error
            raise Interrupted(f"Kafka broke off: broker {self.address}: {why}") from error
        except Interrupted:
            self.close()
            raise


def _connected(host: str, port: int, security: Security) -> socket.socket:
    plain = socket.create_connection((host, port), _CONNECT_WITHIN)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return security.tls.wrap_socket(plain, server_hostname=host) if security.tls else plain
    except BaseException:
        plain.close()
        raise
