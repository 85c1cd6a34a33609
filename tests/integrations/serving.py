"""Call an ASGI app over HTTP, without a server, while its lifespan is entered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.applications import Starlette


class Client:
    def __init__(self, portal: BlockingPortal, client: httpx.AsyncClient) -> None:
        self._portal = portal
        self._client = client

    def get(self, path: str) -> httpx.Response:
        return self._portal.call(partial(self._client.get, path))

    def post(self, path: str) -> httpx.Response:
        return self._portal.call(partial(self._client.post, path))


@contextmanager
def serving(app: Starlette, *, raise_errors: bool = True) -> Iterator[Client]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=raise_errors)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(app.router.lifespan_context(app)),
        portal.wrap_async_context_manager(httpx.AsyncClient(transport=transport, base_url="http://site")) as client,
    ):
        yield Client(portal, client)
