"""Jobs that run in the calling thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Annotated

import pytest

from rowcall import INJECTED, Cancel, Context, Depends, Rowcall, Snooze
from rowcall.app import queue_of
from rowcall.testing.calling_thread import CallingThreadWorker


@pytest.fixture
def jobs() -> Iterator[Rowcall]:
    with Rowcall("sqlite:///:memory:") as made:
        yield made


def test_every_kind_of_handler_runs_here(jobs: Rowcall) -> None:
    threads: set[int] = set()

    @jobs.lifespan
    def resources() -> Iterator[str]:
        yield "open"

    @jobs.task
    def plain(ctx: Context[str], opened: Annotated[list[int], Depends(list, scope="worker")] = INJECTED) -> str:
        assert opened == []
        threads.add(threading.get_ident())
        ctx.progress(0.5, "half")
        return ctx.resources

    @jobs.task
    async def on_a_loop() -> int:
        threads.add(threading.get_ident())
        return 7

    @jobs.task(batch=3)
    def together(numbers: list[int]) -> list[int]:
        return [number * len(numbers) for number in numbers]

    made = [plain.enqueue(), on_a_loop.enqueue(), *(together.enqueue(number) for number in (1, 2))]
    assert CallingThreadWorker(queue_of(jobs)).drain().succeeded == 4
    assert [jobs.get(job.id).result for job in made] == ["open", 7, 2, 4]
    assert jobs.get(made[0].id).progress_message == "half"
    assert threads == {threading.get_ident()}


def test_only_failures_are_raised_after_they_are_settled(jobs: Rowcall) -> None:
    @jobs.task
    def end(how: str) -> None:
        raise {"snooze": Snooze(60), "cancel": Cancel("why"), "exit": SystemExit(3), "fail": KeyError("x")}[how]

    made = {how: end.using(max_attempts=1).enqueue(how) for how in ("snooze", "cancel", "fail", "exit")}
    worker = CallingThreadWorker(queue_of(jobs))
    with pytest.raises(KeyError, match="x"):
        worker.drain(raise_errors=True)
    assert {how: str(jobs.get(job.id).status) for how, job in made.items()} == {
        "snooze": "scheduled",
        "cancel": "cancelled",
        "fail": "failed",
        "exit": "pending",
    }
    with pytest.raises(RuntimeError, match=r"SystemExit\(3\)"):
        worker.drain(raise_errors=True)
    assert worker.drain() == worker.drain()


def test_unknown_tasks_are_left_alone(jobs: Rowcall) -> None:
    job = jobs.enqueue("elsewhere")
    assert CallingThreadWorker(queue_of(jobs)).drain().total == 0
    assert jobs.get(job.id).status == "pending"
