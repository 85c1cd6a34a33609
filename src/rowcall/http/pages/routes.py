"""The routes of the pages, and of the forms on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from rowcall.base.text import one_line
from rowcall.http.api import job_changes
from rowcall.http.api import limits as limit_changes
from rowcall.http.api.table import ENDPOINTS
from rowcall.http.endpoint import Call, Endpoint
from rowcall.http.guard import ACCESS, base_path, check_csrf, local_path, set_cookie
from rowcall.http.pages import (
    batches,
    errors,
    job,
    jobs,
    limits,
    overview,
    queues,
    schedules,
    storage,
    tasks,
    waiting,
    workers,
)
from rowcall.http.pages.forms import body_of, done_text, form_pairs
from rowcall.http.pages.login import login_routes
from rowcall.http.pages.places import nav_counts
from rowcall.http.pages.render import FLASH_COOKIE, render
from rowcall.http.problems import problem_of
from rowcall.http.server_options import HttpSettings
from rowcall.http.sessions import Sessions
from rowcall.http.shared_counts import SharedCounts, StillCounting
from rowcall.queue import Queue

Page = Callable[[Call, Request], Awaitable[dict[str, object]]]
Answer = Callable[[Request], Awaitable[Response]]

FLASH_SECONDS = 60
_PAGES: Sequence[tuple[str, str, Page]] = (
    ("/", "overview.html", overview.overview),
    ("/jobs", "jobs.html", jobs.job_list),
    ("/jobs/confirm", "confirm.html", jobs.confirm),
    ("/jobs/{id:int}", "job.html", job.one_job),
    ("/jobs/{id:int}/stack", "stack.html", job.job_stack),
    ("/waiting", "waiting.html", waiting.waiting_list),
    ("/queues", "queues.html", queues.queue_list),
    ("/queues/{name:path}", "queue.html", queues.one_queue),
    ("/limits", "limits.html", limits.limit_list),
    ("/tasks", "tasks.html", tasks.task_list),
    ("/tasks/{name:path}", "task.html", tasks.one_task),
    ("/batches", "batches.html", batches.batch_list),
    ("/batches/{id:int}", "batch.html", batches.one_batch),
    ("/schedules", "schedules.html", schedules.schedule_list),
    ("/workers", "workers.html", workers.worker_list),
    ("/errors", "errors.html", errors.error_list),
    ("/storage", "storage.html", storage.storage),
)
_FORMS = (
    Endpoint("POST", "/jobs/{id:int}/retry", jobs.retry_job),
    *(one for one in ENDPOINTS if one.method == "POST" and one.path != "/jobs"),
    Endpoint("POST", "/limits/{name:path}/set", limit_changes.set_limit),
    Endpoint("POST", "/limits/{name:path}/reset", limit_changes.reset_limit),
    Endpoint("POST", "/jobs/{id:int}/delete", job_changes.delete_job),
    Endpoint("POST", "/jobs/{id:int}/edit", job_changes.edit_job),
)


def page_routes(queue: Queue, counts: SharedCounts, settings: HttpSettings, sessions: Sessions) -> list[BaseRoute]:
    return [
        *(Route(path, page_route(queue, counts, settings, template, page)) for path, template, page in _PAGES),
        *(Route(one.path, form_route(queue, counts, one), methods=["POST"]) for one in _FORMS),
        *login_routes(sessions, settings),
    ]


def page_route(queue: Queue, counts: SharedCounts, settings: HttpSettings, template: str, page: Page) -> Answer:
    async def answer(request: Request) -> Response:
        call = Call(queue, request.scope[ACCESS], counts, patience_seconds=0)
        try:
            context = {**await page(call, request), "counts": await nav_counts(call)}
        except StillCounting:
            response = render(request, "counting.html", {})
            response.headers["refresh"] = "1"
            return response
        except Exception as error:
            return error_page(request, error)
        return render(request, template, {**context, "streams": settings.streams, "trace_link": settings.trace_link})

    return answer


def form_route(queue: Queue, counts: SharedCounts, endpoint: Endpoint) -> Answer:
    """Run an endpoint with the fields of a form, and return to the page that it was on."""

    async def answer(request: Request) -> Response:
        fields: dict[str, str] = {}
        try:
            pairs = await form_pairs(request)
            fields = dict(pairs)
            check_csrf(request, fields.get("csrf", ""))
            call = Call(queue, request.scope[ACCESS], counts)
            result = await endpoint.run(call, request.path_params, body=body_of(pairs), lax=True)
        except jobs.AskFirst as ask:
            query = urlencode({**ask.query, "back": fields.get("return_to", "")})
            return RedirectResponse(f"{base_path(request.scope)}/jobs/confirm?{query}", 303)
        except Exception as error:
            return error_page(request, error)
        response = RedirectResponse(local_path(request, fields.get("return_to", "")), 303)
        set_cookie(request, response, FLASH_COOKIE, quote(one_line(done_text(endpoint.path, result))), FLASH_SECONDS)
        return response

    return answer


def error_page(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if problem is None:
        raise error
    response = render(request, "problem.html", {"problem": problem}, problem.status)
    response.headers.update(problem.headers or {})
    if ACCESS not in request.scope:  # another site may have made the request, without the cookies that are there
        del response.headers["set-cookie"]
    return response
