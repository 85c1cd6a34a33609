"""The app for WSGI servers: the same ASGI app, run on an event loop in a thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from a2wsgi import ASGIMiddleware
from starlette.types import Message, Receive, Scope, Send

from rowcall.http.app import asgi_app
from rowcall.http.server_options import HttpSettings, WsgiApp
from rowcall.queue import Queue

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


def wsgi_app(queue: Queue, settings: HttpSettings) -> WsgiApp:
    app = asgi_app(queue, msgspec.structs.replace(settings, streams=False))

    async def without_endless_bodies(scope: Scope, receive: Receive, send: Send) -> None:
        async def receive_part() -> Message:
            message = await receive()
            is_cut_off = message.get("more_body") and not message.get("body")
            return {"type": "http.disconnect"} if is_cut_off else message

        await app(scope, receive_part, send)

    bridge = ASGIMiddleware(without_endless_bodies)  # type: ignore[arg-type]

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not _is_readable(environ):
            start_response("400 Bad Request", [("Content-Type", "text/plain")])
            return [b"the path, the query or the length of the body cannot be read\n"]
        # the bridge drops the client's address without a port, which many servers do not know, and no one needs here
        return bridge({**environ, "REMOTE_PORT": "0"}, start_response)  # type: ignore[arg-type, typeddict-item]

    return answer


def _is_readable(environ: WSGIEnvironment) -> bool:
    """Return whether the bridge can read what a client sent. It would raise otherwise."""
    try:
        for name in ("SCRIPT_NAME", "PATH_INFO"):
            environ.get(name, "").encode("latin-1").decode()
        environ.get("QUERY_STRING", "").encode("ascii")
        int(environ.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return False
    return True
