"""The dashboard's routes, for the server of those who watch: the page, what it asks, and what it can have done.

Every answer passes the guard first. Answers with content of messages, and everything that changes something, need the
token; what changes something comes by POST alone.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from itertools import islice
from typing import Any, Final

from windrow.dashboard import shapes
from windrow.dashboard.actions import ACTIONS, Actions, Given
from windrow.dashboard.chronicle import Chronicle
from windrow.dashboard.guard import Guard
from windrow.dashboard.look import Remark
from windrow.errors import QueueTopicMissing, UserError, WindrowError
from windrow.observe.server import Handler, Request, Response, Routes
from windrow.publish.dead_letter import DeadLetters
from windrow.queue.dead_letter import dead_letters

_TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_LETTERS_AT_MOST: Final = 500
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What the routes answer from."""

    chronicle: Chronicle
    guard: Guard
    actions: Actions

    def routes(self) -> Routes:
        own: dict[tuple[str, str], Handler] = {
            ("GET", "/api/overview"): self._overview,
            ("GET", "/api/token"): self._token,
            ("GET", "/api/letters"): self._letters,
            ("GET", "/api/letter"): self._letter,
            ("GET", "/api/queue-letters"): self._queue_letters,
            **{("GET", path): partial(_file, *found) for path, found in _files().items()},
            **{("POST", path): partial(self._act, action) for path, action in ACTIONS.items()},
        }
        return {route: partial(self._guarded, handler) for route, handler in own.items()}

    def _guarded(self, handler: Handler, request: Request) -> Response:
        if not self.guard.knows(request.headers):
            said = "this name is not known here: ask by address, or name it with --dashboard-name\n"
            return Response(said, status=HTTPStatus.FORBIDDEN)
        try:
            response = handler(request)
        except UserError as error:
            response = _json({"problem": str(error)}, HTTPStatus.BAD_REQUEST)
        except WindrowError as error:
            response = _json({"problem": str(error)}, HTTPStatus.BAD_GATEWAY)
        return replace(response, headers={**_HEADERS, **response.headers})

    def _overview(self, request: Request) -> Response:
        since, event = _number(request, "since"), int(_number(request, "event"))
        seen = self.chronicle.seen(since, event, request.query.get("run", ""))
        return _json({**seen, "changeable": self.guard.token is not None})

    def _token(self, request: Request) -> Response:
        return _json({"right": self.guard.admits(request.headers)})

    def _letters(self, request: Request) -> Response:
        found = DeadLetters(self.actions.settings).list(_LETTERS_AT_MOST)
        return _json({"letters": shapes.letters(found, whole=self.guard.admits(request.headers))})

    def _letter(self, request: Request) -> Response:
        if not self.guard.admits(request.headers):
            return _refused()
        number = int(_number(request, "number"))
        found = DeadLetters(self.actions.settings).show(number)
        if found is None:
            raise UserError(f"there is no dead letter {number} any more")
        return _json(shapes.letter(found))

    def _queue_letters(self, request: Request) -> Response:
        if not self.guard.admits(request.headers):
            return _refused()
        try:
            found = list(islice(dead_letters(self.actions.queues, request.query.get("queue")), _LETTERS_AT_MOST))
        except QueueTopicMissing:
            found = []
        return _json({"letters": shapes.queue_letters(found)})

    def _act(self, action: Callable[[Actions, Given], str], request: Request) -> Response:
        if not self.guard.admits(request.headers):
            return _refused()
        try:
            given = json.loads(request.body)
        except (ValueError, RecursionError) as error:
            raise UserError("send a JSON object") from error
        if not isinstance(given, dict):
            raise UserError("send a JSON object")
        said = action(self.actions, given)
        self.chronicle.tell(Remark("plain", f"by hand: {said}"))
        self.chronicle.look_again()
        return _json({"said": said})


def _refused() -> Response:
    return _json({"problem": "the token is missing or wrong"}, HTTPStatus.UNAUTHORIZED)


def _json(content: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(json.dumps(content), "application/json", status)


def _number(request: Request, name: str) -> float:
    try:
        number = float(request.query.get(name, "0"))
        int(number)
    except (ValueError, OverflowError) as error:
        raise UserError(f"{name} is no number") from error
    return number


def _file(content: bytes, content_type: str, _request: Request) -> Response:
    return Response(content, content_type)


def _files() -> dict[str, tuple[bytes, str]]:
    """The page's own files by their paths, with their types."""
    found = {
        f"/static/{each.name}": (each.read_bytes(), f"{_TYPES[ending]}; charset=utf-8")
        for each in files("windrow.dashboard").joinpath("static").iterdir()
        if (ending := each.name.rpartition(".")[2]) in _TYPES
    }
    return {"/": found["/static/index.html"], **found}
