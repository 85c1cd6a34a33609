"""The app as a whole: prefixes, unknown paths, failures."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from rowcall import Rowcall
from tests.http.client import Client, client_of_app
from tests.http.conftest import declared

LINK = re.compile(r'(?:href|src|action)="([^"#?]*)')
PAGES = [
    "/",
    "/jobs",
    "/jobs/1",
    "/waiting",
    "/queues",
    "/limits",
    "/batches",
    "/schedules",
    "/workers",
    "/errors",
    "/storage",
]


@pytest.mark.parametrize("path", PAGES)
def test_pages_link_only_below_their_prefix(filled: Rowcall, path: str) -> None:
    app = FastAPI()
    app.mount("/ops/jobs", filled.asgi())
    with client_of_app(app) as client:
        links = {link for link in LINK.findall(client.page(f"/ops/jobs{path}")) if link}
        assert links
        assert {link for link in links if not link.startswith("/ops/jobs/")} == set()


def test_every_link_of_the_pages_leads_somewhere(client: Client) -> None:
    pages = [client.page(path) for path in PAGES]
    links = {link for page in pages for link in re.findall(r'(?:href|src)="(/[^"#?]*)', page)}
    found = {link: client.get(link).status_code for link in sorted(links)}
    assert {link for link, code in found.items() if code not in (200, 422)} == set()  # confirm needs an action
    forms = {link for page in pages for link in re.findall(r'<form[^>]* method="post"[^>]* action="(/[^"]*)', page)}
    assert {link: client.post(link).status_code for link in forms} == dict.fromkeys(forms, 403)  # without a token
    assert forms


def test_forms_work_below_a_prefix(filled: Rowcall) -> None:
    with client_of_app(Starlette(routes=[Mount("/jobs", filled.asgi())])) as client:
        assert "Overview" in client.page("/jobs/")
        assert client.submit("/jobs/jobs/2", "/jobs/jobs/2/retry").headers["location"] == "/jobs/jobs/2"
    assert filled.get(2).status == "pending"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/api/jobs", "GET, HEAD, POST"),
        ("PUT", "/api/jobs/2", "DELETE, GET, HEAD, PATCH"),
        ("GET", "/api/jobs/2/retry", "POST"),
        ("OPTIONS", "/api/stats", "GET, HEAD"),
        ("POST", "/jobs", "GET, HEAD"),
        ("DELETE", "/healthz", "GET, HEAD"),
        ("POST", "/static/rowcall.css", "GET, HEAD"),
        ("POST", "/static/jobs", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(client: Client, method: str, path: str, allowed: str) -> None:
    for accept in ("text/html", "*/*"):
        answer = client.send(method, path, b"", accept=accept)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


def test_every_page_and_answer_on_a_server(postgres_url: str) -> None:
    with declared(postgres_url) as jobs, client_of_app(jobs.asgi()) as client:
        jobs.enqueue("greet", {"name": "Ann"})
        jobs.enqueue("broken", {})
        jobs.drain()
        jobs.enqueue("greet", {"name": "Bob"}, delay=60)
        for path in PAGES:
            client.page(path.replace("/1", f"/{jobs.list().jobs[0].id}"))
        for path in ("/jobs", "/stats", "/errors", "/queues", "/retention", "/stuck", "/retries", "/workers"):
            assert client.get(f"/api{path}").status_code == 200
        assert client.post("/api/jobs/retry", {"filter": {"type": "broken"}}).json()["count"] == 1


def test_unknown_paths_and_methods_are_problems(client: Client) -> None:
    assert client.get("/nowhere").json()["status"] == 404
    assert client.send("PUT", "/api/jobs", b"").json()["status"] == 405
    assert client.get("/static/../app.py").status_code == 404
    page = client.get("/nowhere", accept="text/html")
    assert page.status_code == 404
    assert "<h1>Not found</h1>" in page.text


def test_static_files_are_small(client: Client) -> None:
    weight = sum(len(client.get(f"/static/{name}").content) for name in ("rowcall.css", "rowcall.js", "favicon.svg"))
    assert weight + len(client.page("/")) < 100_000
