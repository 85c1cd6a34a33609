"""The app for WSGI servers: the same ASGI app, run on an event loop in a thread."""

from __future__ import annotations

import msgspec
from a2wsgi import ASGIMiddleware

from rowcall.http.app import asgi_app
from rowcall.http.settings import Settings, WsgiApp
from rowcall.queue import Queue


def wsgi_app(queue: Queue, settings: Settings) -> WsgiApp:
    app = asgi_app(queue, msgspec.structs.replace(settings, streams=False))
    return ASGIMiddleware(app)  # type: ignore[arg-type, return-value]
