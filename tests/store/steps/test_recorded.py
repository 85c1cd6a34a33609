"""Steps are written for attempts whose leases are current, and each signal is received once."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from rowcall import Job, LeaseLost, Rowcall
from rowcall.app import queue_of
from rowcall.domain.step import StepKind, StepStatus, StepWritten
from rowcall.operations.effects import Write
from rowcall.store.dialect import Dialect
from rowcall.store.new_job import NewJob
from rowcall.store.new_step import NewChild, StepWrite
from rowcall.store.queries.steps import END_CALLS, EndedCall
from rowcall.store.statement import Plan
from rowcall.store.steps import recorded


def test_attempts_of_one_job_and_waits_of_one_name_in_one_group(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:

        @jobs.task
        def handler() -> None: ...

        job = handler.enqueue()
        lost = jobs.claim("first")[0]
        jobs.release(lost)
        (found,) = jobs.claim("second")
        jobs.signal(job, "go", 1)
        queue = queue_of(jobs)

        def wait(claimed: Job, position: int) -> StepWrite:
            return StepWrite(job.id, claimed.lease, claimed.holder, 1, position, StepKind.WAIT, "go")

        writes = [wait(found, 2), wait(lost, 1), wait(found, 1)]
        second, old, first = queue.run(Write(recorded.record, queue.dialect, writes))
        assert isinstance(old, LeaseLost)
        assert first == StepWritten(StepStatus.FINISHED, None, "1")
        assert second == StepWritten(StepStatus.WAITING)
        assert [(step.position, step.status, step.result) for step in jobs.steps(job)] == [
            (1, "finished", 1),
            (2, "waiting", None),
        ]


def test_the_end_of_a_call_says_whether_a_first_waits_for_it(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:

        @jobs.task
        def child() -> None: ...

        parent = child.enqueue()
        (claimed,) = jobs.claim("worker")
        queue, made = queue_of(jobs), child.enqueue_many([{}, {}])
        ids = [job.id for job in made]

        def call(position: int, first_at: int | None) -> StepWrite:
            new = NewChild(NewJob(type="child", queue="default"), "{}")
            name = StepKind.CALL, "child"
            return StepWrite(parent.id, claimed.lease, claimed.holder, 1, position, *name, child=new, first_at=first_at)

        writes = [call(1, None), call(2, 3)]
        queue.run(Write(recorded.record, queue.dialect, writes, lambda dialect, calls: _inserted(ids)))
        with sqlite3.connect(tmp_path / "app.db") as connection:
            connection.execute(
                "update rowcall_job set status = 'succeeded', parent_id = ?, parent_step = id - ? where id > ?",
                (parent.id, parent.id, parent.id),
            )
        ended = queue.run(Write(_end_calls, queue.dialect, ids))
        assert sorted((one.child_id, bool(one.in_first)) for one in ended) == [(ids[0], False), (ids[1], True)]


def _inserted(ids: list[int]) -> Plan[list[int | Exception]]:
    yield from ()
    return [*ids]


def _end_calls(dialect: Dialect, ids: list[int]) -> Plan[list[EndedCall]]:
    return (yield from dialect.ask(END_CALLS, ids))
