"""The HTTP server of those who watch: what it answers, and that no bytes bring it down."""

import http.client
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from fix_pipeline import wait_for
from windrow.errors import EnvironmentUnfit
from windrow.observe import server as module
from windrow.observe.server import Request, Response, Server, answer
from windrow.parse import Address, address

GATE = threading.Event()


def echo(request: Request) -> Response:
    return Response(f"{request.path} {dict(request.query)} {request.body!r} {request.headers.get('x-token')}")


def broken(_request: Request) -> Response:
    raise ValueError("a secret")


def slow(_request: Request) -> Response:
    GATE.wait(10)
    return Response("at last")


ROUTES = {
    ("GET", "/echo"): echo,
    ("POST", "/echo"): echo,
    ("GET", "/static/*"): echo,
    ("GET", "/broken"): broken,
    ("GET", "/slow"): slow,
}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(Address("127.0.0.1", 0), ROUTES) as running:
        yield running


def ask(server: Server, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
    with closing(http.client.HTTPConnection(*server.address, timeout=10)) as connection:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode()


def said(server: Server, sent: bytes) -> bytes:
    """What comes back for raw bytes, until the server hangs up."""
    with closing(socket.create_connection(server.address, 10)) as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65_536), b""))
        except OSError:  # it hung up before
            return b""


def test_routes_answer_what_they_are_for(server: Server) -> None:
    assert ask(server, "GET", "/echo?a=1&b=%20") == (200, "/echo {'a': '1', 'b': ' '} b'' None")
    assert ask(server, "POST", "/echo", b"body", **{"X-Token": "t"}) == (200, "/echo {} b'body' t")
    assert ask(server, "GET", "/static/a/b.js")[0] == 200
    assert ask(server, "HEAD", "/echo") == (200, "")
    assert ask(server, "GET", "/nowhere")[0] == 404
    assert ask(server, "DELETE", "/echo")[0] == 405
    assert ask(server, "POST", "/echo", b"x" * 70_000)[0] == 413


def test_wrong_method_names_the_right_ones() -> None:
    assert answer(ROUTES, Request("PUT", "/echo", {}, {})).headers == {"Allow": "GET, POST"}


def test_failing_handler_tells_the_log_and_nobody_else(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    status, body = ask(server, "GET", "/broken")
    assert status == 500
    assert "secret" not in body
    assert "a secret" in caplog.text


def test_garbage_neither_ends_nor_blocks_it(server: Server) -> None:
    chance = random.Random(4)
    for _ in range(50):
        said(server, chance.randbytes(chance.randrange(3_000)))
    for each in (
        b"GET /echo HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"GET /" + b"x" * 100_000,
        b"POST /echo HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET http://[::1/echo HTTP/1.1\r\n\r\n",
    ):
        assert not said(server, each).startswith(b"HTTP/1.0 200")
    assert ask(server, "GET", "/echo")[0] == 200


def test_request_that_drips_is_cut_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WITHIN", 0.3)
    with closing(socket.create_connection(server.address, 10)) as connection:
        connection.sendall(b"GET /echo")
        assert connection.recv(100) == b""


def test_more_requests_than_it_has_threads_for_are_refused(server: Server) -> None:
    GATE.clear()
    waiting = [threading.Thread(target=ask, args=(server, "GET", "/slow")) for _ in range(module._AT_ONCE)]
    for each in waiting:
        each.start()
    try:
        wait_for(lambda: not server._server._free._value, "all threads are taken", 8)
        assert said(server, b"GET /echo HTTP/1.1\r\n\r\n") == b""
    finally:
        GATE.set()
        for each in waiting:
            each.join()
    assert ask(server, "GET", "/echo")[0] == 200


def test_address_in_use_is_a_mistake_with_a_remedy(server: Server) -> None:
    with pytest.raises(EnvironmentUnfit, match="give another address"):
        Server(server.address, {})


def test_addresses() -> None:
    assert address("9464") == address(":9464") == address(9464) == Address("127.0.0.1", 9464)
    assert address("[::1]:80") == Address("::1", 80)
    assert str(Address("::1", 80)) == "[::1]:80"
    assert (address("0.0.0.0:1").local, address("localhost:1").local) == (False, True)
    for wrong in ("host", "host:99999", "a:b:1", "http://x:1", True, ""):
        with pytest.raises(ValueError, match="give host:port"):
            address(wrong)
