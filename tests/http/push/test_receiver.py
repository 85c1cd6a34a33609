"""The endpoint that receives jobs. A claim by hand is one that a worker could be delivering."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from starlette.responses import Response

from rowcall import InvalidOption, Job, PushOptions, Rowcall, SystemClock
from rowcall.app import queue_of
from rowcall.domain.push_signatures import sign
from rowcall.http.push import receiver
from rowcall.http.push.delivery import body_of, message_id
from rowcall.http.push.receiver import Answers
from rowcall.http.server_options import AsgiApp
from tests.http.client import Client, client_of_app
from tests.http.push.target import OTHER_SECRET, SECRET

PUSH = PushOptions(secrets=[SECRET])


class App:
    """An app with tasks, and a worker's side of it."""

    def __init__(self, jobs: Rowcall, client: Client) -> None:
        self.jobs = jobs
        self.client = client
        self.called: list[str] = []

        @jobs.push("https://app.example/jobs")
        def greet(name: str) -> str:
            self.called.append(name)
            if name == "Eve":
                raise ConnectionResetError("no Eve")
            return f"hello {name}"

        @jobs.task(batch=10)
        def batched(names: list[str]) -> None: ...

        self.batched = batched

    def claimed(self, name: str, task: str = "greet") -> Job:
        self.jobs.enqueue(task, {"name": name})
        job = self.jobs.dequeue("worker")
        assert job is not None
        return job

    def deliver(self, job: Job, *, secret: str = SECRET, age: float = 0, method: str = "POST") -> httpx.Response:
        body = body_of(job, job.payload, PUSH)
        headers = sign([secret], message_id(job), int(SystemClock.wall() - age), body)
        return self.client.send(method, "/", body, **headers)


@contextmanager
def app_of(jobs: Rowcall, endpoint: AsgiApp | None = None) -> Iterator[App]:
    with client_of_app(endpoint or jobs.push_endpoint()) as client:
        yield App(jobs, client)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with Rowcall(tmp_path / "app.db", push=PUSH) as jobs, app_of(jobs) as found:
        yield found


def test_the_task_runs_in_place(app: App) -> None:
    answer = app.deliver(app.claimed("Ann"))
    assert (answer.status_code, answer.json()) == (200, "hello Ann")
    assert app.called == ["Ann"]


def test_a_request_that_comes_again_gets_the_same_answer(app: App) -> None:
    job = app.claimed("Ann")
    for _ in range(3):
        assert app.deliver(job).json() == "hello Ann"
    app.jobs.complete(job, result="hello Ann")
    assert app.deliver(job).json() == "hello Ann"
    assert app.called == ["Ann"]


def test_another_process_answers_a_settled_job_from_the_database(app: App) -> None:
    job = app.claimed("Ann")
    app.jobs.complete(job, result="by another process")
    assert app.deliver(job).json() == "by another process"
    assert app.called == []


def test_an_attempt_that_is_over_is_not_run(app: App) -> None:
    job = app.claimed("Ann")
    app.jobs.release(job)
    answer = app.deliver(job)
    assert (answer.status_code, answer.headers["rowcall-error-code"]) == (409, "PUSH:ATTEMPT_OVER")
    app.jobs.dequeue("worker")
    assert app.deliver(job).status_code == 409
    assert app.called == []


def test_a_failure_is_not_remembered(app: App) -> None:
    job = app.claimed("Eve")
    for _ in range(2):
        answer = app.deliver(job)
        assert (answer.status_code, answer.text) == (500, "no Eve")
        assert answer.headers["rowcall-error-code"] == "DEPENDENCY:CONNECTION_RESET"
    assert app.called == ["Eve", "Eve"]


def test_what_is_not_signed_or_too_old_is_refused(app: App) -> None:
    job = app.claimed("Ann")
    assert app.deliver(job, secret=OTHER_SECRET).status_code == 401
    assert app.deliver(job, age=301).status_code == 401
    assert app.deliver(job, age=-301).status_code == 401
    assert app.client.send("POST", "/", b"{}").status_code == 401
    assert app.deliver(job, method="GET").status_code == 405
    assert app.called == []


def test_arguments_that_do_not_fit_fail_for_good_and_unknown_tasks_are_retried(app: App) -> None:
    job = app.claimed("Ann")
    wrong = app.deliver(msgspec.structs.replace(job, payload={"name": 7}))
    assert (wrong.status_code, wrong.headers["rowcall-error-code"]) == (422, "INVALID_INPUT:SCHEMA_MISMATCH")
    unknown = app.deliver(app.claimed("Ann", task="other"))
    assert (unknown.status_code, unknown.headers["rowcall-error-code"]) == (503, "PUSH:UNKNOWN_TASK")
    app.batched.enqueue("Ann")
    batched = app.jobs.dequeue("worker")
    assert batched is not None
    assert app.deliver(batched).status_code == 422


