"""Errors of handlers in Sentry, by the real library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sentry_sdk

from rowcall import Fail, Rowcall
from rowcall.middleware import sentry

Events = list[dict[str, object]]


@pytest.fixture
def events() -> Iterator[Events]:
    found: Events = []

    def keep(event: Events, hint: object) -> None:
        found.append(event)  # type: ignore[arg-type]

    options = {"default_integrations": False, "auto_session_tracking": False, "send_client_reports": False}
    sentry_sdk.init("https://key@localhost/1", before_send=keep, **options)
    yield found
    sentry_sdk.get_client().close(timeout=0)
    sentry_sdk.init(**options)


def test_exceptions_are_reported_with_their_job(tmp_path: Path, events: Events) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:
        jobs.middleware(sentry())

        @jobs.task(max_attempts=1)
        def in_a_thread() -> None:
            raise OSError("disk gone")

        @jobs.task(max_attempts=1)
        async def on_the_loop() -> None:
            sentry_sdk.set_tag("own", "yes")
            raise ValueError("bad")

        @jobs.task
        async def chosen() -> None:
            raise Fail("A:B", "said so")

        sent = [in_a_thread.enqueue(), on_the_loop.enqueue(), chosen.enqueue()]
        assert jobs.drain(concurrency=1).failed == 3
    reported = [(event["transaction"], event["contexts"]["rowcall"]["job_id"]) for event in events]  # type: ignore[index]
    assert reported == [("in_a_thread", sent[0].id), ("on_the_loop", sent[1].id)]
    assert events[0]["tags"] == {"rowcall.task": "in_a_thread", "rowcall.queue": "default"}
    assert events[1]["tags"]["own"] == "yes"  # type: ignore[index]
