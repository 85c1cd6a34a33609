"""Requests that a framework passes on to the app."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Semaphore

import pytest

from rowcall import Access, Rowcall
from rowcall.app import queue_of
from rowcall.http.hosted import HostedRequest, HostedResponse, hosted_app, respond_in_loop

Body = bytes | Callable[[int], bytes]


def asked(jobs: Rowcall, path: str, method: str = "GET", body: Body = b"", **headers: str) -> HostedResponse:
    request = HostedRequest(
        visitor=Access("ann", "operate") if "user" in headers else None,
        method=method,
        scheme="https",
        root="/ops",
        path=path,
        query="limit=1",
        headers=[("Host", "shop.example"), *headers.items()],
        client="10.0.0.7",
        read_body=io.BytesIO(body).read if isinstance(body, bytes) else body,
    )
    return respond_in_loop(hosted_app(queue_of(jobs), frozenset({"https://ops.example"})), request)


def test_a_request_is_answered_as_if_a_server_had_it(filled: Rowcall) -> None:
    answer = asked(filled, "/api/jobs", user="ann")
    assert (answer.status, dict(answer.headers)["content-type"]) == (200, "application/json")
    assert answer.body.count(b'"id"') == 1  # as the query says
    page = asked(filled, "/jobs/2", user="ann", accept="text/html")
    assert b'href="/ops/static/rowcall.css' in page.body
    assert b"data-live-from" not in page.body
    assert [name for name, _ in page.headers].count("set-cookie") == 1


def test_the_body_is_read_if_the_visitor_may_ask(filled: Rowcall) -> None:
    length = {"content-type": "application/json", "content-length": "17"}
    body = b'{"reason": "old"}'
    for origin in ("https://shop.example", "https://ops.example"):
        answer = asked(filled, "/api/jobs/2/retry", "POST", b"{}", user="ann", origin=origin, **length)
        assert answer.status in (200, 409), answer.body
    assert asked(filled, "/api/jobs/2/cancel", "POST", body, user="ann", **length).status == 200
    assert filled.timeline(2)[-1].actor == "ann"
    assert asked(filled, "/api/jobs/2/retry", "POST", body, **length).status == 401
    assert asked(filled, "/api/jobs/2/retry", "POST", body, user="ann", origin="https://evil.example").status == 403


def test_slow_clients_that_have_not_signed_in_do_not_keep_others_out(filled: Rowcall) -> None:
    reading, gone = Semaphore(0), Event()

    def slowly(most: int) -> bytes:
        reading.release()
        gone.wait(20)
        raise OSError("the client has left")

    with ThreadPoolExecutor(40) as threads:
        path = "/api/push/complete"
        slow = [threads.submit(asked, filled, path, "POST", slowly) for _ in range(40)]
        for _ in slow:
            assert reading.acquire(timeout=20)
        json = {"content-type": "application/json", "content-length": "2"}
        assert asked(filled, "/api/jobs/2/retry", "POST", b"{}", user="ann", **json).status == 200
        gone.set()
        assert {type(one.exception()) for one in slow} == {OSError}


def test_a_request_without_a_body_may_have_an_empty_length(filled: Rowcall) -> None:
    """So does the server of Django's `runserver`."""
    assert asked(filled, "/api/jobs/2", "DELETE", b"", user="ann", **{"content-length": ""}).status == 200


def test_a_child_process_has_another_loop(filled: Rowcall) -> None:
    assert asked(filled, "/healthz").status == 200
    child = os.fork()
    if child == 0:
        os._exit(0 if asked(filled, "/healthz").status == 200 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_error_of_the_app_is_raised(filled: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowcall.http.probes.healthz", None)
    with pytest.raises(TypeError):
        asked(filled, "/healthz")
