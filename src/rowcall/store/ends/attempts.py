"""The end of an attempt: write transitions, fenced by the lease, and do what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from rowcall.domain.errors import JobCancelled, LeaseLost, StepTaken
from rowcall.domain.job import FINISHED, Job, Status
from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import Transition
from rowcall.store.blobs.references import refer_to, refer_to_results
from rowcall.store.counts.tallies import Tallies, times_of
from rowcall.store.dialect import Dialect
from rowcall.store.ends.after import Locked, after_end
from rowcall.store.ends.next_steps import Then, refuse_taken, write_next_step, write_next_steps
from rowcall.store.jobs.cancel_requests import apply_requests, cancel_requests
from rowcall.store.jobs.claim_rows import (
    WRITE_AFTER_MS,
    delete_done,
    settle_claimed,
    write_claims_of,
    write_free_claims_of,
)
from rowcall.store.jobs.inspect import get_all
from rowcall.store.jobs.marks import ProgressMark, mark_progress
from rowcall.store.queries import jobs as queries
from rowcall.store.queries.counts import NOW, Tally
from rowcall.store.queries.flows import BEGIN_WRITING
from rowcall.store.queries.jobs import ClaimRow, Settlement, Success
from rowcall.store.queries.workers import OPENED_PREFIX
from rowcall.store.statement import Plan
from rowcall.store.steps.recorded import wake


class Ended(msgspec.Struct, frozen=True, gc=False):
    """An attempt that ended, and what becomes of the job."""

    job_id: int
    lease: int
    transition: Transition
    started_age_ms: int | None = None
    finished_age_ms: int = 0
    then: Then | None = None
    progress: ProgressMark | None = None


class Written(NamedTuple):
    """The ids whose leases were current, the transitions of the jobs with a cancel request, and what to count."""

    live: set[int]
    cancelled: dict[int, Transition]
    tallies: Sequence[Tally] = ()


MakeTallies = Callable[[set[int]], list[Tally]]
"""Returns the tallies to write, given the ids that were settled."""


def settle(
    dialect: Dialect,
    ended: Sequence[Ended | Success],
    make_tallies: MakeTallies | None,
    now_ms: int | None,
    freed: Collection[tuple[int, int]] | None = None,
    *,
    write_claims: bool = False,
    locked: Locked = Locked.WAIT,
) -> Plan[set[int]]:
    """Settle attempts, do what follows, and return the ids whose leases were current.

    `freed`, `locked`: see `after_end`. `write_claims`: first write those claims that are only in claim rows.
    """
    if write_claims:
        yield from write_claims_of(dialect, [job_id for job_id, lease in attempts_of(ended) if lease == 1])
    written = yield from write_ended(dialect, ended, make_tallies, now_ms)
    yield from after_end(dialect, written.live, written.tallies, now_ms, freed, locked=locked)
    return written.live


def settle_group(
    dialect: Dialect,
    ended: Sequence[Ended | Success],
    make_tallies: MakeTallies,
    worker: str,
    now_ms: int | None,
    freed: Collection[tuple[int, int]],
) -> Plan[Written]:
    """Settle attempts that a worker claimed together or alone, and do what follows. `freed`: see `after_end`."""
    claims = yield from dialect.ask(queries.CLAIMS_OF, now_ms, worker, WRITE_AFTER_MS)
    written = yield from write_ended(dialect, ended, make_tallies, now_ms, worker, claims)
    yield from after_end(dialect, written.live, written.tallies, now_ms, freed)
    return written


def attempts_of(ended: Iterable[Ended | Success], abandoned: Collection[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Return ids and leases, except of attempts whose handlers still run."""
    attempts = [
        (job_id, one.lease) for one in ended for job_id in (one.ids if isinstance(one, Success) else (one.job_id,))
    ]
    return [attempt for attempt in attempts if attempt not in abandoned]


