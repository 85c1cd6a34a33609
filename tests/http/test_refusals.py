"""What a visitor gets who may not ask: a browser a page or the app's login, a program a problem."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import flask
import pytest
from fastapi import FastAPI
from flask import Flask
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from rowcall import Access, Rowcall
from rowcall.http.refusals import response_of
from tests.http.client import client_of, client_of_app

BROWSER = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"
TOKEN = "x" * 16


def ann_only(request: Request) -> Access | None:
    return Access("ann", "operate") if request.headers.get("x-user") == "ann" else None


def test_a_browser_gets_a_page_and_a_program_a_problem(filled: Rowcall) -> None:
    with client_of(filled, authorize=ann_only) as client:
        page = client.get("/jobs/2", accept=BROWSER)
        assert (page.status_code, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
        assert "Unauthorized" in page.text
        assert "Traceback" not in page.text
        form = client.post("/jobs/2/retry", accept=BROWSER)
        assert (form.status_code, "<html" in form.text) == (401, True)
        for path in ("/api/jobs", "/metrics", "/jobs/2"):
            problem = client.get(path, accept="application/json")
            assert (problem.status_code, problem.json()["title"]) == (401, "Unauthorized")
        assert client.get("/api/jobs", accept=BROWSER).headers["content-type"] == "application/problem+json"
        assert "ann" in client.get("/", accept=BROWSER, x_user="ann").text


def test_a_browser_is_sent_to_the_login_of_the_app(filled: Rowcall) -> None:
    with client_of(filled, authorize=ann_only, login_url="/accounts/login?from=jobs&all=", token=TOKEN) as client:
        for accept in (BROWSER, "*/*"):
            answer = client.get("/jobs?status=failed", accept=accept)
            login = urlsplit(answer.headers["location"])
            assert (answer.status_code, login.path) == (303, "/accounts/login")
            assert parse_qs(login.query) == {"from": ["jobs"], "next": ["/jobs?status=failed"]}
        answer = client.post("/jobs/2/retry", accept=BROWSER)
        assert (answer.status_code, answer.headers["location"]) == (303, "/accounts/login?from=jobs&all=&next=%2F")
        for path in ("/api/jobs", "/metrics", "/jobs"):
            assert client.get(path, accept="application/json").status_code == 401
        assert client.get("/api/jobs", authorization=f"Bearer {TOKEN}").status_code == 200
    with client_of(filled, authorize=ann_only, login_url="https://login.example.com/") as client:
        back = parse_qs(urlsplit(client.get("/jobs", accept=BROWSER).headers["location"]).query)
        assert back == {"next": ["http://127.0.0.1:8642/jobs"]}  # another site does not know where to lead back


@pytest.mark.parametrize("is_async", [False, True])
def test_an_app_answers_itself(filled: Rowcall, is_async: bool) -> None:
    def answer(request: Request) -> Any:
        if request.headers.get("x-user") == "bob":
            return PlainTextResponse("bob may not", 403, {"x-reason": "bob"})
        return RedirectResponse("/login")

    async def later(request: Request) -> Any:
        return answer(request)

    with client_of(filled, authorize=later if is_async else answer) as client:
        for accept in (BROWSER, "*/*"):
            led = client.get("/", accept=accept)
            assert (led.status_code, led.headers["location"]) == (307, "/login")
        for path in ("/api/jobs", "/metrics"):  # a program could do nothing with a redirect to a login
            assert client.get(path).json()["status"] == 401
            refused = client.get(path, x_user="bob")
            assert (refused.status_code, refused.text, refused.headers["x-reason"]) == (403, "bob may not", "bob")
            assert refused.headers["cache-control"] == "no-store"


def test_another_answer_is_an_error_of_the_app(filled: Rowcall) -> None:
    wrong: Any = lambda request: {"user": "ann"}  # noqa: E731
    with client_of(filled, authorize=wrong) as client:
        answer = client.get("/api/jobs")
        assert (answer.status_code, answer.json()["detail"]) == (
            500,
            "authorize must return an Access, a response or None, got dict",
        )


def test_flask_decides_by_its_session_under_a_prefix(filled: Rowcall) -> None:
    app = Flask("shop")
    app.secret_key = "only for the test"

    @app.post("/login")
    def login() -> str:
        flask.session["user"] = "ann"
        return "in"

    def authorize(request: Request) -> Any:
        with app.request_context(request.scope["wsgi_environ"]):
            user = flask.session.get("user")
        return Access(user) if user else flask.redirect("/login")

    mounted = {"/jobs": filled.wsgi(authorize=authorize), "/led": filled.wsgi(authorize=ann_only, login_url="/login")}
    app.wsgi_app = DispatcherMiddleware(app.wsgi_app, mounted)  # type: ignore[method-assign]
    client = app.test_client()
    answer = client.get("/jobs/jobs/2", headers={"accept": BROWSER}, buffered=True)
    assert (answer.status_code, answer.headers["location"]) == (302, "/login")
    assert client.get("/jobs/api/jobs", buffered=True).status_code == 401
    led = client.get("/led/jobs/2", headers={"accept": BROWSER}, buffered=True)
    assert led.headers["location"] == "/login?next=%2Fled%2Fjobs%2F2"
    client.post("/login")
    assert "ann" in client.get("/jobs/jobs/2", headers={"accept": BROWSER}, buffered=True).text


def test_fastapi_under_a_prefix(filled: Rowcall) -> None:
    app = FastAPI()
    app.mount("/ops/jobs", filled.asgi(authorize=ann_only, login_url="/login"))
    with client_of_app(app) as client:
        answer = client.get("/ops/jobs/errors", accept=BROWSER)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fops%2Fjobs%2Ferrors")
        assert client.get("/ops/jobs/api/jobs", accept=BROWSER).status_code == 401


def test_a_response_of_flask_keeps_its_cookies() -> None:
    given = flask.Response("no", 403)
    for name in ("a", "b"):
        given.set_cookie(name, "1")
    made = response_of(given)
    assert (made.status_code, bytes(made.body), made.headers["content-length"]) == (403, b"no", "2")
    assert len(made.headers.getlist("set-cookie")) == 2
