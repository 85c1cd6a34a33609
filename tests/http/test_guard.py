from __future__ import annotations

import asyncio

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from rowcall import Access, Rowcall
from rowcall.http.bodies import LARGEST_BODY
from rowcall.http.server_options import AsgiApp
from tests.http.client import SITE, Client, client_of, client_of_app

TOKEN, READ_TOKEN = "t" * 20, "r" * 20


def status_of(app: AsgiApp, method: str, path: str, **scope: object) -> int:
    """Return the status for a request as a server passes it on. Its body must not be read."""
    sent: list[Message] = []

    async def ask() -> None:
        async def receive() -> Message:
            raise AssertionError("the body was read")

        async def send(message: Message) -> None:
            sent.append(message)

        common = {"type": "http", "method": method, "path": path, "query_string": b"", "root_path": ""}
        await app({**common, "headers": [(b"host", b"localhost")], **scope}, receive, send)

    asyncio.run(ask())
    return int(sent[0]["status"])


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1@evil.example", "", "10.0.0.1"])
def test_without_a_token_other_hosts_are_refused(client: Client, host: str) -> None:
    answer = client.get("/api/jobs", host=host)
    assert answer.status_code == 403
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("host", ["localhost:8642", "127.0.0.1", "[::1]:8642"])
def test_names_of_this_machine_are_answered(client: Client, host: str) -> None:
    assert client.get("/api/jobs", host=host).status_code == 200


def test_without_a_token_other_machines_and_proxies_are_refused(filled: Rowcall) -> None:
    with client_of_app(filled.asgi(), address="10.0.0.7") as client:
        assert client.get("/").status_code == 403
    with client_of(filled) as client:
        for name in ("x_forwarded_for", "x_forwarded_port", "x_client_ip", "cf_connecting_ip", "forwarded", "via"):
            assert client.get("/", **{name: "10.0.0.7"}).status_code == 403


def test_without_a_token_an_unknown_client_is_refused(filled: Rowcall) -> None:
    """As of a server that listens at a Unix socket."""
    for client in ({}, {"client": None}, {"client": ["", 0]}):
        assert status_of(filled.asgi(), "GET", "/api/jobs", **client) == 403
        assert status_of(filled.asgi(), "GET", "/healthz", **client) == 200


def test_hosts_limits_the_names_that_are_answered(filled: Rowcall) -> None:
    with client_of_app(filled.asgi(token=TOKEN, hosts=["Jobs.example"]), "https://jobs.example", "10.0.0.7") as client:
        assert client.get("/api/jobs", authorization=f"Bearer {TOKEN}").status_code == 200
        assert client.get("/api/jobs", authorization=f"Bearer {TOKEN}", host="evil.example").status_code == 421


