"""A context manager around attempts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rowcall import Context, Rowcall
from rowcall.middleware import around


def test_one_manager_serves_both_kinds_of_tasks(tmp_path: Path) -> None:
    seen: list[str] = []

    with Rowcall(tmp_path / "app.db") as jobs:

        @jobs.middleware
        @around
        @contextmanager
        def noted(ctx: Context) -> Iterator[None]:
            seen.append(f"before {ctx.job.type}")
            try:
                yield
            finally:
                seen.append(f"after {ctx.job.type}")

        @jobs.task(max_attempts=1)
        def fails() -> None:
            raise OSError

        @jobs.task
        async def waits() -> str:
            seen.append("handler")
            return "done"

        sent = [fails.enqueue(), waits.enqueue()]
        jobs.drain(concurrency=1)
        assert [jobs.get(job).status for job in sent] == ["failed", "succeeded"]
    assert seen == ["before fails", "after fails", "before waits", "handler", "after waits"]
    assert repr(noted).endswith(".noted>")
