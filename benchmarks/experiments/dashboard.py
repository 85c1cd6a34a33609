"""Every page of the dashboard and every GET route of its API, asked of the rows of `questions`."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from statistics import median
from urllib.parse import quote

from benchmarks.app import open_app
from benchmarks.bench import Bench, Figures
from benchmarks.experiments.questions import fill
from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.http.serve import server_of
from rowcall.http.server_options import settings
from rowcall.testing.deadline import eventually

TIMES = 5
PAGES = (
    "/",
    "/?window=24h",
    "/?window=7d",
    "/?window=30d",
    "/jobs",
    "/jobs?status=failed",
    "/jobs?status=running",
    "/jobs?status=pending&queue=mail",
    "/jobs?status=scheduled&queue=mail",
    "/jobs?type=charge&order=oldest",
    "/jobs?tag=vip",
    "/jobs?error_code=DEPENDENCY:*",
    "/jobs?created_after={then}",
    "/jobs?finished_before={then}",
    "/jobs?payload=customer%3D7",
    "/jobs?worker=long:gone:1",
    "/jobs/{id}",
    "/jobs/confirm?action=retry&error_code=DEPENDENCY:*",
    "/jobs/confirm?action=cancel&queue=mail&type=charge",
    "/jobs/confirm?action=delete&tag=vip",
    "/queues",
    "/schedules",
    "/workers",
    "/errors",
    "/errors?window=2592000",
    "/storage",
)
ROUTES = (
    "/api/jobs?status=failed",
    "/api/jobs?status=running&type=charge",
    "/api/jobs?status=pending",
    "/api/jobs?payload=customer%3D7",
    "/api/jobs/{id}",
    "/api/stats",
    "/api/errors",
    "/api/retries",
    "/api/stuck",
    "/api/retention",
    "/api/queues",
    "/api/schedules",
    "/api/workers",
    "/api/openapi.json",
    "/metrics",
    "/readyz",
    "/healthz",
)


def measure(bench: Bench) -> Figures:
    site = bench.kept_site("questions", lambda site: fill(bench, site))
    with open_app(site.url).jobs as jobs:
        then = quote((datetime.now(UTC) - timedelta(days=10)).isoformat(timespec="minutes"))
        job = jobs.list(status="failed", limit=1).jobs[0].id
        with _served(jobs) as port:
            first = _get_ms(port, "/")
            eventually(lambda: _is_counted(port), within=60)
            figures = {
                path: median(_get_ms(port, path.format(then=then, id=job)) for _ in range(TIMES))
                for path in (*PAGES, *ROUTES)
            }
    slowest_page, slowest_route = (max(figures[path] for path in paths) for paths in (PAGES, ROUTES))
    return {"first_ms": first, "page_ms": slowest_page, "route_ms": slowest_route, **figures}


@contextmanager
def _served(jobs: Rowcall) -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = server_of(queue_of(jobs), settings(), "127.0.0.1", 0)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            eventually(lambda: server.started)
            yield int(listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()


def _get(port: int, path: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={"connection": "close"})
    response = connection.getresponse()
    response.read()
    if response.status != http.client.OK:
        raise RuntimeError(f"GET {path} answered {response.status}")
    return response


def _get_ms(port: int, path: str) -> float:
    began = time.perf_counter()
    _get(port, path)
    return (time.perf_counter() - began) * 1000


def _is_counted(port: int) -> bool:
    """Whether pages are shown: until jobs have been counted, a page says so, and is loaded again."""
    return _get(port, "/").getheader("refresh") is None