@pytest.mark.parametrize(
    "headers", [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec_fetch_site": "cross-site"}]
)
def test_another_site_cannot_change_anything(client: Client, filled: Rowcall, headers: dict[str, str]) -> None:
    assert client.post("/api/jobs/2/retry", **headers).status_code == 403
    assert filled.get(2).status == "failed"


@pytest.mark.parametrize(
    ("site", "origin", "sec_fetch_site", "status"),
    [
        ("http://jobs.example", "http://jobs.example", "", 200),
        ("http://jobs.example", "https://jobs.example", "", 403),
        ("https://jobs.example", "http://jobs.example", "", 403),
        ("https://jobs.example", "http://jobs.example", "cross-site", 403),
        ("https://jobs.example", "HTTPS://Jobs.example", "", 200),
        ("https://jobs.example", "https://jobs.example:8443", "", 403),
        ("https://jobs.example", "ftp://jobs.example", "same-origin", 403),
        ("http://jobs.example", "https://jobs.example", "same-origin", 200),  # behind a proxy that ends TLS
        ("http://jobs.example", "https://ops.example", "", 200),  # of origins=
    ],
)
def test_an_origin_has_a_scheme(filled: Rowcall, site: str, origin: str, sec_fetch_site: str, status: int) -> None:
    with client_of_app(filled.asgi(token=TOKEN, origins=["https://ops.example"]), site, "10.0.0.7") as client:
        headers = {"origin": origin, "sec_fetch_site": sec_fetch_site, "authorization": f"Bearer {TOKEN}"}
        answer = client.post("/api/jobs/2/retry", **{name: value for name, value in headers.items() if value})
        assert answer.status_code == status


def test_the_site_itself_can(client: Client) -> None:
    assert client.post("/api/jobs/2/retry", origin=SITE, sec_fetch_site="same-origin").status_code == 200


def test_a_body_must_be_json(client: Client) -> None:
    answer = client.send("POST", "/api/jobs", b'{"task": "greet"}', content_type="text/plain")
    assert answer.status_code == 415


def test_large_bodies_headers_and_queries_are_refused(client: Client) -> None:
    assert client.send("POST", "/api/jobs", b" " * (LARGEST_BODY + 1)).status_code == 413
    assert client.get("/", cookie="x" * 20_000).status_code == 431
    assert client.get(f"/jobs?queue={'x' * 9000}").status_code == 414


@pytest.mark.parametrize("path", ["/api/jobs", "/jobs/2/retry", "/logout", "/metrics", "/nowhere"])
def test_bodies_of_strangers_are_not_read(filled: Rowcall, path: str) -> None:
    """`status_of` fails if they are."""
    wrong = [(b"host", b"localhost"), (b"authorization", b"Bearer wrong"), (b"cookie", b"rowcall_session=a.b.c")]
    for options in ({"token": TOKEN}, {"authorize": lambda request: None}):
        assert status_of(filled.asgi(**options), "POST", path) == 401
        assert status_of(filled.asgi(**options), "POST", path, headers=wrong) == 401
    assert status_of(filled.asgi(), "POST", path, client=("10.0.0.7", 1)) == 403


def test_tokens_have_roles(filled: Rowcall) -> None:
    with client_of(filled, token={"ann": TOKEN}, read_token=READ_TOKEN) as client:
        assert client.get("/api/jobs").status_code == client.get("/metrics").status_code == 401
        assert client.get("/api/jobs", authorization="Bearer wrong").status_code == 401
        assert (
            client.get("/prefix/login").status_code == 401
        )  # of a proxy that has not removed it: no endless redirects
        assert client.get("/api/jobs", authorization=f"Bearer {READ_TOKEN}").status_code == 200
        assert client.post("/api/jobs/2/retry", authorization=f"Bearer {READ_TOKEN}").status_code == 403
        assert client.post("/api/jobs/2/retry", authorization=f"Bearer {TOKEN}").status_code == 200
    assert filled.timeline(2)[-1].actor == "ann"


def test_probes_need_no_token(filled: Rowcall) -> None:
    with client_of_app(filled.asgi(token=TOKEN), "http://10.0.0.5", "10.0.0.7") as client:
        assert [client.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]


def test_an_app_can_decide_who_may_ask(filled: Rowcall) -> None:
    async def authorize(request: Request) -> Access | None:
        name = request.headers.get("x-user")
        return None if name is None else Access(name, "operate" if name == "ann" else "read")

    with client_of(filled, authorize=authorize) as client:
        assert client.get("/").status_code == 401
        assert "bob" in client.get("/", x_user="bob").text
        assert client.post("/api/jobs/2/retry", x_user="bob").status_code == 403
        assert client.post("/api/jobs/2/retry", x_user="ann").status_code == 200
    assert filled.timeline(2)[-1].actor == "ann"


@pytest.mark.parametrize(
    ("error", "status", "detail"),
    [
        (ValueError("secret detail"), 500, "authorize raised ValueError; the log of the server has the details"),
        (HTTPException(403, "Staff only"), 403, ""),
        (HTTPException(303, headers={"location": "/sign-in"}), 303, ""),
    ],
)
def test_an_authorize_that_raises_refuses(
    filled: Rowcall, caplog: pytest.LogCaptureFixture, error: Exception, status: int, detail: str
) -> None:
    def authorize(request: Request) -> Access | None:
        raise error

    with client_of(filled, authorize=authorize) as client:
        answer = client.get("/api/jobs")
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
        assert answer.json().get("detail", "") == detail
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers.get("location") == ("/sign-in" if status == 303 else None)
        page = client.get("/jobs", accept="text/html")
        assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
        assert "secret detail" not in answer.text + page.text
        assert client.post("/api/jobs/2/retry").status_code == status
    assert filled.get(2).status == "failed"
    logged = [record for record in caplog.records if record.message.startswith("authorize failed")]
    assert [record.exc_info[1] for record in logged if record.exc_info] == ([error] * 3 if status == 500 else [])


def test_pages_run_no_script_of_others(client: Client) -> None:
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_cookies_are_secure_off_this_machine(filled: Rowcall) -> None:
    with client_of_app(filled.asgi(authorize=lambda _: Access("ann")), "http://jobs.example", "10.0.0.7") as client:
        assert "secure" in client.get("/").headers["set-cookie"].lower()
