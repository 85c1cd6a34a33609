"""Checks before every page and endpoint: hosts, origins, sizes, and who may ask."""

from __future__ import annotations

import hmac
import inspect
import ipaddress
import secrets
from collections.abc import Callable
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rowcall.base.clock import Clock
from rowcall.context import logger
from rowcall.http.access import Access
from rowcall.http.bodies import LARGEST_ANONYMOUS, LARGEST_BODY, Bodies
from rowcall.http.problems import MEDIA_TYPE, Problem, problem_of
from rowcall.http.refusals import expects_page, login_address, may_redirect, response_of
from rowcall.http.server_options import HttpSettings
from rowcall.http.sessions import Sessions
from rowcall.operations.arguments import current_user

LARGEST_HEADERS = 16 * 1024
LONGEST_QUERY = 8 * 1024
SESSION_COOKIE, CSRF_COOKIE = "rowcall_session", "rowcall_csrf"
ACCESS = "rowcall.access"
"""The key of the `Access` in the scope of a request."""

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_FOR_PROBES = ("/healthz", "/readyz")
_FOR_ALL = (*_FOR_PROBES, "/login")
_FOR_CALLBACKS = "/api/push/"
"""Called by targets on other machines: each request has a token for one attempt of one job."""
_FORWARDING = ("forwarded", "x-forwarded-", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip", "via")
"""How the names of headers begin that proxies add."""
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """An ASGI app that lets a request through to another, or answers it with a problem."""

    def __init__(
        self,
        app: ASGIApp,
        settings: HttpSettings,
        clock: Clock,
        sessions: Sessions,
        error_page: Callable[[Request, Exception], Response],
    ) -> None:
        self._app = app
        self._error_page = error_page
        self._settings = settings
        self._bodies = Bodies(clock)
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, path = Request(scope), route_path(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if not path.startswith("/static/"):
                    headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            response = await self._answer(request, path, receive, send_with_headers)
        except Exception as error:
            if problem_of(error) is None:
                raise
            response = self._problem(request, path, error)
        if response is not None:
            await response(scope, receive, send_with_headers)

    async def _answer(self, request: Request, path: str, receive: Receive, send: Send) -> Response | None:
        """Return a response, or None if the app has answered."""
        check_sizes(request)
        is_callback = path.startswith(_FOR_CALLBACKS)
        if path not in _FOR_PROBES and not is_callback:
            self._check_host(request)
        if request.method not in SAFE_METHODS:
            self._check_origin(request)
        is_anonymous = is_callback or path in _FOR_ALL or path.startswith("/static/")
        if is_callback:
            request.scope[ACCESS] = Access("push target", "operate")
        elif not is_anonymous:
            access = await self._access(request)
            if not isinstance(access, Access):
                return self._refusal(request, path, access)
            request.scope[ACCESS] = access
        if request.method in SAFE_METHODS:
            await self._app(request.scope, receive, send)
        else:
            largest = LARGEST_ANONYMOUS if is_anonymous and not is_callback else LARGEST_BODY
            async with self._bodies.read(request, receive, largest, anonymous=is_anonymous) as receive_body:
                await self._app(request.scope, receive_body, send)
        return None

    # where the request goes to and comes from

    def _check_host(self, request: Request) -> None:
        host = host_of(request.headers.get("host", ""))
        hosts = self._settings.hosts
        if hosts is not None and host not in hosts:
            raise Problem(421, "Misdirected request", f"the host {host!r} is not one of hosts=…")
        if not self._settings.is_open:
            return
        # without a sign-in, DNS that leads a name to this machine must not lead here, and neither must a proxy
        if not is_loopback(host) and hosts is None:
            raise Problem(403, "Forbidden", f"the host {host!r} is not this machine; {_ADVICE}")
        if request.client is None or not is_loopback(request.client.host):
            raise Problem(403, "Forbidden", f"only this machine may ask; {_ADVICE}")
        if any(name.startswith(_FORWARDING) for name in request.headers):
            raise Problem(403, "Forbidden", f"the request came through a proxy; {_ADVICE}")

    def _check_origin(self, request: Request) -> None:
        """Refuse a request that another site made in the browser of a visitor."""
        origin = request.headers.get("origin")
        if origin is None:
            site = request.headers.get("sec-fetch-site", "none")
            if site not in ("none", "same-origin"):
                raise Problem(403, "Forbidden", "another site made this request")
        elif origin.lower() not in self._settings.origins and not _is_same_site(request, origin.lower()):
            raise Problem(403, "Forbidden", f"the origin {origin!r} is not this site; if it is, add it to origins=…")

    # who asks

    async def _access(self, request: Request) -> Access | Response | None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._settings.tokens:
            return await self._sessions.find(request, given.strip())
        if self._settings.is_open:
            return Access(current_user(), "operate")
        access = await self._authorized(request)
        if isinstance(access, Access) or not self._settings.tokens:
            return access
        return await self._sessions.access(request.cookies.get(SESSION_COOKIE, "")) or access

    async def _authorized(self, request: Request) -> Access | Response | None:
        """Return what the app's own function says. If it fails, the request is refused."""
        if self._settings.authorize is None:
            return None
        try:
            found = self._settings.authorize(request)
            access = await found if inspect.isawaitable(found) else found
        except HTTPException as error:
            raise Problem(error.status_code, str(error.detail), headers=error.headers) from error
        except Exception as error:
            logger.exception("authorize failed, so a request was refused")
            detail = f"authorize raised {type(error).__name__}; the log of the server has the details"
            raise Problem(500, "Internal server error", detail) from error
        return access if access is None or isinstance(access, Access) else response_of(access)

    def _refusal(self, request: Request, path: str, answer: Response | None) -> Response:
        """Return the answer of `authorize`, or lead to a login; a program gets a problem instead of a redirect."""
        redirects, is_safe = may_redirect(request, path), request.method in SAFE_METHODS
        if answer is not None and (not 300 <= answer.status_code < 400 or redirects):
            return answer
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        if self._settings.login_url is not None and redirects:
            back = back if is_safe else f"{base_path(request.scope)}/"
            return RedirectResponse(login_address(self._settings.login_url, request, back), 303)
        is_lost = path.endswith("/login")  # a proxy has not removed the prefix: it would lead here again
        if self._settings.tokens and redirects and not is_lost and is_safe:
            return RedirectResponse(f"{base_path(request.scope)}/login?next={quote(back, safe='')}", 303)
        detail = "sign in, or send Authorization: Bearer with a token" if self._settings.tokens else "sign in first"
        response = self._problem(request, path, Problem(401, "Unauthorized", detail))
        response.headers["www-authenticate"] = "Bearer"
        return response

    def _problem(self, request: Request, path: str, error: Exception) -> Response:
        return self._error_page(request, error) if expects_page(request, path) else problem_response(error)


_ADVICE = "pass token=… or authorize=… to serve others"


# forms


def csrf_token(request: Request) -> str:
    """Return the token for the forms of a page: the one in the visitor's cookie, or another."""
    found = request.cookies.get(CSRF_COOKIE, "")
    return found if len(found) == 43 and found.isascii() else secrets.token_urlsafe(32)


def check_csrf(request: Request, given: str) -> None:
    expected = request.cookies.get(CSRF_COOKIE, "")
    if not expected or not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
        raise Problem(403, "Forbidden", "the form is out of date; go back, reload the page and try again")


def set_cookie(request: Request, response: Response, name: str, value: str, seconds: int) -> None:
    secure = request.url.scheme == "https" or not is_loopback(host_of(request.headers.get("host", "")))
    path = base_path(request.scope) or "/"
    response.set_cookie(name, value, seconds, path=path, secure=secure, httponly=True, samesite="strict")


# parts of a request


def route_path(scope: Scope) -> str:
    """Return the path below the prefix that the app is mounted at."""
    path, root = str(scope["path"]), base_path(scope)
    return path.removeprefix(root) if path == root or path.startswith(f"{root}/") else path


def base_path(scope: Scope) -> str:
    """Return the prefix that the app is mounted at, without a slash at its end."""
    return str(scope.get("root_path") or "").rstrip("/")


def local_path(request: Request, path: str) -> str:
    """Return a path of this app, whatever the form says."""
    base = base_path(request.scope)
    is_here = path.startswith(f"{base}/") and not path.startswith("//") and "\\" not in path
    return path if is_here and path.isprintable() else f"{base}/"


def host_of(header: str) -> str:
    """
    >>> host_of("LOCALHOST:8642"), host_of("[::1]:80"), host_of("a@b"), host_of("")
    ('localhost', '::1', '', '')
    """
    if not header or any(mark in header for mark in "@/\\ ?#"):
        return ""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


def _is_same_site(request: Request, origin: str) -> bool:
    """Return whether a page of this app made the request, as far as its scheme, host and port say.

    Behind a proxy that ends TLS, this server does not know the scheme. Then a browser that knows it may say so.
    """
    scheme, _, host = origin.partition("://")
    is_same_scheme = scheme == request.url.scheme or request.headers.get("sec-fetch-site") == "same-origin"
    return scheme in ("http", "https") and is_same_scheme and host == request.headers.get("host", "").lower() != ""


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("127.0.0.2"), is_loopback("::1"), is_loopback("localhost"), is_loopback("localhost.example.com")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_sizes(request: Request) -> None:
    headers: Headers = request.headers
    if sum(len(name) + len(value) for name, value in headers.raw) > LARGEST_HEADERS:
        raise Problem(431, "Request header fields too large", f"at most {LARGEST_HEADERS:,} bytes of headers")
    if len(request.scope.get("query_string", b"")) + len(request.scope["path"]) > LONGEST_QUERY:
        raise Problem(414, "URI too long", f"at most {LONGEST_QUERY:,} bytes")


def problem_response(error: Exception) -> Response:
    problem = problem_of(error) or Problem(500, "Internal server error")
    return Response(problem.to_json(), problem.status, problem.headers, media_type=MEDIA_TYPE)
