"""What people do to all jobs that fit a filter, in batches, so that no other transaction waits for long.

The jobs of a batch are found first, without a lock. Each plan here locks them, and changes the jobs that still fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rowcall.domain.job import Job
from rowcall.store.control.single_actions import (
    cancel_locked,
    delete_locked,
    obstacles_of,
    prioritize_locked,
    rerun,
    reschedule_locked,
)
from rowcall.store.dialect import Dialect, Filter
from rowcall.store.jobs.inspect import lock_jobs
from rowcall.store.queries.control import Rerun
from rowcall.store.statement import Plan

AT_ONCE = 200


class MatchedJobs:
    """Jobs that fitted a filter when they were found, and how many of them may be changed. `changed` were before."""

    def __init__(self, dialect: Dialect, wanted: Filter, jobs: Sequence[Job], most: int | None, changed: int) -> None:
        self._dialect = dialect
        self._wanted = wanted
        self._ids = [job.id for job in jobs]
        self._most = most
        self._changed = changed

    def cancel(self, reason: str | None, actor: str | None) -> Plan[int]:
        return (yield from self._change(lambda jobs: cancel_locked(self._dialect, jobs, reason, actor)))

    def reschedule(self, run_at_ms: int | None, delay_ms: int, actor: str | None) -> Plan[int]:
        jobs = (yield from self._locked())[: self._most]
        yield from reschedule_locked(self._dialect, jobs, run_at_ms, delay_ms, actor)
        return len(jobs)

    def set_priority(self, priority: int, actor: str | None) -> Plan[int]:
        jobs = [job for job in (yield from self._locked()) if job.priority != priority][: self._most]
        yield from prioritize_locked(self._dialect, jobs, priority, actor)
        return len(jobs)

    def delete(self) -> Plan[int]:
        """Delete them, apart from jobs that others wait for."""
        return (yield from self._change(self._delete))

    def _delete(self, jobs: Sequence[Job]) -> Plan[int]:
        return len(jobs) - len((yield from delete_locked(self._dialect, jobs)))

    def retry(
        self, attempts_of: Callable[[str], int], actor: str | None, due_at_ms: Callable[[int], int | None]
    ) -> Plan[int]:
        """Run them again, each at its time. Jobs that cannot run again are left alone."""
        jobs = yield from self._locked()
        obstacles = yield from obstacles_of(self._dialect, jobs)
        jobs = _one_of_each_key([job for job in jobs if job.id not in obstacles])[: self._most]
        if jobs:
            numbered = enumerate(jobs, self._changed)
            reruns = [Rerun(job.id, attempts_of(job.type), due_at_ms(number)) for number, job in numbered]
            yield from rerun(self._dialect, jobs, reruns, actor)
        return len(jobs)

    def _change(self, act: Callable[[Sequence[Job]], Plan[int]]) -> Plan[int]:
        """Change jobs until as many have changed as may: a job that is left out does not count."""
        jobs, changed = (yield from self._locked()), 0
        while jobs and changed != self._most:
            some = jobs if self._most is None else jobs[: self._most - changed]
            changed += yield from act(some)
            jobs = jobs[len(some) :]
        return changed

    def _locked(self) -> Plan[list[Job]]:
        """Return the jobs that still fit. One that started fits only if the filter includes running jobs."""
        yield from lock_jobs(self._dialect, self._ids)
        fitting = {job.id: job for job in (yield from self._dialect.matching(self._wanted, self._ids))}
        return [fitting[job_id] for job_id in self._ids if job_id in fitting]


def _one_of_each_key(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs by the time of their end, and only the first of each key."""
    kept: dict[object, Job] = {}
    for job in sorted(jobs, key=_end_of):
        kept.setdefault(job.id if job.key is None else (job.type, job.key), job)
    return list(kept.values())


def _end_of(job: Job) -> tuple[float, int]:
    return (job.finished_at.timestamp() if job.finished_at is not None else 0.0), job.id
