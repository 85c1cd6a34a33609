"""Sign in with a token, and sign out."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from rowcall.http.guard import SESSION_COOKIE, base_path, check_csrf, local_path, set_cookie
from rowcall.http.pages.forms import form_pairs
from rowcall.http.pages.render import render
from rowcall.http.server_options import HttpSettings
from rowcall.http.sessions import SESSION_SECONDS, Sessions

_IN_PATHS = "/?=&%:+,;@!$'()*~[]"


def login_routes(sessions: Sessions, settings: HttpSettings) -> list[BaseRoute]:
    """Return the routes; without tokens, there are none."""

    async def show(request: Request) -> Response:
        back = request.query_params.get("next", "")
        response = render(request, "login.html", {"wrong": False, "next": back})
        if request.headers.get("sec-fetch-site") == "cross-site":
            # after a link on another site the browser has not sent the cookie; from this page it does
            response.headers["refresh"] = f"0; url={quote(local_path(request, back), safe=_IN_PATHS)}"
        return response

    async def sign_in(request: Request) -> Response:
        fields = dict(await form_pairs(request))
        back = fields.get("next", "")
        check_csrf(request, fields.get("csrf", ""))
        token = fields.get("token", "").strip()
        if await sessions.find(request, token) is None:
            return render(request, "login.html", {"wrong": True, "next": back}, 403)
        response = RedirectResponse(local_path(request, back), 303)
        set_cookie(request, response, SESSION_COOKIE, sessions.cookie(token), SESSION_SECONDS)
        return response

    async def sign_out(request: Request) -> Response:
        fields = dict(await form_pairs(request))
        check_csrf(request, fields.get("csrf", ""))
        await sessions.end(request.cookies.get(SESSION_COOKIE, ""))
        base = base_path(request.scope)
        response = RedirectResponse(f"{base}/login", 303)
        response.delete_cookie(SESSION_COOKIE, path=base or "/")
        return response

    if not settings.tokens:
        return []
    return [
        Route("/login", show),
        Route("/login", sign_in, methods=["POST"]),
        Route("/logout", sign_out, methods=["POST"]),
    ]
