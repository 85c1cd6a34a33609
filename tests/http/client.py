"""A client of an ASGI app, without a server: it keeps cookies, and fills in forms as a browser does."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Unpack

import httpx

from rowcall import Rowcall
from rowcall.http.server_options import AsgiApp, HttpOptions

SITE = "http://127.0.0.1:8642"
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class Client:
    def __init__(self, app: AsgiApp, runner: asyncio.Runner, site: str = SITE, address: str = "127.0.0.1") -> None:
        self._runner = runner
        transport = httpx.ASGITransport(app=app, client=(address, 5000))
        self.http = httpx.AsyncClient(transport=transport, base_url=site)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self._runner.run(self.http.get(path, headers=_named(headers)))

    def page(self, path: str) -> str:
        answer = self.get(path)
        while answer.headers.get("refresh") == "1":  # it still counts: a busy machine needs a tenth of a second
            answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def post(self, path: str, body: object = None, *, method: str = "POST", **headers: str) -> httpx.Response:
        request = self.http.request(method, path, json={} if body is None else body, headers=_named(headers))
        return self._runner.run(request)

    def send(self, method: str, path: str, content: bytes, **headers: str) -> httpx.Response:
        return self._runner.run(self.http.request(method, path, content=content, headers=_named(headers)))

    def submit(self, page: str, action: str, fields: Mapping[str, str | list[str]] | None = None) -> httpx.Response:
        """Open a page, and submit a form on it."""
        found = _CSRF.search(self.page(page))
        assert found is not None, "the page has no form"
        form = {"csrf": found[1], "return_to": page, **(fields or {})}
        return self._runner.run(self.http.post(action, data=form))


@contextmanager
def client_of(jobs: Rowcall, **options: Unpack[HttpOptions]) -> Iterator[Client]:
    with client_of_app(jobs.asgi(**options)) as client:
        yield client


@contextmanager
def client_of_app(app: AsgiApp, site: str = SITE, address: str = "127.0.0.1") -> Iterator[Client]:
    with asyncio.Runner() as runner:
        client = Client(app, runner, site, address)
        yield client
        runner.run(client.http.aclose())


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
