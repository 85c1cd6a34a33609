"""What people do to all jobs that fit a filter, in batches, so that no other transaction waits for long."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from rowcall.domain.job import Job, Status
from rowcall.store.control.actions import cancel_locked, obstacles_of, rerun
from rowcall.store.control.queries import FAILED_WITH, UNFINISHED_WITH_KEY, Rerun
from rowcall.store.counts.queries import NOW, TOTALS
from rowcall.store.dialect import Dialect, Filter
from rowcall.store.jobs.inspect import lock_jobs
from rowcall.store.statement import Plan

AT_ONCE = 200


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for jobs. `error_codes` are the codes that match `error_code`, if failed jobs are selected."""

    statuses: tuple[Status, ...]
    queue: str | None = None
    type: str | None = None
    tag: str | None = None
    key: str | None = None
    error_code: str | None = None
    error_codes: tuple[str, ...] | None = None
    limit: int | None = None

    def fits(self, job: Job) -> bool:
        return (
            job.status in self.statuses
            and self.queue in (None, job.queue)
            and self.type in (None, job.type)
            and (self.tag is None or self.tag in job.tags)
            and (self.error_code is None or is_like(job.error_code or "", self.error_code))
        )


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """The progress: the state or code, the last job, and how many jobs were changed."""

    source: int = 0
    before_id: int | None = None
    after: tuple[int, int] | None = None
    changed: int = 0
    began_ms: int | None = None
    over: bool = False


class FoundJobs(msgspec.Struct):
    """A batch of jobs that match, and the walk that continues after it."""

    jobs: list[Job]
    walk: Walk


def cancel_some(
    dialect: Dialect, wanted: Wanted, walk: Walk, reason: str | None, actor: str | None, now_ms: int | None
) -> Plan[Walk]:
    found = yield from _next(dialect, wanted, walk)
    # a job that started to run since it was found matches only if the filter includes running jobs
    jobs = [job for job in (yield from _locked(dialect, found.jobs)) if wanted.fits(job)]
    changed = yield from cancel_locked(dialect, jobs[: _left(wanted, walk)], reason, actor, now_ms)
    return _gone_on(found.walk, wanted, changed)


def retry_some(
    dialect: Dialect,
    wanted: Wanted,
    walk: Walk,
    attempts_of: Callable[[str], int],
    rate: float | None,
    actor: str | None,
    now_ms: int | None,
) -> Plan[Walk]:
    """With a rate, the n-th job is due n / rate seconds after the first. Jobs that cannot run again are left alone."""
    began_ms = walk.began_ms
    if rate is not None and began_ms is None:
        (began_ms,) = yield from dialect.ask(NOW, now_ms)
    found = yield from _next(dialect, wanted, walk)
    jobs = [job for job in (yield from _locked(dialect, found.jobs)) if wanted.fits(job)]
    obstacles = yield from obstacles_of(dialect, jobs)
    jobs = _one_of_each_key([job for job in jobs if job.id not in obstacles])[: _left(wanted, walk)]
    if jobs:
        times = [
            None if rate is None or began_ms is None else began_ms + int(number * 1000 / rate)
            for number in range(walk.changed, walk.changed + len(jobs))
        ]
        reruns = [Rerun(job.id, attempts_of(job.type), at_ms) for job, at_ms in zip(jobs, times, strict=True)]
        yield from rerun(dialect, jobs, reruns, actor, now_ms)
    return msgspec.structs.replace(_gone_on(found.walk, wanted, len(jobs)), began_ms=began_ms)


def error_codes_like(dialect: Dialect, pattern: str) -> Plan[tuple[str, ...]]:
    """Return the codes of failed jobs that match a pattern such as `TIMEOUT:*`, or a code."""
    totals = yield from dialect.ask(TOTALS)
    codes = {total.error_code for total in totals if total.status == Status.FAILED and total.jobs > 0}
    return tuple(sorted(code for code in codes if is_like(code, pattern)))


def is_like(error_code: str, pattern: str) -> bool:
    """
    >>> is_like("TIMEOUT:HANDLER", "TIMEOUT:*"), is_like("TIMEOUT:HANDLER", "TIMEOUT")
    (True, False)
    """
    return error_code.startswith(pattern[:-1]) if pattern.endswith("*") else error_code == pattern


def _next(dialect: Dialect, wanted: Wanted, walk: Walk) -> Plan[FoundJobs]:
    if wanted.error_codes is not None:
        return (yield from _next_failed(dialect, wanted, wanted.error_codes, walk))
    if wanted.key is not None and wanted.type is not None:
        jobs = yield from dialect.ask(UNFINISHED_WITH_KEY, wanted.type, wanted.key, walk.before_id, AT_ONCE)
        return FoundJobs(jobs, _behind(walk, jobs, sources=1))
    like = Filter(status=wanted.statuses[walk.source], queue=wanted.queue, type=wanted.type, tag=wanted.tag)
    jobs = yield from dialect.list_jobs(msgspec.structs.replace(like, before_id=walk.before_id, limit=AT_ONCE))
    return FoundJobs(jobs, _behind(walk, jobs, sources=len(wanted.statuses)))


def _next_failed(dialect: Dialect, wanted: Wanted, error_codes: Sequence[str], walk: Walk) -> Plan[FoundJobs]:
    if not error_codes:
        return FoundJobs([], msgspec.structs.replace(walk, over=True))
    code = error_codes[walk.source]
    after = walk.after or (0, 0)
    failed = yield from dialect.ask(FAILED_WITH, code, *after, wanted.queue, wanted.type, AT_ONCE)
    jobs = [one.job for one in failed]
    behind = _behind(walk, jobs, sources=len(error_codes))
    if behind.source == walk.source and failed:
        behind = msgspec.structs.replace(behind, after=(failed[-1].moment, failed[-1].job.id))
    return FoundJobs(jobs, behind)


def _behind(walk: Walk, jobs: Sequence[Job], *, sources: int) -> Walk:
    if len(jobs) == AT_ONCE:
        return msgspec.structs.replace(walk, before_id=jobs[-1].id)
    source = walk.source + 1
    return msgspec.structs.replace(walk, source=source, before_id=None, after=None, over=source == sources)


def _gone_on(walk: Walk, wanted: Wanted, changed: int) -> Walk:
    changed += walk.changed
    return msgspec.structs.replace(walk, changed=changed, over=walk.over or changed == wanted.limit)


def _left(wanted: Wanted, walk: Walk) -> int | None:
    return None if wanted.limit is None else wanted.limit - walk.changed


def _locked(dialect: Dialect, jobs: Sequence[Job]) -> Plan[list[Job]]:
    return (yield from lock_jobs(dialect, [job.id for job in jobs])) if jobs else []


def _one_of_each_key(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs by the time of their end, and only the first of each key."""
    kept: dict[object, Job] = {}
    for job in sorted(jobs, key=_end_of):
        kept.setdefault(job.id if job.key is None else (job.type, job.key), job)
    return list(kept.values())


def _end_of(job: Job) -> tuple[float, int]:
    return (job.finished_at.timestamp() if job.finished_at is not None else 0.0), job.id
