"""What a visitor gets who may not ask: the app's own answer, its login, a page, or a problem."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from starlette.requests import Request
from starlette.responses import Response

from rowcall.http.problems import Problem


def is_for_programs(path: str) -> bool:
    return path == "/metrics" or path.startswith("/api/")


def may_redirect(request: Request, path: str) -> bool:
    """Return whether the client can do something with a redirect to a login."""
    accept = request.headers.get("accept", "*/*")
    return not is_for_programs(path) and ("text/html" in accept or "*/*" in accept)


def expects_page(request: Request, path: str) -> bool:
    return not is_for_programs(path) and "text/html" in request.headers.get("accept", "")


def login_address(login_url: str, request: Request, back: str) -> str:
    """Return the login with `next`, the way back: a whole address for a login on another site."""
    login = urlsplit(login_url)
    if login.netloc:
        back = f"{request.url.scheme}://{request.url.netloc}{back}"
    return urlunsplit(
        login._replace(query=urlencode([*parse_qsl(login.query, keep_blank_values=True), ("next", back)]))
    )


def response_of(answer: object) -> Response:
    """Return the answer of `authorize`: a response of Starlette or FastAPI, of Flask, or of Django."""
    if isinstance(answer, Response):
        return answer
    status, headers = getattr(answer, "status_code", None), getattr(answer, "headers", None)
    body = answer.get_data() if hasattr(answer, "get_data") else getattr(answer, "content", None)
    if not isinstance(status, int) or not isinstance(body, bytes) or headers is None:
        kind = type(answer).__name__
        detail = f"authorize must return an Access, a response or None, got {kind}"
        raise Problem(500, "Internal server error", detail)
    response = Response(body, status)
    for name, value in headers.items():
        if name.lower() == "set-cookie":
            response.headers.append(name, value)
        else:
            response.headers[name] = value
    return response
