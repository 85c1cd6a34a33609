"""The dashboard as a view of Django: `path("jobs/", include("rowcall.django.urls"))`. For staff."""

from __future__ import annotations

import functools
from http.cookies import SimpleCookie
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from django.utils.encoding import iri_to_uri
from django.views.decorators.csrf import csrf_exempt
from starlette.exceptions import HTTPException

from rowcall.app import queue_of
from rowcall.http.access import Access
from rowcall.http.guard import SAFE_METHODS
from rowcall.http.hosted import HostedRequest, HostedResponse, hosted_app, respond, respond_in_loop
from rowcall.http.server_options import AsgiApp
from rowcall.integrations.django.queue import jobs
from rowcall.integrations.django.site import alias, is_testing


@csrf_exempt  # its forms have tokens, and it compares the origin
@transaction.non_atomic_requests(using=alias())  # on SQLite, the request's transaction would lock its writes out
def dashboard(request: HttpRequest, path: str = "") -> HttpResponse:
    """Show the dashboard to staff who may view jobs. The buttons need the permission to change them."""
    root = request.path.removesuffix(path).rstrip("/")
    asked = HostedRequest(
        visitor=_visitor(request, root),
        method=request.method,
        scheme=request.scheme,
        root=root,
        path=f"/{path}",
        query=iri_to_uri(request.META.get("QUERY_STRING", "")),
        headers=list({**request.headers, "Host": request.get_host()}.items()),
        client=request.META.get("REMOTE_ADDR"),
        read_body=request.read,
    )
    if is_testing():  # only this thread sees the transaction of the test
        return _response(async_to_sync(respond)(_new_app(), asked))
    return _response(respond_in_loop(_app(), asked))


def _visitor(request: HttpRequest, root: str) -> Access | HttpResponse | HTTPException:
    """Return who asks, as the permissions of the admin say, or what someone gets who may not."""
    user = getattr(request, "user", None)
    if user is None:
        raise ImproperlyConfigured(
            "rowcall.django.urls needs django.contrib.auth.middleware.AuthenticationMiddleware in MIDDLEWARE"
        )
    if not user.is_authenticated:
        back = request.get_full_path() if request.method in SAFE_METHODS else f"{root}/"
        return redirect_to_login(back, _login_url())
    name = user.get_username()
    if not (user.is_active and user.is_staff and (user.has_perm("rowcall.view_job") or _may_change(user))):
        return HTTPException(403, f"{name} must be staff, with the permission rowcall.view_job")
    return Access(name, "operate" if _may_change(user) else "read")


def _may_change(user: Any) -> bool:
    return bool(user.has_perm("rowcall.change_job"))


def _login_url() -> str:
    try:
        return str(reverse("admin:login"))
    except NoReverseMatch:
        return str(settings.LOGIN_URL)


@functools.cache
def _app() -> AsgiApp:
    return _new_app()


def _new_app() -> AsgiApp:
    return hosted_app(queue_of(jobs), frozenset(origin.lower() for origin in settings.CSRF_TRUSTED_ORIGINS))


def _response(answer: HostedResponse) -> HttpResponse:
    headers = {name: value for name, value in answer.headers if name != "set-cookie"}
    response = HttpResponse(answer.body, status=answer.status, headers=headers)
    response.cookies = SimpleCookie()
    for name, value in answer.headers:
        if name == "set-cookie":
            response.cookies.load(value)
    return response