def write_ended(
    dialect: Dialect,
    ended: Sequence[Ended | Success],
    make_tallies: MakeTallies | None,
    now_ms: int | None,
    worker: str = "",
    claims: Sequence[ClaimRow] = (),
) -> Plan[Written]:
    """Settle attempts, without what follows: see `after_end`. `claims` are the claim rows of this worker."""
    if not ended:
        return Written(set(), {})
    rows = [one if isinstance(one, Success) else settlement_of(one) for one in ended]
    rows.sort(key=_by_id)  # every settler takes the rows in the same order, so that no two wait for each other
    ids = _ids_of(rows)
    if len(set(ids)) < len(ids):
        # one job twice, after this worker was declared lost: leases never fall, so the lower one is void
        rows = _without_duplicates(rows)
        ids = _ids_of(rows)
    continued = {one.job_id: one.then for one in ended if isinstance(one, Ended) and one.then and _succeeds(one)}
    if continued:
        yield from refuse_taken(dialect, list(continued.values()))
    yield from add_on_end(dialect, [(one.job_id, one.transition.on_end) for one in ended if isinstance(one, Ended)])
    live: set[int] = set()
    successes = [row for row in rows if isinstance(row, Success)]
    others = [row for row in rows if isinstance(row, Settlement)]
    if claims:
        continuing = [row.id for row in successes if row.begins_chain]
        yield from write_claims_of(dialect, continuing + [row.id for row in others if row.lease == 1])
    if successes:
        live |= yield from settle_claimed(dialect, worker, claims, successes, now_ms)
        yield from refer_to_results(dialect, successes, live)
    tallies: list[Tally] = []
    cancelled: dict[int, Transition] = {}
    if others:
        applied = yield from apply_requests(dialect, others)
        live |= yield from _settle_others(dialect, applied.settlements, now_ms)
        tallies, cancelled = applied.tallies(), applied.cancelled
        # a signal that came while it still ran found nothing to wake
        yield from wake(dialect, [one.job_id for one in ended if isinstance(one, Ended) and _waits(one)], now_ms)
    reported = [one.progress for one in ended if isinstance(one, Ended) and one.progress and one.job_id in live]
    if reported:
        yield from mark_progress(dialect, reported, now_ms)
    if continued:
        steps = {job_id: then for job_id, then in continued.items() if job_id in live}
        yield from write_next_steps(dialect, steps, now_ms)
    if claims:
        yield from delete_done(dialect, claims, ids)
    if make_tallies is not None and len(live) > len(cancelled):
        tallies += make_tallies(live - cancelled.keys() if cancelled else live)
    return Written(live, cancelled, tallies)


def add_on_end(dialect: Dialect, jobs: Iterable[tuple[int, str | None]]) -> Plan[None]:
    """Write what follows the end of jobs into the rows that do not say: a trigger reads it there."""
    ids_by_text: dict[str, list[int]] = {}
    for job_id, on_end in jobs:
        if on_end is not None:
            ids_by_text.setdefault(on_end, []).append(job_id)
    for on_end, ids in ids_by_text.items():
        yield from dialect.ask(queries.ADD_ON_END, ids, on_end)


def _settle_others(dialect: Dialect, settlements: Sequence[Settlement], now_ms: int | None) -> Plan[set[int]]:
    """Settle whatever is not a success, and return the ids of the jobs that it changed."""
    live = set((yield from dialect.ask(queries.LIVE, [(row.id, row.lease) for row in settlements])))
    ours = [row for row in settlements if row.id in live]
    if ours:
        if now_ms is None:  # the attempt and the job get the same time
            (now_ms,) = yield from dialect.ask(NOW, None)
        ids, document = [row.id for row in ours], {str(row.id): row for row in ours}
        if any(row.attempt_recorded for row in ours):
            yield from dialect.ask(queries.RECORD_ATTEMPTS, now_ms, ids, document)
        any_unfinished = any(row.status not in FINISHED for row in ours)
        query = queries.SETTLE_OTHERS_AND_NOTIFY if any_unfinished else queries.SETTLE_OTHERS
        yield from dialect.ask(query, now_ms, ids, document)
    return live


