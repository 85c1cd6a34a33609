from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rowcall import Backoff, Context, Limit, PushOptions, Rowcall, Status, TaskDefaults
from rowcall.app import queue_of
from rowcall.domain.payload import parameters_of
from rowcall.overview.tasks import TaskOverview, shown_as, tasks_of


@pytest.fixture
def found(tmp_path: Path) -> dict[str, TaskOverview]:
    defaults = TaskDefaults(max_attempts=9, timeout=60, queues={"mail": TaskDefaults(retry=Backoff.constant(1))})
    jobs = Rowcall(tmp_path / "queue.db", default_queue="web", defaults=defaults)

    def slower(attempt: int, error: BaseException) -> float:
        return attempt

    @jobs.task(queue="mail", aliases=["post"], on="order.paid", limit=Limit("smtp", concurrency=2), tags=["out"])
    async def send(ctx: Context, to: str, copies: int = 1) -> None: ...

    @jobs.task(max_attempts=2, timeout=5, retry=slower, priority=3)
    def plain() -> None: ...

    @jobs.task(batch=10)
    def index(items: list[int]) -> None: ...

    counts = {"post": {"pending": 2}, "send": {"pending": 1, "failed": 4}, "gone": {"running": 1}}
    return {task.name: task for task in tasks_of(queue_of(jobs), counts)}


def test_declared_tasks_come_first_by_name(found: dict[str, TaskOverview]) -> None:
    assert list(found) == ["index", "plain", "send", "gone"]
    assert [task.declared for task in found.values()] == [True, True, True, False]


def test_options_are_shown_as_they_apply(found: dict[str, TaskOverview]) -> None:
    send, plain, index = found["send"], found["plain"], found["index"]
    assert (send.queue, send.max_attempts, send.timeout, send.runs_in) == ("mail", 9, 60.0, "loop")
    assert send.retry == Backoff.constant(1).to_dict()
    assert (send.arguments, send.optional) == (["to", "copies"], ["copies"])
    assert (send.aliases, send.on, send.limits, send.tags) == (["post"], ["order.paid"], ["smtp"], ["out"])
    assert (plain.queue, plain.max_attempts, plain.timeout, plain.priority) == ("web", 2, 5.0, 3)
    assert str(plain.retry).endswith("slower")
    assert (index.arguments, index.batch) == (["item"], 10)


def test_a_handler_is_shown_as_the_function_that_it_calls(tmp_path: Path) -> None:
    def paid(self: object, order: int, *notes: str, copies: int = 1, **more: str) -> None: ...

    with Rowcall(tmp_path / "app.db") as jobs:
        handler: Callable[..., None] = lambda args, kwargs: None  # noqa: E731
        jobs.task(name="paid")(shown_as(handler, paid, parameters_of(paid)[1:]))
        (found,) = tasks_of(queue_of(jobs), {})
    assert (found.function, found.arguments) == (
        f"{__name__}.test_a_handler_is_shown_as_the_function_that_it_calls.<locals>.paid",
        ["order", "*notes", "copies", "**more"],
    )
    assert found.optional == ["*notes", "copies", "**more"]


def test_jobs_of_an_alias_count_for_its_task(found: dict[str, TaskOverview]) -> None:
    assert (found["send"].jobs["pending"], found["send"].jobs["failed"]) == (3, 4)
    assert found["plain"].jobs == dict.fromkeys(Status, 0)
    assert found["gone"].jobs["running"] == 1


def test_a_pushed_task_runs_at_its_target(tmp_path: Path) -> None:
    push = PushOptions(secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
    with Rowcall(tmp_path / "app.db", push=push) as jobs:

        @jobs.push("https://app.example/jobs/send")
        def send() -> None: ...

        (found,) = tasks_of(queue_of(jobs), {})
        assert found.runs_in == "push"
