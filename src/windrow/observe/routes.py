"""The routes that every process has which shows itself: `/metrics`, `/livez` and `/readyz`."""

from collections.abc import Callable, Iterable
from http import HTTPStatus

from windrow.observe.metrics import CONTENT_TYPE, Sample, exposition
from windrow.observe.server import Request, Response, Routes


def watch_routes(
    samples: Callable[[], Iterable[Sample]],
    alive: Callable[[], bool],
    objections: Callable[[], Iterable[str]] = tuple,
) -> Routes:
    """Of a process that has these samples; is it alive, and what speaks against its being ready?"""

    def metrics(_request: Request) -> Response:
        return Response(exposition(samples()), CONTENT_TYPE)

    def live(_request: Request) -> Response:
        return Response("alive\n") if alive() else _unavailable("ended")

    def ready(_request: Request) -> Response:
        why = [*objections()] if alive() else ["ended"]
        return _unavailable("not ready", *why) if why else Response("ready\n")

    return {("GET", "/metrics"): metrics, ("GET", "/livez"): live, ("GET", "/readyz"): ready}


def _unavailable(*why: str) -> Response:
    return Response("\n".join((*why, "")), status=HTTPStatus.SERVICE_UNAVAILABLE)
