from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from starlette.responses import RedirectResponse

from rowcall import Access, Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.http.server_options import settings
from rowcall.http.sessions import SESSION_SECONDS, Sessions, find_token
from rowcall.testing import FakeClock
from tests.http.client import client_of

TOKEN, READ_TOKEN = "t" * 20, "r" * 20


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


def test_a_session_ends_with_its_time_with_its_token_and_by_hand(tmp_path: Path) -> None:
    clock = FakeClock()

    async def check(jobs: Rowcall, other: Rowcall) -> None:
        sessions = Sessions(queue_of(jobs), settings(token={"ann": TOKEN}))
        elsewhere = Sessions(queue_of(other), settings(token={"ann": TOKEN}))
        cookie, second = sessions.cookie(TOKEN), sessions.cookie(TOKEN)
        assert await sessions.access(cookie) == await elsewhere.access(cookie) == Access("ann", "operate")
        for wrong in ("", "x", "x.y", "x.y.z", f"f{cookie}", cookie[:-1], f"{cookie}.x"):
            assert await sessions.access(wrong) is None
            await sessions.end(wrong)
        assert await Sessions(queue_of(jobs), settings(read_token=READ_TOKEN)).access(cookie) is None
        await sessions.end(cookie)
        await sessions.end(cookie)
        assert await sessions.access(cookie) is await elsewhere.access(cookie) is None
        assert await elsewhere.access(second) == Access("ann", "operate")
        clock.advance(SESSION_SECONDS - 1)
        other.prune()
        assert await sessions.access(cookie) is None
        assert await sessions.access(second) is not None
        clock.advance(1)
        assert await sessions.access(second) is None

    path = tmp_path / "app.db"
    with Rowcall(path, clock=clock) as jobs, Rowcall(path, clock=clock) as other:
        asyncio.run(check(jobs, other))


def test_without_the_database_no_session_is_believed(filled: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says so, with the status of an outage: it is not a reason to sign in again."""
    with client_of(filled, token=TOKEN) as client:
        client.submit("/login", "/login", {"token": TOKEN, "next": "/jobs"})
        assert client.get("/jobs").status_code == 200

        def fail(queue: object, name: str) -> object:
            raise StoreUnavailable("app.db: disk I/O error")

        monkeypatch.setattr("rowcall.http.sessions.has_note", fail)
        page = client.get("/jobs", accept="text/html")
        assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
        assert client.get("/api/jobs").json()["title"] == "Store unavailable"


def test_a_session_is_as_good_as_its_token_where_the_app_answers_strangers(filled: Rowcall) -> None:
    cookie = Sessions(queue_of(filled), settings(token=TOKEN)).cookie(TOKEN)
    with client_of(filled, token=TOKEN, authorize=lambda request: RedirectResponse("/sign-in")) as client:
        assert client.get("/jobs").headers["location"] == "/sign-in"
        assert client.get("/jobs", authorization=f"Bearer {TOKEN}").status_code == 200
        assert client.get("/jobs", cookie=f"rowcall_session={cookie}").status_code == 200
