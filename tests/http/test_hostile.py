"""Hostile input: markup and long texts in every field that is shown; tampered paths, headers, cookies and cursors."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from html.parser import HTMLParser

import httpx
import pytest

from rowcall import Rowcall
from rowcall.http import bodies, serve
from tests.http.client import Client, client_of
from tests.http.conftest import declared
from tests.http.server import served

SCRIPT = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}"
LONG = "x" * 1_000_000
PAGES = ["/", "/jobs", "/waiting", "/queues", "/limits", "/batches", "/schedules", "/workers", "/errors", "/storage"]


class Elements(HTMLParser):
    """Collects what a browser would run or load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag in ("img", "iframe", "object", "style", "base") or (tag == "script" and "src" not in names):
            self.found.append(tag)
        self.found += [name for name in names if name.startswith("on") or name == "style"]
        links = [value or "" for name, value in attrs if name in ("href", "src", "action")]
        self.found += [link for link in links if not link.startswith(("/", "?", "#"))]


def dangers(page: str) -> list[str]:
    parser = Elements()
    parser.feed(page)
    return parser.found


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rowcall]:
    """Every text that a user or a job can write has markup in it, or is very long."""
    with Rowcall(tmp_path_factory.mktemp("hostile") / "app.db") as jobs:
        name = SCRIPT[:150]

        @jobs.task(name=name, queue=name, max_attempts=1)
        def fails(text: str) -> None:
            raise ValueError(text)

        @jobs.task(name="returns")
        def returns(text: str) -> str:
            return text

        fails.using(tags=[SCRIPT[:100]], key=SCRIPT).enqueue(SCRIPT)
        returns.enqueue(SCRIPT)
        returns.enqueue(LONG)
        fails.enqueue(LONG)
        jobs.drain()
        returns.using(delay=60).enqueue(LONG)
        fails.using(delay=60).enqueue(LONG)
        jobs.enqueue("by-hand", {SCRIPT: SCRIPT})
        (job,) = jobs.claim(SCRIPT[:150], queues=["default"])
        jobs.fail(job, "CODE:X", LONG)
        running = jobs.enqueue("by-hand", {"a": [SCRIPT] * 3})
        jobs.claim(SCRIPT[:150], queues=["default"])
        retried = jobs.enqueue("by-hand", {"b": LONG}, queue=SCRIPT[:40], tags=[SCRIPT[:90]])
        jobs.fail(jobs.claim("w", queues=[SCRIPT[:40]])[0], "CODE:Y", SCRIPT)
        jobs.reschedule(retried, delay=60, actor=SCRIPT)
        waiting = jobs.enqueue("by-hand", {}, after=[running])
        jobs.cancel(waiting, SCRIPT, actor=SCRIPT)
        jobs.pause(name, actor=SCRIPT)
        jobs.pause(task=name, actor=SCRIPT)
        jobs.add_schedule(name, name, {"text": SCRIPT}, every=60)
        jobs.pause_schedule(name, actor=SCRIPT)
        yield jobs


def test_pages_show_markup_as_text(hostile: Rowcall) -> None:
    with client_of(hostile) as client:
        ids = [job.id for job in hostile.list().jobs]
        for path in [*PAGES, "/?window=30d", *(f"/jobs/{one}" for one in ids)]:
            page = client.page(path)
            assert dangers(page) == [], path
            assert "49" not in page or "{{7*7}}" in page or path not in ("/jobs", "/errors")
            assert len(page) < 500_000, path
        assert "&lt;script&gt;" in client.page("/jobs")


def test_the_query_is_shown_as_text(hostile: Rowcall) -> None:
    with client_of(hostile) as client:
        for name in ("queue", "type", "tag", "key", "worker", "error_code", "payload", "status", "cursor", "order"):
            answer = client.get("/jobs?" + str(httpx.QueryParams({name: SCRIPT})))
            assert answer.status_code in (200, 422), name
            assert dangers(answer.text) == [], name
        assert (
            dangers(client.get("/jobs/confirm?" + str(httpx.QueryParams({"action": "retry", "tag": SCRIPT}))).text)
            == []
        )
        assert dangers(client.get("/" + SCRIPT, accept="text/html").text) == []


def test_the_api_answers_json_only(hostile: Rowcall) -> None:
    with client_of(hostile) as client:
        for path in ("/api/jobs", "/api/jobs/1", "/api/errors", "/api/schedules", "/api/queues"):
            assert client.get(path).headers["content-type"] == "application/json"
            assert client.get(path).headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/0",
        "/jobs/-1",
        "/jobs/1e3",
        "/jobs/99999999999999999999",
        "/jobs/1%00",
        "/jobs/%2e%2e/%2e%2e/etc/passwd",
        "/static/../guard.py",
        "/static/%2e%2e/guard.py",
        "/static/%2e%2e%2fguard.py",
        "/static//etc/passwd",
        "/queues/\ud83d\ude00/pause",
        "/api/jobs/1/explode",
        "/api/queues/%ff/pause",
    ],
)
def test_tampered_paths(client: Client, path: str) -> None:
    answer = client.get(path.encode("utf-16", "surrogatepass").decode("utf-16"))
    assert answer.status_code in (404, 405, 422)
    assert "root:" not in answer.text
    assert "import" not in answer.text


