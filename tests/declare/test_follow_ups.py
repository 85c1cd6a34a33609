"""What is refused as a handler of ends or as an observer, and what a job carries of the handlers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rowcall import Context, DuplicateTask, InvalidOption, JobOutcome, Rowcall, TaskDefaults
from rowcall.app import queue_of


def without_an_argument() -> None: ...


def with_another_argument(job: JobOutcome, more: int = 0) -> None: ...


def with_another_type(job: dict[str, object]) -> None: ...


@pytest.mark.parametrize("function", [without_an_argument, with_another_argument, with_another_type])
def test_a_handler_takes_one_outcome(jobs: Rowcall, function: Callable[..., None]) -> None:
    @jobs.task
    def work() -> None: ...

    with pytest.raises(InvalidOption, match="must take one argument, job: JobOutcome"):
        work.on_failure(function)
    assert list(queue_of(jobs).declared.tasks) == ["work"]


def test_options_that_jobs_of_handlers_cannot_have_are_refused(jobs: Rowcall) -> None:
    @jobs.task
    def work() -> None: ...

    with pytest.raises(InvalidOption, match=r"tags cannot be .* a follow-up, .*; remove it from 'with_outcome'"):
        work.on_failure(tags=["alert"])(with_outcome)
    with pytest.raises(InvalidOption, match="ordered_by cannot be an option of a follow-up"):
        work.on_success(ordered_by="job")(with_outcome)
    assert list(queue_of(jobs).declared.tasks) == ["work"]


def test_two_handlers_of_one_end_are_refused_and_nothing_is_declared(jobs: Rowcall) -> None:
    @jobs.task
    def work() -> None: ...

    @work.on_failure
    def failed(job: JobOutcome) -> None: ...

    with pytest.raises(InvalidOption, match="of failed jobs of 'work' is already declared: 'failed'"):

        @work.on_failure(cancelled=True)
        def again(ctx: Context, job: JobOutcome) -> None: ...

    with pytest.raises(DuplicateTask):
        work.on_success(name="failed")(with_outcome)
    with pytest.raises(InvalidOption, match="'work' is already a task; pass it without options"):
        work.on_success(queue="x")(work)
    assert sorted(queue_of(jobs).declared.tasks) == ["failed", "work"]
    assert json.loads(queue_of(jobs).declared.follow_ups.on_end_of("work", "default") or "") == {
        "failed": {"type": "failed", "queue": "default", "priority": 0, "max_attempts": 5}
    }


def with_outcome(job: JobOutcome) -> None: ...


def test_a_handler_cannot_follow_itself(jobs: Rowcall) -> None:
    @jobs.task
    def first(job: JobOutcome) -> None: ...

    @first.on_failure
    def second(job: JobOutcome) -> None: ...

    for handler in (first, second):
        with pytest.raises(InvalidOption, match="'first' would follow its own end"):
            handler.on_failure(first)


def test_the_handler_of_a_task_comes_before_that_of_its_queue_and_of_the_app(tmp_path: Path) -> None:
    defaults = TaskDefaults(on_failure="dead", queues={"mail": TaskDefaults(on_failure="returned")})
    with Rowcall(tmp_path / "app.db", defaults=defaults) as jobs:
        follow_ups = queue_of(jobs).declared.follow_ups

        @jobs.task(aliases=["old"])
        def work() -> None: ...

        with pytest.raises(InvalidOption, match="'dead' must take one argument, job: JobOutcome"):
            jobs.task(name="dead")(without_an_argument)

        def handler_of(task: str, queue: str) -> object:
            return json.loads(follow_ups.on_end_of(task, queue) or "{}").get("failed", {}).get("type")

        assert [handler_of("work", queue) for queue in ("default", "mail")] == ["dead", "returned"]
        assert [handler_of(name, "mail") for name in ("dead", "returned", "unknown")] == [None, None, "returned"]
        jobs.task(name="dead", queue="ops")(with_outcome)
        assert '"queue":"ops"' in (follow_ups.on_end_of("work", "default") or "")
        work.on_failure(name="own")(with_outcome)
        assert [handler_of(name, "mail") for name in ("work", "old", "own")] == ["own", "own", None]


def test_a_job_without_handlers_carries_nothing(jobs: Rowcall) -> None:
    follow_ups = queue_of(jobs).declared.follow_ups
    assert (follow_ups.any, follow_ups.on_end_of("work", "default")) == (False, None)


async def async_observer(job: JobOutcome) -> None: ...


def test_an_unknown_event_and_an_async_observer_are_refused(jobs: Rowcall) -> None:
    with pytest.raises(InvalidOption, match=r"must be one of succeeded, failed, .*, got 'fail' .did you mean 'failed'"):
        jobs.on("fail", print)  # type: ignore[call-overload]
    with pytest.raises(InvalidOption, match="must be a function that is not async"):
        jobs.on("failed", async_observer)
    with pytest.raises(InvalidOption, match="must be a function that is not async, got 3"):
        jobs.on("failed", 3)  # type: ignore[call-overload]
    with pytest.raises(InvalidOption, match="on_failure"):
        TaskDefaults(on_failure="")