def _waits(one: Ended) -> bool:
    return one.transition.awaits_signal


def _succeeds(one: Ended) -> bool:
    return one.transition.move is Move.SUCCEED


def _refuse_lost_or_taken(dialect: Dialect, job_id: int, lease: int, then: Then) -> Plan[None]:
    """Refuse a step that exists, unless an earlier completion of the same attempt wrote it."""
    try:
        yield from refuse_taken(dialect, [then])
    except StepTaken:
        job = (yield from get_all(dialect, [job_id])).get(job_id)
        if job is None or job.lease != lease:
            raise LeaseLost(job_id) from None
        raise


def complete(
    dialect: Dialect,
    job_id: int,
    lease: int,
    result: str | None,
    started_age_ms: int | None,
    make_tallies: MakeTallies,
    now_ms: int | None,
    then: Then | None = None,
    on_end: str | None = None,
    progress: ProgressMark | None = None,
) -> Plan[None]:
    """Settle a success inside the caller's transaction; raise `LeaseLost` where the lease is not current.

    The next step is written in the same transaction. Jobs that wait for this one are unblocked here only where there is
    one writer: elsewhere their rows would stay locked for as long as the caller's transaction lasts.
    """
    if then is not None:
        yield from dialect.ask(BEGIN_WRITING)  # a transaction that reads first may not get the write lock
        yield from _refuse_lost_or_taken(dialect, job_id, lease, then)
    if lease == 1:
        yield from write_claims_of(dialect, [job_id])
    yield from add_on_end(dialect, [(job_id, on_end)])
    if not (yield from dialect.ask(queries.COMPLETE, now_ms, job_id, lease, result, started_age_ms)):
        raise LeaseLost(job_id)
    if progress is not None:
        yield from mark_progress(dialect, [progress], now_ms)
    if result is not None:
        yield from refer_to(dialect, [result], [job_id])
    if then is not None:
        yield from write_next_step(dialect, job_id, then, now_ms)
    yield from after_end(dialect, [job_id], make_tallies({job_id}), now_ms, locked=Locked.CALLER)


class Completions(NamedTuple):
    """Attempts that were completed in transactions of their handlers: committed, rolled back, undecided. The leases of
    all others were not current.
    """

    committed: set[int]
    rolled_back: set[int]
    undecided: set[int]


def settle_completed(
    dialect: Dialect,
    ended: Sequence[Ended],
    make_tallies: MakeTallies,
    now_ms: int | None,
    abandoned: Collection[tuple[int, int]] = (),
) -> Plan[Completions]:
    """Settle attempts whose handlers rolled back as given; leave attempts whose transactions are still open alone.

    The slots of `abandoned` attempts are not freed: their handlers still run.
    """
    ids = sorted(one.job_id for one in ended)
    yield from write_free_claims_of(dialect, [one.job_id for one in ended if one.lease == 1])
    existing = yield from dialect.ask(queries.EXISTING, ids)
    found = dict((yield from dialect.ask(queries.LOCK_LEASES, ids)))
    undecided = set(existing) - found.keys()  # another transaction has locked the row
    rolled_back, committed = [], set()
    for one in ended:
        lease, status = found.get(one.job_id) or (-1, "")
        if lease in (one.lease, one.lease - 1):  # the second: its claim is only in a claim row
            rolled_back.append(one)
        elif lease == one.lease + 1 and status == Status.SUCCEEDED:
            committed.add(one.job_id)
    settled = yield from settle(dialect, rolled_back, make_tallies, now_ms, (), write_claims=True, locked=Locked.SKIP)
    freed = attempts_of([one for one in ended if one.job_id not in undecided], abandoned)
    # a transaction that began long ago may not have seen the jobs that wait for its job
    yield from after_end(dialect, committed, (), now_ms, freed, locked=Locked.SKIP)
    return Completions(committed, settled, undecided)


