"""Working without a worker: claim, run it yourself, say how it went. Fenced by the lease the claim gave."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial

import msgspec

from rowcall.base.text import code_problem
from rowcall.base.times import time_of, time_or_none
from rowcall.declare.policy import policy_of
from rowcall.domain.blobs import reference_of
from rowcall.domain.errors import BlobUnreadable, InvalidOption, LeaseLost, RowcallError, seconds_of
from rowcall.domain.job import Job, Status
from rowcall.domain.lifecycle import Outcome, Released, Reported, Succeeded, Transition, Tries, decide
from rowcall.domain.names import name_problem, queue_problem
from rowcall.domain.payload import payload_from_row, result_to_json, tags_from_row
from rowcall.drivers.finishing import finish
from rowcall.queue import Queue
from rowcall.store.counts.folding import fold
from rowcall.store.jobs.claim import Appetite, Taken, claim_by_hand
from rowcall.store.jobs.fail_unreadable import made
from rowcall.store.jobs.queries import Ready
from rowcall.store.jobs.settle import heartbeat, settle_one
from rowcall.store.statement import Plan

DEFAULT_LEASE_SECONDS = 300.0
MOST_CLAIMED = 1000
FOLDED_EVERY = 200
LEFT_SECONDS, MOST_LEFT = 0.005, 40


class ByHand(Queue):
    def dequeue(
        self,
        worker: str,
        *,
        queues: Iterable[str] | None = None,
        lease: float | timedelta = DEFAULT_LEASE_SECONDS,
    ) -> Job | None:
        """Claim the next job that is due, or None."""
        jobs = self.claim(worker, limit=1, lease=lease, queues=queues)
        return jobs[0] if jobs else None

    async def adequeue(
        self,
        worker: str,
        *,
        queues: Iterable[str] | None = None,
        lease: float | timedelta = DEFAULT_LEASE_SECONDS,
    ) -> Job | None:
        jobs = await self.aclaim(worker, limit=1, lease=lease, queues=queues)
        return jobs[0] if jobs else None

    def claim(
        self,
        worker: str,
        *,
        limit: int = 1,
        lease: float | timedelta = DEFAULT_LEASE_SECONDS,
        queues: Iterable[str] | None = None,
    ) -> list[Job]:
        """Claim up to `limit` jobs for `lease` seconds by the database's clock; `heartbeat` renews it.

        A job that is neither settled nor renewed by then is given to somebody else, and the attempt counts.
        """
        jobs: list[Job] = []
        tries = 0
        while True:
            try:
                taken, claimed = self.write(
                    lambda: self._made(worker, self._claim(worker, _rest(limit, jobs), lease, queues))
                )
                jobs.extend(self._with_payloads(taken, claimed))
            except Exception:
                if jobs:  # these are claimed: whoever asked must learn of them
                    return jobs
                raise
            if not _goes_on(taken, jobs, limit, tries):
                return jobs
            if not (taken.started or taken.more):  # another claimer has the limit of all that is ready, for a moment
                tries += 1
                time.sleep(LEFT_SECONDS)

    async def aclaim(
        self,
        worker: str,
        *,
        limit: int = 1,
        lease: float | timedelta = DEFAULT_LEASE_SECONDS,
        queues: Iterable[str] | None = None,
    ) -> list[Job]:
        jobs: list[Job] = []
        try:
            await finish(self._aclaim(jobs, worker, limit, lease, queues))
        except asyncio.CancelledError:
            await finish(self._arelease_all(jobs))
            raise
        return jobs

    async def _aclaim(
        self, jobs: list[Job], worker: str, limit: int, lease: float | timedelta, queues: Iterable[str] | None
    ) -> None:
        tries = 0
        while True:
            try:
                taken, claimed = await self.awrite(
                    lambda: self._made(worker, self._claim(worker, _rest(limit, jobs), lease, queues))
                )
                if any(reference_of(ready.payload) is not None for ready in taken.started):
                    loop = asyncio.get_running_loop()
                    jobs.extend(await loop.run_in_executor(None, self._with_payloads, taken, claimed))
                else:
                    jobs.extend(claimed)
            except Exception:
                if jobs:
                    return
                raise
            if not _goes_on(taken, jobs, limit, tries):
                return
            if not (taken.started or taken.more):
                tries += 1
                await asyncio.sleep(LEFT_SECONDS)

    async def _arelease_all(self, jobs: list[Job]) -> None:
        for job in jobs:
            with contextlib.suppress(RowcallError):  # else its lease runs out
                await self.arelease(job)

    def complete(self, job: Job, result: object = None) -> None:
        """The job succeeded. `LeaseLost` if it is no longer yours."""
        given = result_to_json(_owned(job).type, result)
        self.write(self._settling(job, Succeeded(self.blobs.stored(job.type, given))))

    async def acomplete(self, job: Job, result: object = None) -> None:
        given = result_to_json(_owned(job).type, result)
        await self.awrite(self._settling(job, Succeeded(await self.blobs.astored(job.type, given))))

    def fail(self, job: Job, error: str | BaseException, detail: str = "") -> None:
        """The attempt failed: with a code such as `"TIMEOUT:UPSTREAM_API"` and a detail, or with an exception."""
        self.write(self._settling(job, self._failure(error, detail)))

    async def afail(self, job: Job, error: str | BaseException, detail: str = "") -> None:
        await self.awrite(self._settling(job, self._failure(error, detail)))

    def heartbeat(self, job: Job) -> None:
        """Still at it: the lease starts anew.

        `JobCancelled` if somebody has called `cancel(id)` meanwhile: leave off, and `release` the job, which ends it.
        """
        self.write(lambda: heartbeat(self.dialect, _owned(job).id, job.lease, self.now_ms()))

    async def aheartbeat(self, job: Job) -> None:
        await self.awrite(lambda: heartbeat(self.dialect, _owned(job).id, job.lease, self.now_ms()))

    def release(self, job: Job) -> None:
        """Give the job back at once, without using up an attempt."""
        self.write(self._settling(job, Released()))

    async def arelease(self, job: Job) -> None:
        await self.awrite(self._settling(job, Released()))

    def _claim(self, worker: str, limit: int, lease: float | timedelta, queues: Iterable[str] | None) -> Plan[Taken]:
        if problem := name_problem(worker):
            raise InvalidOption("worker", problem)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_CLAIMED:
            raise InvalidOption("limit", f"wants a whole number from 1 to {MOST_CLAIMED}, not {limit!r}")
        lease_ms = round(seconds_of("lease", lease) * 1000)
        if lease_ms < 1:
            raise InvalidOption("lease", "wants more than 0 seconds")
        names = None if queues is None else list(queues)
        if isinstance(queues, str) or names == []:
            raise InvalidOption("queues", f"wants a list of names, or None for all, not {queues!r}")
        for name in names or ():
            if problem := queue_problem(name):
                raise InvalidOption("queues", problem)
        appetite = Appetite(
            worker=worker,
            slots=limit,
            queues=None if names is None else dict.fromkeys(names),
            first_queue=next(self._turns),
            lease_ms=lease_ms,
            limits=self.limits.declared,
            aliases=self.aliases,
        )
        return claim_by_hand(self.dialect, appetite, self.now_ms())

    def _made(self, worker: str, claim: Plan[Taken]) -> Plan[tuple[Taken, list[Job]]]:
        """The jobs are made before the commit: a claim that cannot be handed over must not be committed."""
        taken = yield from claim
        make = partial(job_of, worker=worker, claimed_at_ms=taken.work.now_ms)
        return taken, (yield from made(self.dialect, taken.started, make, self.now_ms()))

    def _with_payloads(self, taken: Taken, claimed: list[Job]) -> list[Job]:
        """The jobs of a claim. Those whose large payloads cannot be read have failed, as they would in a worker."""
        jobs = []
        by_id = {ready.id: ready for ready in taken.started}
        for job in claimed:
            ready = by_id[job.id]
            if reference_of(ready.payload) is None:
                jobs.append(job)
                continue
            try:
                ready.payload = self.blobs.fetched(ready.payload)
            except BlobUnreadable as error:
                with contextlib.suppress(LeaseLost):
                    self.fail(job, error)
            except BaseException:  # the store is out of reach: that is no job's fault
                for given_back in claimed:
                    with contextlib.suppress(LeaseLost):
                        self.release(given_back)
                raise
            else:
                jobs.append(msgspec.structs.replace(job, payload=payload_from_row(ready.payload)))
        return jobs

    def _failure(self, error: str | BaseException, detail: str) -> Outcome:
        if isinstance(error, BaseException):
            return self.failures.raised(error)
        if problem := code_problem(error):
            raise InvalidOption("error", f"{problem}; an exception will do too")
        return Reported(error, self.failures.detail(detail))

    def _settling(self, job: Job, outcome: Outcome) -> Callable[[], Plan[None]]:
        policy = policy_of(self.tasks.get(_owned(job).type), job.retry)
        transition = decide(Tries(job.attempt, job.max_attempts), outcome, policy, chance=random.random())
        return lambda: self._settle(job, transition)

    def _settle(self, job: Job, transition: Transition) -> Plan[None]:
        yield from settle_one(self.dialect, job, transition, self.now_ms())
        if job.id % FOLDED_EVERY == 0:  # there may be no worker to do it
            yield from fold(self.dialect, everything=False, now_ms=self.now_ms())


def _rest(limit: int, jobs: list[Job]) -> int:
    return limit - len(jobs) if jobs else limit


def _goes_on(taken: Taken, jobs: list[Job], limit: int, tries: int) -> bool:
    """Whether to claim again: one transaction locks only so many limits."""
    if jobs:
        return len(jobs) < limit and taken.more and bool(taken.started)
    return bool(taken.started) or taken.more or (taken.left and tries < MOST_LEFT)


def _owned(job: Job) -> Job:
    """A snapshot taken while the job ran carries the lease of that claim; any other was never the caller's."""
    if not isinstance(job, Job):
        raise InvalidOption("job", f"wants the Job that claim or dequeue gave, not {job!r}")
    if job.status is not Status.RUNNING:
        raise LeaseLost(job.id)
    return job


def job_of(ready: Ready, worker: str, claimed_at_ms: int) -> Job:
    """A claimed job as its handler sees it."""
    claimed_at = time_of(max(claimed_at_ms, ready.created_at_ms))
    return Job(
        id=ready.id,
        type=ready.type,
        queue=ready.queue,
        payload=payload_from_row(ready.payload),
        status=Status.RUNNING,
        priority=ready.priority,
        attempt=ready.attempt,
        max_attempts=ready.max_attempts,
        run_at=time_of(ready.run_at_ms),
        created_at=time_of(ready.created_at_ms),
        claimed_at=claimed_at,
        started_at=claimed_at,
        worker=worker,
        key=ready.key,
        tags=tags_from_row(ready.tags),
        chain_id=ready.chain_id,
        chain_index=ready.chain_index,
        expires_at=time_or_none(ready.expires_at_ms),
        timeout=ready.timeout_seconds,
        retry=ready.retry,
        lease=ready.lease,
    )