@pytest.mark.parametrize(
    "cursor", ["", "x", "0", "-1", "9" * 30, "eyJpZCI6MX0", "\u0000", "1:2:3:4", "' or 1=1 --", "é"]
)
def test_tampered_cursors(client: Client, cursor: str) -> None:
    answer = client.get("/api/jobs?" + str(httpx.QueryParams({"cursor": cursor})))
    assert answer.status_code == (422 if cursor else 200)


@pytest.mark.parametrize(
    "cookie",
    [
        "rowcall_session=",
        "rowcall_session=ffff.x",
        "rowcall_session=zz.zz",
        "rowcall_csrf=" + "x" * 500,
        "=;;;=",
        "a=\x7f\x01",
    ],
)
def test_tampered_cookies(filled: Rowcall, cookie: str) -> None:
    with client_of(filled, token="t" * 20) as client:
        client.http.cookies.clear()
        assert client.get("/", cookie=cookie).status_code == 303


@pytest.mark.parametrize(
    "content", [b"{", b"\xff", b"[" * 100_000, b'{"task": "a", "task": 3}', b"null", b'{"jobs": [null]}', b'"\\ud800"']
)
def test_tampered_bodies(client: Client, filled: Rowcall, content: bytes) -> None:
    answer = client.send("POST", "/api/jobs", content, content_type="application/json")
    assert answer.status_code in (400, 422)
    assert filled.stats().total == 3


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deeply_nested_filters_and_arguments(client: Client, filled: Rowcall, opening: str) -> None:
    for depth in (300, 990, 1500):
        nested = opening * depth
        for payload in (f'{{"a":{nested}', f"a={nested}", nested):
            query = str(httpx.QueryParams({"payload": payload}))
            for path in ("/api/jobs?", "/jobs?", "/jobs/confirm?action=retry&"):
                assert client.get(path + query).status_code in (200, 414, 422), (depth, payload[:9])
            assert client.submit("/jobs/2", "/jobs/retry", {"filter.payload": payload}).status_code in (303, 422)
            assert client.submit("/jobs/3", "/jobs/3/edit", {"json.arguments": payload}).status_code in (303, 422)
    assert filled.get(2).status == "failed"


EDGES = [
    "0001-01-01T00:00:00+14:00",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00-14:00",
    "1969-12-31T23:59:59Z",
    "9999-12-31T23:59:59-14:00",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59+14:00",
    "9999-12-31T23:59",
    "0000-01-01T00:00:00Z",
]


def ask_at_the_edges_of_the_calendar(client: Client) -> None:
    for at in EDGES:
        for name in ("created_after", "created_before", "finished_after", "finished_before"):
            query = str(httpx.QueryParams({name: at}))
            for path in ("/api/jobs?", "/jobs?", "/jobs/confirm?action=cancel&"):
                assert client.get(path + query).status_code in (200, 422), at
            for dry_run in (True, False):
                body = {"filter": {name: at, "queue": "none"}, "dry_run": dry_run}
                assert client.post("/api/jobs/retry", body).status_code in (200, 422), at
            form = {f"filter.{name}": at, "filter.queue": "none"}
            assert client.submit("/jobs/3", "/jobs/retry", form).status_code in (303, 422), at
        for name in ("run_at", "expires_at"):
            new = {"task": "greet", "arguments": {"name": "Ann"}, name: at}
            assert client.post("/api/jobs", new).status_code in (201, 422), at
            assert client.submit("/jobs/3", "/jobs/3/edit", {name: at}).status_code in (303, 422), at
        for path in ("/", "/jobs", "/jobs/3", "/queues", "/api/jobs", "/api/jobs/3", "/api/queues", "/api/stats"):
            assert client.get(path).status_code == 200, (path, at)


def test_times_at_the_edges_of_the_calendar(client: Client) -> None:
    ask_at_the_edges_of_the_calendar(client)


def test_times_at_the_edges_of_the_calendar_on_a_server(postgres_url: str) -> None:
    with declared(postgres_url) as jobs, client_of(jobs) as client:
        for _ in range(3):
            jobs.enqueue("greet", {"name": "Ann"}, delay=3600)
        ask_at_the_edges_of_the_calendar(client)


def test_slow_clients_do_not_keep_others_out(filled: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 connections send half of a request, and nothing more. Others are answered, and the 500 are cut off."""
    monkeypatch.setattr(serve, "HEAD_SECONDS", 3)
    with served(filled) as found, ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(found.address)) for _ in range(500)]
        for one in slow:
            one.sendall(b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Le")
        for _ in range(3):
            answer = httpx.get(f"{found.site}/api/stats", timeout=20)
            assert answer.status_code == 200
        for one in slow:
            one.settimeout(20)
            with suppress(ConnectionResetError):
                assert one.recv(1) == b""


def test_slow_bodies_do_not_keep_others_out(filled: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 strangers begin to sign in, or to call back, and send no more. They are answered without the rest."""
    monkeypatch.setattr(bodies, "BODY_SECONDS", 1.5)
    token = {"authorization": f"Bearer {'t' * 20}"}
    with served(filled, token="t" * 20) as found, ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(found.address)) for _ in range(500)]
        for number, one in enumerate(slow):
            path = ("/login", "/api/push/complete", "/api/jobs")[number % 3]
            one.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n{{".encode())
        assert httpx.get(f"{found.site}/api/stats", timeout=20, headers=token).status_code == 200
        for number, one in enumerate(slow):
            one.settimeout(20)
            assert int(one.recv(1000)[9:12]) == (408, 408, 401)[number % 3]