def settle_one(
    dialect: Dialect,
    job: Job,
    transition: Transition,
    now_ms: int | None,
    then: Then | None = None,
    progress: ProgressMark | None = None,
) -> Plan[None]:
    """Settle by hand: `LeaseLost` where it is no longer the caller's."""
    (at_ms,) = yield from dialect.ask(NOW, now_ms)
    tallies = Tallies()
    tallies.enter(job.queue, job.type, job.attempt, transition, *times_of(job, at_ms))
    ended = Ended(job.id, job.lease, transition, then=then, progress=progress)
    if not (yield from settle(dialect, [ended], lambda settled: tallies.rows(), now_ms, write_claims=True)):
        raise LeaseLost(job.id)


def leave_open(dialect: Dialect, job_id: int, lease: int, target: str, lease_ms: int, now_ms: int | None) -> Plan[bool]:
    """Leave an attempt to its target for that long; return whether the lease was current."""
    if lease == 1:
        yield from write_claims_of(dialect, [job_id])
    return bool((yield from dialect.ask(queries.LEAVE_OPEN, now_ms, job_id, lease, OPENED_PREFIX + target, lease_ms)))


def heartbeat(dialect: Dialect, job_id: int, lease: int, lease_ms: int | None, now_ms: int | None) -> Plan[None]:
    """Renew the lease, perhaps with another length; raise `JobCancelled` where the job has a cancel request."""
    if lease == 1:
        yield from write_claims_of(dialect, [job_id])
    if not (yield from dialect.ask(queries.HEARTBEAT, now_ms, job_id, lease, lease_ms)):
        raise LeaseLost(job_id)
    for asked in (yield from cancel_requests(dialect, [(job_id, lease)])):
        raise JobCancelled(job_id, asked.reason)


def settlement_of(ended: Ended) -> Settlement | Success:
    transition = ended.transition
    if transition.move is Move.SUCCEED:
        begins = int(ended.then is not None and ended.then.begins)
        ages = (ended.started_age_ms, ended.finished_age_ms)
        return Success(ended.job_id, ended.lease, *ages, transition.result, begins)
    return Settlement(
        id=ended.job_id,
        lease=ended.lease,
        status=transition.status,
        attempt_status=transition.attempt_status,
        started_age_ms=ended.started_age_ms,
        finished_age_ms=ended.finished_age_ms,
        delay_ms=round(transition.delay_seconds * 1000) if transition.move in (Move.RETRY, Move.SNOOZE) else None,
        attempt_returned=int(not transition.attempt_used),
        attempt_recorded=int(transition.attempt_recorded),
        result=transition.result,
        error_code=transition.error_code,
        error_detail=transition.error_detail,
        traceback=transition.traceback,
        lost=int(transition.move is Move.RECOVER),
        final=int(transition.status in FINISHED),
        hold_ms=None if transition.hold_seconds is None else round(transition.hold_seconds * 1000),
        run_at_ms=transition.run_at_ms,
    )


def _by_id(row: Settlement | Success) -> tuple[int, int]:
    return row.id, row.lease


def _ids_of(rows: Sequence[Settlement | Success]) -> list[int]:
    return [job_id for row in rows for job_id in (row.ids if isinstance(row, Success) else (row.id,))]


def _without_duplicates(rows: Sequence[Settlement | Success]) -> list[Settlement | Success]:
    """Return a row for each job, the one with the highest lease."""
    single: list[Settlement | Success] = []
    for row in rows:
        single += [row.part(range(i, i + 1), row.lease) for i in row.ids] if isinstance(row, Success) else [row]
    return list({row.id: row for row in sorted(single, key=_by_id)}.values())
