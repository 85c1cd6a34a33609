"""The ASGI app: the routes of the API, of the pages and of their forms, behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from rowcall.domain.errors import RowcallError
from rowcall.http import probes
from rowcall.http.api.jobs import LONGEST_IDEMPOTENCY_KEY
from rowcall.http.api.openapi import document
from rowcall.http.api.table import ENDPOINTS
from rowcall.http.endpoint import Call, Endpoint
from rowcall.http.guard import ACCESS, Guard, base_path, problem_response, route_path
from rowcall.http.live import Live
from rowcall.http.pages.render import compile_templates
from rowcall.http.pages.routes import error_page, page_routes
from rowcall.http.problems import Problem, problem_of
from rowcall.http.refusals import expects_page
from rowcall.http.server_options import HttpSettings
from rowcall.http.sessions import Sessions
from rowcall.http.shared_counts import SharedCounts
from rowcall.overview.alerting import watching
from rowcall.queue import Queue

STATIC = Path(__file__).parent / "static"
Answer = Callable[[Request], Awaitable[Response]]


def asgi_app(queue: Queue, settings: HttpSettings) -> ASGIApp:
    """Return the app. It can be mounted anywhere: without a lifespan, only its first page comes later."""

    async def openapi(request: Request) -> Response:
        return JSONResponse(document(ENDPOINTS, base_path(request.scope)))

    counts, sessions = SharedCounts(queue), Sessions(queue, settings)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        counts.start()
        compile_templates()
        with watching(queue):
            yield

    routes: list[BaseRoute] = [
        Route("/healthz", probes.healthz),
        Route("/readyz", probes.ready(queue)),
        Route("/metrics", probes.metrics(queue, counts)),
        Route("/api/openapi.json", openapi),
        *live_routes(queue, settings),
        *(Route(f"/api{one.path}", api_route(queue, counts, one), methods=[one.method]) for one in ENDPOINTS),
        Mount("/static", StaticFiles(directory=STATIC)),
        *page_routes(queue, counts, settings, sessions),
    ]
    known = dict.fromkeys((Problem, RowcallError, msgspec.MsgspecError, TimeoutError), _refused)
    app = Starlette(
        routes=routes,
        exception_handlers={404: _not_found, 405: _wrong_method, **known, Exception: _failed},
        lifespan=lifespan,
    )
    return Guard(app, settings, queue.clock, sessions, error_page)


def live_routes(queue: Queue, settings: HttpSettings) -> list[BaseRoute]:
    if not settings.streams:
        return []
    live = Live(queue)
    return [
        Route("/api/events", live.events),
        Route("/api/jobs/{id:int}/streams/{name:path}", live.values),
        Route("/live", live.pages),
    ]


def api_route(queue: Queue, counts: SharedCounts, endpoint: Endpoint) -> Answer:
    async def answer(request: Request) -> Response:
        call = Call(queue, request.scope[ACCESS], counts, _idempotency_key(request))
        body = await _json_body(request) if endpoint.body is not None else None
        found = await endpoint.run(call, request.path_params, request.query_params.multi_items(), body)
        return Response(found.to_json(), endpoint.status, media_type="application/json")

    return answer


async def _json_body(request: Request) -> object:
    """Return the body. The type is required: a form of another site cannot have it."""
    content = await request.body()
    if not content:
        return None
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Problem(415, "Unsupported media type", "send Content-Type: application/json")
    try:
        decoded: object = msgspec.json.decode(content)
    except RecursionError:
        raise Problem(400, "Invalid JSON", "the body is nested too deeply") from None
    return decoded


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not (1 <= len(key) <= LONGEST_IDEMPOTENCY_KEY and key.isprintable()):
        raise Problem(400, "Bad request", f"Idempotency-Key must have 1 to {LONGEST_IDEMPOTENCY_KEY} characters")
    return key


def answer_error(request: Request, error: Exception) -> Response:
    """Answer a known error: a browser that asked for a page gets one."""
    is_page = expects_page(request, route_path(request.scope))
    return error_page(request, error) if is_page else problem_response(error)


async def _not_found(request: Request, error: Exception) -> Response:
    return answer_error(request, Problem(404, "Not found", f"{request.method} {request.url.path}"))


async def _wrong_method(request: Request, error: Exception) -> Response:
    """Say which methods there are: several routes may have this path, each for some of them."""
    scope = {**request.scope, "root_path": request.scope.get("app_root_path", request.scope["root_path"])}
    routes = [route for route in request.app.routes if route.matches(scope)[0] is not Match.NONE]
    allowed = {method for route in routes for method in getattr(route, "methods", None) or ("GET", "HEAD")}
    headers = {"allow": ", ".join(sorted(allowed))}
    problem = Problem(405, "Method not allowed", f"{request.method} {request.url.path}", headers=headers)
    return answer_error(request, problem)


async def _refused(request: Request, error: Exception) -> Response:
    if problem_of(error) is None:
        raise error
    return answer_error(request, error)


async def _failed(request: Request, error: Exception) -> Response:
    """Answer without the details, which Starlette raises again for the server to log."""
    return problem_response(Problem(500, "Internal server error", "the log of the server has the details"))
