"""How the end of a task becomes an answer."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.responses import Response

from rowcall import Cancel, Context, Fail, PushedJob, PushOptions, Retry, Rowcall, Snooze, current
from rowcall.http.push.running import run_received
from tests.http.push.target import SECRET

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PUSH = PushOptions(secrets=[SECRET])


def answer(tmp_path: Path, handler: object, **arguments: object) -> Response:
    with Rowcall(tmp_path / "app.db", push=PUSH) as jobs:
        jobs.task(name="task")(handler)  # type: ignore[call-overload]
        pushed = PushedJob(
            id=7,
            task="task",
            arguments=arguments,
            queue="mail",
            attempt=2,
            max_attempts=5,
            created_at=NOW,
            token="",
        )
        return asyncio.run(run_received(jobs.declared_task("task"), pushed, NOW.timestamp()))


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (Retry(delay=2.5), 503, "RETRY:REQUESTED", "3"),
        (Retry(run_at=NOW + timedelta(minutes=1)), 503, "RETRY:REQUESTED", "60"),
        (Snooze(delay=60), 503, "RETRY:REQUESTED", "60"),
        (Fail("MAIL:BOUNCED", "full"), 422, "MAIL:BOUNCED", None),
        (Cancel("too late"), 422, "CANCELLED:BY_HANDLER", None),
        (ValueError("odd"), 500, "INTERNAL:ValueError", None),
    ],
)
def test_errors_become_statuses(
    tmp_path: Path, error: Exception, status: int, code: str, retry_after: str | None
) -> None:
    def handler() -> None:
        raise error

    found = answer(tmp_path, handler)
    assert (found.status_code, found.headers["rowcall-error-code"]) == (status, code)
    assert found.headers.get("retry-after") == retry_after


def test_a_context_knows_the_job_and_says_what_it_cannot_do(tmp_path: Path) -> None:
    async def handler(ctx: Context, name: str) -> dict[str, object]:
        ctx.progress(0.5, "half")
        assert current() is ctx
        refused = []
        for use in ("resources", "continue_with", "aprevious", "ablockers", "acomplete"):
            try:
                found = getattr(ctx, use)
                found = found("x") if use == "continue_with" else found(connection=None) if "comp" in use else found()
                await found
            except RuntimeError as error:
                refused.append(str(error))
        return {"id": ctx.job.id, "queue": ctx.job.queue, "attempt": ctx.job.attempt, "refused": len(refused)}

    found = answer(tmp_path, handler, name="Ann")
    assert found.body == b'{"id":7,"queue":"mail","attempt":2,"refused":5}'


def test_a_wrong_result_is_not_retried(tmp_path: Path) -> None:
    def handler() -> int:
        return "seven"  # type: ignore[return-value]

    found = answer(tmp_path, handler)
    assert (found.status_code, found.headers["rowcall-error-code"]) == (422, "INVALID_OUTPUT:WRONG_TYPE")


def test_nothing_is_null(tmp_path: Path) -> None:
    def handler() -> None: ...

    assert answer(tmp_path, handler).body == b"null"
