"""The dashboard as a browser, a script and a stranger ask it: what is answered, refused, changed and never told."""

import http.client
import json
import pty
import random
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from fix_pipeline import Pipeline, wait_for
from windrow.cli.dashboard import dashboard_on
from windrow.cli.dashboard_options import Terms
from windrow.dashboard.actions import ACTIONS, Actions
from windrow.dashboard.chronicle import Chronicle
from windrow.dashboard.guard import Guard
from windrow.dashboard.routes import Dashboard
from windrow.database.connections import connect
from windrow.observe.server import Server
from windrow.parse import Address
from windrow.publish.dead_letter import DeadLetters, LetterTable
from windrow.queue.settings import QueueSettings
from windrow.relay.watch import Watch

TOKEN = "a-token-for-the-tests"  # noqa: S105 - its own
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def server(pipeline: Pipeline) -> Iterator[Server]:
    """A dashboard on a Kafka that has no queues."""
    queues = QueueSettings.beside(pipeline.settings.base_kafka_config, f"none_{pipeline.settings.name}")
    with Watch(pipeline.settings) as watch, Chronicle(watch, queues) as chronicle:
        dashboard = Dashboard(chronicle, Guard(TOKEN), Actions(pipeline.settings, queues))
        with Server(Address("127.0.0.1", 0), dashboard.routes()) as running:
            yield running


def ask(server: Server, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    with closing(http.client.HTTPConnection(*server.address, timeout=20)) as connection:
        given = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, given, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        policy = answer.headers.get("Content-Security-Policy", "")
        assert answer.status in {403, 404, 405} or "default-src 'none'" in policy
        return answer.status, json.loads(text) if answer.headers["Content-Type"] == "application/json" else text


def bury(pipeline: Pipeline, *values: str) -> list[int]:
    """Dead letters of these contents; their ids."""
    pipeline.write(*(pipeline.message(each, key="a-secret-key") for each in values))
    with connect(pipeline.settings.data_source) as connection:
        rows = connection.execute(f"SELECT id FROM {pipeline.settings.outbox_table} ORDER BY id").fetchall()
        ids = [int(each) for (each,) in rows]
        letters = json.dumps([(each, None) for each in ids])
        LetterTable(pipeline.settings, connection).execute("bury", letters=letters, reason="of no use")
    return ids


def test_what_is_seen_without_a_token_holds_no_content(pipeline: Pipeline, server: Server) -> None:
    (number,) = bury(pipeline, "a-secret-value")
    wait_for(lambda: (ask(server, "/api/overview")[1]["relay"] or {}).get("dead_letters"), "the letter to be seen")
    told = [ask(server, path)[1] for path in ("/", "/api/overview", "/api/letters")]
    assert "secret" not in json.dumps(told)
    assert ask(server, f"/api/letter?number={number}")[0] == ask(server, "/api/queue-letters")[0] == 401
    assert ask(server, f"/api/letter?number={number}", **BEARER)[1]["value"] == "a-secret-value"
    assert ask(server, "/api/letters", **BEARER)[1]["letters"][0]["key"] == "a-secret-key"


def test_nothing_changes_without_the_token_by_get_or_from_another_page(pipeline: Pipeline, server: Server) -> None:
    bury(pipeline, "one")
    for path in ACTIONS:
        assert ask(server, path, {"all": True, "queue": "q"})[0] == 401
        assert ask(server, path, {"all": True, "queue": "q"}, Authorization="Bearer wrong")[0] == 401
        assert ask(server, path, **BEARER)[0] == 405
        assert ask(server, path, {"all": True, "queue": "q"}, **BEARER, Origin="http://evil.example")[0] == 403
        assert ask(server, path, {"all": True, "queue": "q"}, **BEARER, Host="evil.example")[0] == 403
    assert ask(server, "/api/overview", Host="evil.example")[0] == 403
    assert [each.release for each in DeadLetters(pipeline.settings).list(9)] == [None]


def test_letters_are_retried_and_discarded(pipeline: Pipeline, server: Server) -> None:
    first, second = bury(pipeline, "one", "two")
    assert ask(server, "/api/letters/retry", {"numbers": [first]}, **BEARER)[0] == 200
    assert ask(server, "/api/letters/discard", {"all": True}, **BEARER) == (200, {"said": "1 dead letter discarded"})
    assert [(each.id, each.release) for each in DeadLetters(pipeline.settings).list(9)] == [(first, 1)]
    assert ask(server, f"/api/letter?number={second}", **BEARER)[0] == 400


def test_token_is_made_and_shown_on_a_terminal_and_nowhere_else(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watch, terms = Watch(pipeline.settings), Terms(None, (), f"none_{pipeline.settings.name}")
    monkeypatch.delenv("WINDROW_DASHBOARD_TOKEN", raising=False)
    with dashboard_on(watch, terms) as routes, Server(Address("127.0.0.1", 0), routes) as server:
        assert "changes nothing" in capsys.readouterr().err
        assert ask(server, "/api/overview")[1]["changeable"] is False
        assert ask(server, "/api/letters/retry", {"all": True}, Authorization="Bearer None")[0] == 401
    reader, terminal = pty.openpty()
    with open(reader, "rb", buffering=0) as screen, open(terminal, "w") as stderr:  # noqa: PTH123 - descriptors
        monkeypatch.setattr(sys, "stderr", stderr)
        with dashboard_on(watch, terms) as routes, Server(Address("127.0.0.1", 0), routes) as server:
            token = screen.read(1000).decode().split()[-1]
            assert ask(server, "/api/token", Authorization=f"Bearer {token}")[1] == {"right": True}


@pytest.mark.parametrize("body", [[], "x", {}, {"numbers": []}, {"numbers": ["1"]}, {"numbers": [True]}, {"all": 1}])
def test_unclear_wishes_are_refused_with_a_remedy(server: Server, body: object) -> None:
    status, told = ask(server, "/api/letters/discard", body, **BEARER)
    assert status == 400
    assert told["problem"]


def test_garbage_and_strange_questions_leave_it_well(server: Server) -> None:
    chance = random.Random(7)
    questions = [
        b"/api/overview?since=",
        b"/api/letter?number=",
        b"/api/letters/retry",
        b"/static/../guard.py",
        b"/static/",
    ]
    for _ in range(60):
        garbage = bytes(chance.randrange(256) for _ in range(chance.randrange(400)))
        sent = chance.choice(
            [
                garbage,
                b"GET " + chance.choice(questions) + garbage.hex().encode() + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                b"POST /api/letters/retry HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                + TOKEN.encode()
                + b"\r\nContent-Length: %d\r\n\r\n" % len(garbage)
                + garbage,
            ]
        )
        with closing(socket.create_connection(server.address, 10)) as connection, suppress(OSError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda connection=connection: connection.recv(65_536), b""))  # type: ignore[misc]
            assert b" 500 " not in answer.split(b"\r\n")[0]
    for strange in ("since=nan", "since=inf", "since=1e999", "event=x", "event=1e400"):
        assert ask(server, f"/api/overview?{strange}")[0] in {200, 400}
    assert ask(server, "/api/overview")[0] == 200