def test_a_body_is_bounded(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", push=PUSH, payload_limit=1024, blob_threshold=1024) as jobs, app_of(jobs) as app:
        headers = sign([SECRET], "job-1-5", int(SystemClock.wall()), b"")
        assert app.client.send("POST", "/", b"x" * 70_000, **headers).status_code == 413


def test_an_app_without_the_database_looks_nothing_up(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", push=PUSH) as worker, Rowcall(tmp_path / "none.db", push=PUSH) as jobs:
        with app_of(jobs, jobs.push_endpoint(look_up=False)) as app:
            worker.enqueue("greet", {"name": "Ann"})
            job = worker.dequeue("worker")
            assert job is not None
            assert app.deliver(job).json() == "hello Ann"
        assert not (tmp_path / "none.db").exists()


def test_an_endpoint_needs_a_secret(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs, pytest.raises(InvalidOption, match="push is missing"):
        jobs.push_endpoint()


def test_two_copies_at_once_run_once(app: App) -> None:
    called: list[int] = []

    async def both() -> list[object]:
        started, release = asyncio.Event(), asyncio.Event()

        async def run() -> Response:
            called.append(1)
            started.set()
            await release.wait()
            return Response("done")

        answers = Answers(queue_of(app.jobs))
        copies = [asyncio.create_task(answers.once("job-1-5", 60, run)) for _ in range(2)]
        await started.wait()
        copies[0].cancel()  # its client has left
        release.set()
        return [(await copies[1]).body, (await answers.once("job-1-5", 60, run)).body]

    assert asyncio.run(both()) == [b"done", b"done"]
    assert called == [1]


def test_answers_are_forgotten_after_a_while(app: App) -> None:
    async def each() -> int:
        async def run() -> Response:
            return Response("done")

        answers = Answers(queue_of(app.jobs))
        for number in range(3):
            await answers.once(f"job-{number}", 0.0 if number == 0 else 60, run)
        return len(answers)

    assert asyncio.run(each()) == 2


class Sending:
    """A request that reaches the app as `client` says, and what was read of it."""

    def __init__(self, app: AsgiApp, headers: dict[str, str], *chunks: bytes) -> None:
        self.reads, self.statuses = 0, list[int]()
        self.released = asyncio.Event()
        self._app, self._headers, self._chunks = app, headers, list(chunks)

    async def _receive(self) -> dict[str, object]:
        self.reads += 1
        if self._chunks:
            return {"type": "http.request", "body": self._chunks.pop(0), "more_body": True}
        await self.released.wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])

    async def run(self) -> int:
        headers = [(name.encode(), value.encode()) for name, value in self._headers.items()]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers, "query_string": b""}
        await self._app(scope, self._receive, self._send)
        return self.statuses[0]


def forged(**changes: str) -> dict[str, str]:
    headers = sign([OTHER_SECRET], "job-1-5", int(SystemClock.wall()), b"{}")
    return {**headers, "content-length": "2", **{name.replace("_", "-"): text for name, text in changes.items()}}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"webhook_id": ""}, 401),
        ({"webhook_id": "a b"}, 401),
        ({"webhook_timestamp": "1000"}, 401),
        ({"webhook_timestamp": "9" * 400}, 401),
        ({"webhook_signature": "v1,short"}, 401),
        ({"content_length": str(10**9)}, 413),
        ({"content_length": "9" * 5000}, 413),
    ],
)
def test_the_headers_are_checked_before_the_body_is_read(app: App, changes: dict[str, str], status: int) -> None:
    sending = Sending(app.jobs.push_endpoint(), forged(**changes))
    assert asyncio.run(sending.run()) == status
    assert sending.reads == 0


def test_large_bodies_that_anyone_may_have_sent_share_room_and_others_do_not_wait(app: App) -> None:
    endpoint = app.jobs.push_endpoint()
    most = queue_of(app.jobs).declared.options.payload_limit
    some = b" " * (most // 2)

    async def run() -> None:
        silent, first, second, third = (
            Sending(endpoint, forged(content_length=length), *chunks)
            for length, chunks in ((str(most), ()), ("", (some,)), (str(most), (some, b" ", b" ")), ("", (some, b" ")))
        )
        running = [asyncio.create_task(one.run()) for one in (silent, first, second, third)]
        small = Sending(endpoint, forged(), b"{}")
        small.released.set()
        assert await small.run() == 401
        assert [one.reads for one in (silent, first, second, third)] == [1, 2, 4, 1]  # the third has no room for more
        for one, task in zip((first, second, third, silent), (*running[1:], running[0]), strict=True):
            one.released.set()
            assert await task == 401

    asyncio.run(run())


def test_a_body_that_takes_too_long_is_given_up(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "BODY_SECONDS", 0.01)
    assert asyncio.run(Sending(app.jobs.push_endpoint(), forged()).run()) == 408
