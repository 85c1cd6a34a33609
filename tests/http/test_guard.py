from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request
from starlette.types import Message

from rowcall import Access, Rowcall
from rowcall.http.guard import LARGEST_BODY, Sessions, find_token
from rowcall.http.settings import AsgiApp
from rowcall.testing import FakeClock
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
        for name in ("x_forwarded_for", "x_forwarded_proto", "forwarded", "via"):
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


def test_the_site_itself_can(client: Client) -> None:
    assert client.post("/api/jobs/2/retry", origin=SITE, sec_fetch_site="same-origin").status_code == 200


def test_a_body_must_be_json(client: Client) -> None:
    answer = client.send("POST", "/api/jobs", b'{"task": "greet"}', content_type="text/plain")
    assert answer.status_code == 415


def test_large_bodies_headers_and_queries_are_refused(client: Client) -> None:
    assert client.send("POST", "/api/jobs", b" " * (LARGEST_BODY + 1)).status_code == 413
    assert client.get("/", cookie="x" * 20_000).status_code == 431
    assert client.get(f"/jobs?queue={'x' * 9000}").status_code == 414


def test_a_slow_body_is_cut_off(filled: Rowcall) -> None:
    """The client sends a part of the body, and then nothing."""
    app = filled.asgi()
    sent: list[Message] = []

    async def ask() -> None:
        first = True

        async def receive() -> Message:
            nonlocal first
            if first:
                first = False
                return {"type": "http.request", "body": b"{", "more_body": True}
            raise TimeoutError

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/api/jobs", "query_string": b"", "root_path": ""}
        await app({**scope, "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1)}, receive, send)

    asyncio.run(ask())
    assert sent[0]["status"] == 408


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


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each token is compared, by a function that does not stop at the first difference, also after one has matched."""
    compared: list[bytes] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr("hmac.compare_digest", compare)
    tokens = {TOKEN: Access("ann", "operate"), READ_TOKEN: Access("bob")}
    for given, found in ((TOKEN, tokens[TOKEN]), (READ_TOKEN, tokens[READ_TOKEN]), ("wrong", None), ("\udcff", None)):
        compared.clear()
        assert find_token(tokens, given) == found
        assert compared == [TOKEN.encode(), READ_TOKEN.encode()]


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


def test_a_session_ends_with_its_time_and_with_its_token() -> None:
    clock, tokens = FakeClock(), {TOKEN: Access("ann", "operate")}
    sessions = Sessions(tokens, clock)
    cookie = sessions.cookie(TOKEN)
    assert cookie is not None
    assert sessions.cookie("wrong") is None
    assert sessions.access(cookie) == Access("ann", "operate")
    assert sessions.access(f"f{cookie}") is None
    assert sessions.access("") is sessions.access("x.y") is None
    assert Sessions({READ_TOKEN: Access("ann")}, clock).access(cookie) is None


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
