"""A small HTTP server for those who watch: metrics, health, the dashboard. One thread a request, routes in a table.

It is beside the relay, never in its way: threads are bounded in number, a request in time and size, and what comes
after that is cut off. Invariant: whatever bytes arrive, the process goes on; a handler that fails answers 500, and its
error is in the log alone.
"""

import io
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from windrow.errors import EnvironmentUnfit
from windrow.parse import Address

log = logging.getLogger(__name__)

_WITHIN: Final = 10.0
_AT_ONCE: Final = 32
_BODY_AT_MOST: Final = 65_536
_ALWAYS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked. Headers are found by their names in any case; of several of one name, the first counts."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered."""

    body: bytes | str = b""
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


Handler: TypeAlias = Callable[[Request], Response]
Routes: TypeAlias = Mapping[tuple[str, str], Handler]
"""Handlers by method and path: `{("GET", "/livez"): alive}`. A path that ends in `/*` stands for all below it; who
answers GET answers HEAD."""


def answer(routes: Routes, request: Request) -> Response:
    """What the routes say to a request."""
    method = "GET" if request.method == "HEAD" else request.method
    found = {each: handler for (each, path), handler in routes.items() if _fits(path, request.path)}
    if not found:
        return Response("there is nothing here\n", status=HTTPStatus.NOT_FOUND)
    if method not in found:
        return Response(status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(sorted(found))})
    return found[method](request)


def _fits(path: str, asked: str) -> bool:
    return asked.startswith(path[:-1]) if path.endswith("/*") else asked == path


class Server:
    """Serves routes at an address while its context lasts; port 0 takes any that is free, `address` tells which."""

    def __init__(self, address: Address, routes: Routes) -> None:
        try:
            self._server = _Listener(address, routes)
        except OSError as error:
            raise EnvironmentUnfit(
                f"{address} cannot be listened on ({error.strerror}): give another address"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name=f"server of {address}", daemon=True)

    @property
    def address(self) -> Address:
        host, port = self._server.socket.getsockname()[:2]
        return Address(host, port)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: Address, routes: Routes) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self.routes = routes
        self._free = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__((address.host, address.port), _Conversation)

    def server_bind(self) -> None:
        """As the one above, without asking a name server who we are."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, _request: Any, client_address: Any) -> None:
        """Connections that break off are daily life."""
        log.debug("a request of %s broke off", client_address)


class _Until(io.RawIOBase):
    """What a socket receives until a moment, however slowly it drips."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        self._connection, self._until = connection, until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Conversation(BaseHTTPRequestHandler):
    """One request and its answer; the connection is closed after it."""

    server: _Listener
    timeout: ClassVar[float] = _WITHIN
    server_version = "windrow"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_Until(self.connection, time.monotonic() + _WITHIN))

    def version_string(self) -> str:
        return self.server_version

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the overridden one's
        """Paths may hold what is nobody's business."""

    def do_GET(self) -> None:
        self._answer(self._asked())

    do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = do_GET  # noqa: N815 - http.server's names

    def _asked(self) -> Request | Response:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdecimal()):
            return Response("say how long it is\n", status=HTTPStatus.LENGTH_REQUIRED)
        if len(length) > 9 or int(length) > _BODY_AT_MOST:
            return Response(status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            url = urlsplit(self.path)
            query = dict(parse_qsl(url.query, max_num_fields=50))
        except ValueError:
            return Response(status=HTTPStatus.BAD_REQUEST)
        return Request(self.command, url.path, query, self.headers, self.rfile.read(int(length)))  # type: ignore[arg-type]

    def _answer(self, asked: Request | Response) -> None:
        try:
            response = asked if isinstance(asked, Response) else answer(self.server.routes, asked)
        except Exception:  # a mistake in one answer must not end the others
            log.exception("no answer to %s", urlsplit(self.path).path)
            response = Response("something is wrong here; the log says what\n", status=HTTPStatus.INTERNAL_SERVER_ERROR)
        body = response.body.encode() if isinstance(response.body, str) else response.body
        self.send_response(response.status)
        for name, content in {
            **_ALWAYS,
            "Content-Type": response.content_type,
            "Content-Length": str(len(body)),
            **response.headers,
        }.items():
            self.send_header(name, content)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
