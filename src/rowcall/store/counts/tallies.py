"""What ended attempts add to the counts and the history: one row for all that ended in the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rowcall.base.histogram import bucket_of
from rowcall.base.times import milliseconds_of
from rowcall.domain.job import FINISHED, Job, Status
from rowcall.domain.lifecycle import Move, target
from rowcall.domain.outcome import EXPIRED_CODE, OUTCOMES, Transition
from rowcall.store.queries.counts import MOST_ATTEMPTS_COUNTED, Tally
from rowcall.store.queries.flows import Touched


class Tallies:
    """Filled within one transaction, and written with it."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str, int, Move, str | None, bool], Tally] = {}

    def enter(
        self,
        queue: str,
        task: str,
        attempt: int,
        transition: Transition,
        wait_ms: int | None,
        run_ms: int | None,
        jobs: int = 1,
    ) -> None:
        """Count attempts that ended in the same way; an attempt that never began does not count."""
        key = (queue, task, attempt, transition.move, transition.error_code, transition.attempt_recorded)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._open(queue, task, attempt, transition)
            if tally is None:
                return
            self._tallies[key] = tally
        tally.jobs += jobs
        if wait_ms is not None:
            bucket = bucket_of(wait_ms)
            tally.waits[bucket] = tally.waits.get(bucket, 0) + jobs
        if run_ms is not None:
            bucket = bucket_of(run_ms)
            tally.runs[bucket] = tally.runs.get(bucket, 0) + jobs

    def rows(self) -> list[Tally]:
        return list(self._tallies.values())

    @staticmethod
    def _open(queue: str, task: str, attempt: int, transition: Transition) -> Tally | None:
        final = transition.status in FINISHED
        if not (final or transition.attempt_recorded):
            return None
        return Tally(
            queue=queue,
            type=task,
            outcome=OUTCOMES[transition.move],
            status=transition.status if final else None,
            error_code=transition.error_code or "",
            attempt=min(attempt, MOST_ATTEMPTS_COUNTED),
            waits={},
            runs={},
        )


def times_of(job: Job, at_ms: int) -> tuple[int | None, int | None]:
    """Return how long a claimed job waited and ran, in milliseconds, if its attempt ends now."""
    if job.claimed_at is None:
        return None, None
    claimed_at_ms = milliseconds_of(job.claimed_at)
    due_at_ms = milliseconds_of(max(job.run_at, job.created_at))
    return claimed_at_ms - due_at_ms, at_ms - milliseconds_of(job.started_at or job.claimed_at)


def cancelled_by_hand(job: Job, error_code: str) -> Tally:
    return _change(job, 1, status=target(job.status, Move.CANCEL), error_code=error_code, outcome="cancelled")


def completed_by_hand(job: Job) -> Tally:
    return _change(job, 1, status=target(job.status, Move.COMPLETE), error_code="", outcome=None)


def revived(job: Job) -> Tally:
    """Return the tallies of a finished job that runs again."""
    return _change(job, -1, status=job.status, error_code=job.error_code or "", outcome=None)


def expired(jobs: Sequence[Touched]) -> list[Tally]:
    status = target(Status.PENDING, Move.EXPIRE)
    return [
        Tally(queue=queue, type=task, outcome="expired", status=status, error_code=EXPIRED_CODE, jobs=count)
        for (queue, task), count in Counter((job.queue, job.type) for job in jobs).items()
    ]


def broken(jobs: Sequence[Touched], status: str, error_code: str) -> list[Tally]:
    """Return the tallies of jobs that ended because of another job, without an attempt."""
    counts = Counter((job.queue, job.type, min(job.attempt, MOST_ATTEMPTS_COUNTED)) for job in jobs)
    return [
        Tally(queue=queue, type=task, outcome=None, status=status, error_code=error_code, attempt=attempt, jobs=count)
        for (queue, task, attempt), count in counts.items()
    ]


def _change(job: Job, jobs: int, *, status: str, error_code: str, outcome: str | None) -> Tally:
    attempt = min(job.attempt, MOST_ATTEMPTS_COUNTED)
    return Tally(
        queue=job.queue,
        type=job.type,
        outcome=outcome,
        status=status,
        error_code=error_code,
        attempt=attempt,
        jobs=jobs,
    )
