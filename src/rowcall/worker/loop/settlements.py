"""Turns attempts that ended into rows to settle, and into tallies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import SUCCESS
from rowcall.store.counts.queries import Tally
from rowcall.store.counts.tallies import Tallies
from rowcall.store.jobs.queries import Success
from rowcall.store.jobs.settle import Ended, MakeTallies
from rowcall.worker.attempt import Attempt


def settlement_of(attempt: Attempt, now: float) -> Ended | Success:
    """Return the row to settle; the short form for a plain success, which is most of them."""
    if attempt.transition is SUCCESS and attempt.then is None:
        started_ms = int((now - attempt.started_at) * 1000) if attempt.started_at else None
        finished_ms = int((now - attempt.finished_at) * 1000) if attempt.finished_at else 0
        return Success(attempt.ready.id, attempt.ready.lease, started_ms, finished_ms, None)
    return ended_of(attempt, now)


def ended_of(attempt: Attempt, now: float) -> Ended:
    assert attempt.transition is not None
    started_ms = int((now - attempt.started_at) * 1000) if attempt.started_at else None
    finished_ms = int((now - attempt.finished_at) * 1000) if attempt.finished_at else 0
    return Ended(attempt.ready.id, attempt.ready.lease, attempt.transition, started_ms, finished_ms, attempt.then)


def tallies_of(attempts: Sequence[Attempt]) -> MakeTallies:
    """Return a function that makes the tallies of a group from the ids that were settled."""

    def make(settled: set[int]) -> list[Tally]:
        counted = attempts
        if len(settled) < len(attempts):  # some were not ours; of a job that is there twice, the last attempt was
            by_lease = sorted(attempts, key=lambda attempt: attempt.ready.lease)
            latest = {attempt.ready.id: attempt for attempt in by_lease}
            counted = [attempt for job_id, attempt in latest.items() if job_id in settled]
        tallies = Tallies()
        _count_successes(tallies, counted)
        for attempt in counted:
            transition, ready = attempt.transition, attempt.ready
            if transition is not None and transition.move is not Move.SUCCEED:
                tallies.enter(ready.queue, ready.type, ready.attempt, transition, attempt.waited_ms, attempt.ran_ms)
        return tallies.rows()

    return make


def _count_successes(tallies: Tallies, attempts: Sequence[Attempt]) -> None:
    """Count attempts that are alike first: this costs a third of entering each one."""
    alike = Counter(
        [
            (
                ready.queue,
                ready.type,
                ready.attempt,
                # `waited_ms`, inlined: a call per job costs a measurable part of a drain
                attempt.claimed_at_ms
                - (ready.run_at_ms if ready.run_at_ms > ready.created_at_ms else ready.created_at_ms),
                attempt.ran_ms,
            )
            for attempt in attempts
            if attempt.transition is SUCCESS
            or (attempt.transition is not None and attempt.transition.move is Move.SUCCEED)
            for ready in (attempt.ready,)
        ]
    )
    for (queue, kind, number, waited_ms, ran_ms), jobs in alike.items():
        tallies.enter(queue, kind, number, SUCCESS, waited_ms, ran_ms, jobs)
