from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request

from rowcall import Rowcall
from rowcall.http.wrong_tokens import (
    AT_ONCE,
    FORGOTTEN_AFTER_SECONDS,
    LINES_SECONDS,
    MOST_ADDRESSES,
    MOST_DELAYED,
    MOST_LINES,
    WrongTokens,
)
from rowcall.testing import FakeClock
from tests.http.client import SITE, client_of
from tests.http.test_wsgi import asked

TOKEN = "t" * 20


class Delays(FakeClock):
    """Notes how long it is asked to sleep. With `held`, sleepers wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []
        self.held: asyncio.Event | None = None

    async def asleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.held is not None:
            await self.held.wait()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "wrong token" in record.getMessage()]


def test_wrong_tokens_are_answered_later_and_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Delays()
    with Rowcall(tmp_path / "app.db", clock=clock) as jobs, client_of(jobs, token=TOKEN) as client:
        for _ in range(AT_ONCE + 4):
            assert client.get("/api/jobs", authorization="Bearer wrong").status_code == 401
        assert clock.slept == [0.25, 0.5, 1.0, 2.0]
        assert client.submit("/login", "/login", {"token": "wrong"}).status_code == 403
        assert client.submit("/login", "/login", {"token": "wrong"}).status_code == 403
        assert clock.slept[4:] == [4.0, 5.0]
        assert client.get("/api/jobs", authorization=f"Bearer {TOKEN}").status_code == 200
        assert client.get("/api/jobs").status_code == 401  # no token is not a wrong one
        assert len(clock.slept) == 6
        clock.advance(FORGOTTEN_AFTER_SECONDS + 1)
        assert client.get("/api/jobs", authorization="Bearer wrong").status_code == 401
        assert len(clock.slept) == 6
    assert lines(caplog) == [
        f"refused a wrong token from '127.0.0.1' ({count} of this address lately)" for count in (1, 2, 4, 8, 1)
    ]
    assert {record.levelname for record in caplog.records if "wrong token" in record.message} == {"WARNING"}
    assert "Bearer" not in caplog.text


def test_a_flood_of_wrong_tokens_leaves_room_for_others(tmp_path: Path) -> None:
    clock = Delays()

    async def flood(jobs: Rowcall) -> None:
        transport = httpx.ASGITransport(app=jobs.asgi(token=TOKEN))
        clock.held = asyncio.Event()

        def ask(token: str) -> asyncio.Task[httpx.Response]:
            return asyncio.create_task(client.get("/api/jobs", headers={"authorization": f"Bearer {token}"}))

        async with httpx.AsyncClient(transport=transport, base_url=SITE) as client:
            asked = [ask("wrong") for _ in range(100)]
            at_once = AT_ONCE + 100 - AT_ONCE - MOST_DELAYED
            answers = [await one for one in asyncio.as_completed(asked[:AT_ONCE] + asked[AT_ONCE + MOST_DELAYED :])]
            assert len(answers) == at_once
            assert sorted({answer.status_code for answer in answers}) == [401, 429]
            assert {answer.headers.get("retry-after") for answer in answers if answer.status_code == 429} == {"5"}
            assert (await ask(TOKEN)).status_code == 200
            clock.held.set()
            assert {(await one).status_code for one in asked[AT_ONCE : AT_ONCE + MOST_DELAYED]} == {401}
            assert (await ask("wrong")).status_code == 401

    with Rowcall(tmp_path / "app.db", clock=clock) as jobs:
        asyncio.run(flood(jobs))


def test_a_thread_of_a_wsgi_server_is_not_kept(tmp_path: Path) -> None:
    clock = Delays()
    with Rowcall(tmp_path / "app.db", clock=clock) as jobs:
        app = jobs.wsgi(token=TOKEN)
        found = [asked(app, HTTP_AUTHORIZATION="Bearer wrong", REMOTE_ADDR="10.0.0.7") for _ in range(AT_ONCE + 2)]
        assert found == [401] * AT_ONCE + [429] * 2
        assert asked(app, HTTP_AUTHORIZATION=f"Bearer {TOKEN}", REMOTE_ADDR="10.0.0.7") == 200
    assert clock.slept == []


def test_many_addresses_need_little_memory_and_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    clock = Delays()
    wrong_tokens = WrongTokens(clock, delays=True)

    async def flood() -> None:
        for number in range(MOST_ADDRESSES + 100):
            await wrong_tokens.slow_down(Request({"type": "http", "client": (f"10.0.0.{number}", 1)}))
        clock.advance(LINES_SECONDS)
        await wrong_tokens.slow_down(Request({"type": "http", "client": None}))

    asyncio.run(flood())
    assert len(wrong_tokens._counts) == MOST_ADDRESSES
    assert len(lines(caplog)) == MOST_LINES + 1
