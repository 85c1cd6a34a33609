"""`rowcall dashboard`: serve the app by uvicorn."""

from __future__ import annotations

import uvicorn

from rowcall.domain.errors import InvalidOption
from rowcall.http.app import asgi_app
from rowcall.http.guard import is_loopback
from rowcall.http.settings import Settings
from rowcall.queue import Queue

MOST_CONNECTIONS = 512
IDLE_SECONDS = 15
LARGEST_HEAD = 32 * 1024


def server_of(queue: Queue, settings: Settings, host: str, port: int, root_path: str = "") -> uvicorn.Server:
    """Return a server, or raise `InvalidOption` if others could reach it and need not sign in."""
    if settings.is_open and not is_loopback(host):
        problem = f"{host!r} can be reached from elsewhere: set $ROWCALL_DASHBOARD_TOKEN, or use 127.0.0.1"
        raise InvalidOption("host", problem)
    config = uvicorn.Config(
        asgi_app(queue, settings),
        host=host,
        port=port,
        root_path=root_path,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        http="h11",
    )
    return uvicorn.Server(config)
