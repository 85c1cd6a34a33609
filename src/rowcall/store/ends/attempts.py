"""The end of an attempt: write transitions, fenced by the lease, and do what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, cast

import msgspec

from rowcall.domain.blobs import BLOB_KEY
from rowcall.domain.errors import JobCancelled, LeaseLost, StepTaken
from rowcall.domain.job import FINISHED, Job, Status
from rowcall.domain.lifecycle import Move
from rowcall.domain.limits import LimitNote
from rowcall.domain.outcome import Transition
from rowcall.store.batches.finishing import finish_over
from rowcall.store.blobs.references import refer_to
from rowcall.store.counts.tallies import Tallies, times_of
from rowcall.store.dialect import Dialect
from rowcall.store.ends.after import Locked, after_end
from rowcall.store.ends.next_steps import Then, refuse_taken, write_next_steps
from rowcall.store.jobs.cancel_requests import apply_requests, reason_of
from rowcall.store.jobs.inspect import get_all
from rowcall.store.limits.holds_and_breakers import NotedEnd, note_ends
from rowcall.store.queries import ends as queries
from rowcall.store.queries.claims import LOCK_CLAIMS, MAKE_READY, RENEW, RUNNING_IDS, EndedClaim, Fence, Mark
from rowcall.store.queries.control import LOCK_JOBS
from rowcall.store.queries.counts import NOW, Tally
from rowcall.store.queries.ends import Owner, Settlement, Success
from rowcall.store.queries.flows import BEGIN_WRITING
from rowcall.store.queries.workers import OPENED_PREFIX
from rowcall.store.statement import Plan
from rowcall.store.steps.recorded import Woken, wake


class Ended(msgspec.Struct, frozen=True, gc=False):
    """An attempt that ended, and what becomes of the job."""

    job_id: int
    lease: int
    holder: int
    transition: Transition
    started_age_ms: int | None = None
    finished_age_ms: int = 0
    then: Then | None = None
    progress: Mark | None = None
    claimed_at_ms: int | None = None
    """Set where a worker that knows it settles its own success."""
    if_committed: LimitNote | None = None
    """What it says to limits if its handler's transaction has completed the job."""

    @property
    def fence(self) -> Fence:
        return Fence(self.job_id, self.lease, self.holder)


class Written(NamedTuple):
    """The ids whose leases were current, the transitions of the jobs with a cancel request, what to count, and whether
    any of these jobs is followed or in a batch.
    """

    live: set[int]
    cancelled: dict[int, Transition]
    tallies: Sequence[Tally] = ()
    followed: bool = False


MakeTallies = Callable[[set[int]], list[Tally]]
"""Returns the tallies to write, given the ids that were settled."""


def settle(
    dialect: Dialect,
    ended: Sequence[Ended | Success],
    make_tallies: MakeTallies | None,
    freed: Collection[tuple[int, int]] | None = None,
    *,
    owner: Owner | None = None,
    locked: Locked = Locked.WAIT,
) -> Plan[Written]:
    """Settle attempts, and do what follows. `owner`: who claimed the successes. `freed`, `locked`: see `after_end`."""
    written = yield from write_ended(dialect, ended, make_tallies, owner)
    followed = written.followed
    yield from after_end(dialect, written.live, written.tallies, freed, locked=locked, followed=followed)
    return written


def attempts_of(ended: Iterable[Ended | Success], abandoned: Collection[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Return ids and leases, except of attempts whose handlers still run."""
    attempts = [
        (job_id, one.lease) for one in ended for job_id in (one.ids if isinstance(one, Success) else (one.job_id,))
    ]
    return [attempt for attempt in attempts if attempt not in abandoned]


def write_ended(
    dialect: Dialect, ended: Sequence[Ended | Success], make_tallies: MakeTallies | None, owner: Owner | None = None
) -> Plan[Written]:
    """Settle attempts, without what follows: see `after_end`. Successes of `owner` are written by the shortest way."""
    if not ended:
        return Written(set(), {})
    attempts = _latest(ended)
    single = [one for one in attempts if isinstance(one, Ended)]
    continued = {one.job_id: one.then for one in single if one.then and _succeeds(one)}
    if continued:
        yield from refuse_taken(dialect, list(continued.values()))
    successes, others = _split(attempts, owner) if single else (cast("list[Success]", attempts), [])
    live: set[int] = set()
    tallies: list[Tally] = []
    cancelled: dict[int, Transition] = {}
    followed = False
    if successes and others:
        yield from _lock_attempts(dialect, _ids_of(attempts))
    if owner is not None and successes:
        live, followed = yield from dialect.settle_successes(successes, owner)
        large = [row for row in successes if row.result is not None and BLOB_KEY in row.result]
        if large:
            stored = {job_id: row.result for row in large for job_id in row.ids if job_id in live}
            yield from refer_to(dialect, list(stored.values()), list(stored))
    if others:
        written = yield from _settle_others(dialect, others)
        live |= written.live
        cancelled, tallies, followed = written.cancelled, list(written.tallies), followed or written.followed
    if continued:
        steps = {job_id: then for job_id, then in continued.items() if job_id in live}
        yield from write_next_steps(dialect, steps)
    declared = [(one.job_id, one.transition.on_end) for one in single]
    followed |= yield from add_on_end(dialect, [one for one in declared if one[0] in live])
    if live and not followed:
        followed = any((yield from dialect.ask(queries.ANY_FOLLOWED, min(live), max(live))))
    if make_tallies is not None and len(live) > len(cancelled):
        tallies += make_tallies(live - cancelled.keys() if cancelled else live)
    return Written(live, cancelled, tallies, followed)


def _latest(ended: Sequence[Ended | Success]) -> list[Ended | Success]:
    """Return the attempts in the order of the ids: every settler takes them so, and no two wait for each other.

    One job may be there twice, after this worker was declared lost. Leases never fall, so the lower one is void.
    """
    ordered = sorted(ended, key=_by_id)
    ids = _ids_of(ordered)
    if len(set(ids)) == len(ids):
        return ordered
    single: list[Ended | Success] = []
    for one in ordered:
        single += [one.of(job_id) for job_id in one.ids] if isinstance(one, Success) else [one]
    return list({_by_id(one)[0]: one for one in sorted(single, key=_by_id)}.values())


def _split(attempts: Sequence[Ended | Success], owner: Owner | None) -> tuple[list[Success], list[Ended]]:
    """Return the successes that are written by the shortest way, and all other attempts."""
    short = [_shortest(one, owner) for one in attempts]
    return [one for one in short if isinstance(one, Success)], [one for one in short if isinstance(one, Ended)]


def _shortest(ended: Ended | Success, owner: Owner | None) -> Ended | Success:
    """Return the short row of a success that its own worker settles, and that reported no progress."""
    if isinstance(ended, Success) or owner is None or not _succeeds(ended):
        return ended
    if ended.holder != owner.holder or ended.claimed_at_ms is None or ended.progress is not None:
        return ended
    if ended.transition.note is not None:
        return ended
    ages = ended.claimed_at_ms, ended.started_age_ms, ended.finished_age_ms
    return Success(ended.job_id, ended.lease, *ages, ended.transition.result)


def _settle_others(dialect: Dialect, others: Sequence[Ended]) -> Plan[Written]:
    """Settle attempts that did not simply succeed."""
    taken = {one.job_id: one for one in (yield from _take(dialect, [one.fence for one in others]))}
    live = set((yield from dialect.ask(queries.LIVE, [(one.job_id, one.lease) for one in taken.values()])))
    ours = [settlement_of(one, taken[one.job_id]) for one in others if one.job_id in live]
    requested = [job_id for job_id in live if taken[job_id].cancel]
    applied = yield from apply_requests(dialect, ours, requested)
    rows = applied.settlements
    followed: list[bool] = []
    if rows:
        (now_ms,) = yield from dialect.ask(NOW)
        dialect = dialect.at(now_ms)  # the attempt and the job get the same time
        ids, document = [row.id for row in rows], {str(row.id): row for row in rows}
        if any(row.attempt_recorded for row in rows):
            yield from dialect.ask(queries.RECORD_ATTEMPTS, ids, document)
        any_unfinished = any(row.status not in FINISHED for row in rows)
        write = queries.SETTLE_AND_NOTIFY if any_unfinished else queries.SETTLE
        followed = yield from dialect.ask(write, ids, document)
        yield from refer_to(dialect, [row.result for row in rows], ids)
    # also of claims whose jobs were changed behind their back: no job may be left without a ready row
    pending = [row.id for row in rows if row.status == Status.PENDING] + sorted(taken.keys() - live)
    if pending:
        yield from dialect.ask(MAKE_READY, pending)
    yield from note_ends(
        dialect,
        [
            NotedEnd(one.job_id, one.lease, taken[one.job_id].claimed_at_ms, one.transition.note)
            for one in others
            if one.transition.note is not None and one.job_id in live
        ],
    )
    # a signal that came, or a child that ended, while it still ran found nothing to wake
    yield from wake(dialect, [one.job_id for one in others if one.transition.awaits_signal], Woken.BY_FIRST)
    return Written(live, applied.cancelled, applied.tallies(), any(followed))


def _lock_attempts(dialect: Dialect, job_ids: Sequence[int]) -> Plan[None]:
    """Lock all claims before any job, in the order of the ids: for attempts that several statements end."""
    yield from dialect.ask(LOCK_CLAIMS, job_ids)
    yield from dialect.ask(LOCK_JOBS, job_ids)


def drop_void(dialect: Dialect, fences: Sequence[Fence]) -> Plan[list[Fence]]:
    """Delete the claims of attempts whose jobs were changed from outside, if they are still there.

    Return the attempts whose rows another transaction has locked. It never waits, so it may come after other locks.
    """
    locked = set((yield from dialect.ask(queries.LOCK_VOID, fences)))
    taken = yield from _take(dialect, [fence for fence in fences if fence.job_id not in locked])
    if taken:
        yield from dialect.ask(MAKE_READY, [one.job_id for one in taken])
    return [fence for fence in fences if fence.job_id in locked]


def _take(dialect: Dialect, fences: Sequence[Fence]) -> Plan[list[EndedClaim]]:
    """Delete the claims of these attempts, as far as they are current, and return them."""
    taken = yield from dialect.ask(queries.TAKE, fences)
    yield from dialect.ask(queries.DROP_CLAIMS, fences)
    return taken


def add_on_end(dialect: Dialect, jobs: Iterable[tuple[int, str | None]]) -> Plan[bool]:
    """Write what follows the end of jobs into the rows that do not say: `after_end` reads it there. Return whether any
    row was written.
    """
    ids_by_text: dict[str, list[int]] = {}
    for job_id, on_end in jobs:
        if on_end is not None:
            ids_by_text.setdefault(on_end, []).append(job_id)
    any_written = False
    for on_end, ids in ids_by_text.items():
        any_written |= bool((yield from dialect.ask(queries.ADD_ON_END, ids, on_end)))
    return any_written


def _succeeds(one: Ended) -> bool:
    return one.transition.move is Move.SUCCEED


def _refuse_lost_or_taken(dialect: Dialect, fence: Fence, then: Then) -> Plan[None]:
    """Refuse a step that exists, unless an earlier completion of the same attempt wrote it."""
    try:
        yield from refuse_taken(dialect, [then])
    except StepTaken:
        job = (yield from get_all(dialect, [fence.job_id])).get(fence.job_id)
        if job is None or job.lease != fence.lease:
            raise LeaseLost(fence.job_id) from None
        raise


class Completed(NamedTuple):
    """What a handler completes in its own transaction."""

    fence: Fence
    result: str | None
    started_age_ms: int | None
    then: Then | None = None
    on_end: str | None = None
    progress: Mark | None = None


def complete(dialect: Dialect, completed: Completed, make_tallies: MakeTallies) -> Plan[None]:
    """Settle a success inside the caller's transaction; raise `LeaseLost` where the claim is gone.

    The next step is written in the same transaction. Jobs that wait for this one are unblocked here only where there is
    one writer: elsewhere their rows would stay locked for as long as the caller's transaction lasts.
    """
    fence, then, result = completed.fence, completed.then, completed.result
    if then is not None:
        yield from dialect.ask(BEGIN_WRITING)  # a transaction that reads first may not get the write lock
        yield from _refuse_lost_or_taken(dialect, fence, then)
    reported = (0, None) if completed.progress is None else (1, completed.progress.message)
    written = yield from dialect.ask(queries.COMPLETE, *fence, result, completed.started_age_ms, *reported)
    if not written:
        raise LeaseLost(fence.job_id)
    yield from dialect.ask(queries.DROP_CLAIM, *fence)
    if result is not None:
        yield from refer_to(dialect, [result], [fence.job_id])
    if then is not None:
        yield from write_next_steps(dialect, {fence.job_id: then})
    followed = (yield from add_on_end(dialect, [(fence.job_id, completed.on_end)])) or written[0]
    locked = Locked.WAIT if dialect.one_writer else Locked.CALLER
    yield from after_end(dialect, [fence.job_id], make_tallies({fence.job_id}), locked=locked, followed=followed)


class Completions(NamedTuple):
    """Attempts that were completed in transactions of their handlers: committed, rolled back, undecided. The leases of
    all others were not current.
    """

    committed: set[int]
    rolled_back: set[int]
    undecided: set[int]


def settle_completed(
    dialect: Dialect, ended: Sequence[Ended], make_tallies: MakeTallies, abandoned: Collection[tuple[int, int]] = ()
) -> Plan[Completions]:
    """Settle attempts whose handlers rolled back as given; leave attempts whose transactions are still open alone.

    The slots of `abandoned` attempts are not freed: their handlers still run. A job that succeeded at the lease of an
    attempt counts as committed, also for another holder: its row has none. So after a failover or a restored backup,
    the handler of an id that was given out again may count as committed; nothing is written about the other job.
    """
    ids = sorted(one.job_id for one in ended)
    claimed = set((yield from dialect.ask(RUNNING_IDS, ids)))
    free = set((yield from dialect.ask(queries.LOCK_FREE_CLAIMS, ids)))
    now_written = yield from dialect.ask(queries.LEASES, ids)
    leases = {job_id: (lease, status) for job_id, lease, status, _ in now_written}
    unlocked = set((yield from dialect.ask(queries.LOCK_FREE_JOBS, sorted(free)))) if free else free
    undecided = (claimed - free) | ((free & leases.keys()) - unlocked)  # another transaction has locked them
    committed = {one.job_id for one in ended if leases.get(one.job_id) == (one.lease + 1, Status.SUCCEEDED)} - undecided
    rolled_back = [one for one in ended if one.job_id in free - committed - undecided]
    # SQLite may have committed the end of a job, and not yet the end of its claim
    yield from _take(dialect, [one.fence for one in ended if one.job_id in committed])
    yield from note_ends(
        dialect,
        [
            NotedEnd(one.job_id, one.lease, one.claimed_at_ms, one.if_committed)
            for one in ended
            if one.if_committed is not None and one.job_id in committed
        ],
    )
    settled = (yield from settle(dialect, rolled_back, make_tallies, (), locked=Locked.SKIP)).live
    freed = attempts_of([one for one in ended if one.job_id not in undecided], abandoned)
    # a transaction that began long ago may not have seen the jobs that wait for its job
    yield from after_end(dialect, committed, (), freed, locked=Locked.SKIP)
    batches = {batch_id for job_id, _, _, batch_id in now_written if batch_id is not None and job_id in committed}
    yield from finish_over(dialect, batches, wait=False)
    return Completions(committed, settled, undecided)


def settle_one(
    dialect: Dialect, job: Job, transition: Transition, then: Then | None = None, progress: Mark | None = None
) -> Plan[None]:
    """Settle by hand: `LeaseLost` where it is no longer the caller's."""
    (at_ms,) = yield from dialect.ask(NOW)
    tallies = Tallies()
    tallies.enter(job.queue, job.type, job.attempt, transition, *times_of(job, at_ms))
    ended = Ended(job.id, job.lease, job.holder, transition, then=then, progress=progress)
    if not (yield from settle(dialect, [ended], lambda settled: tallies.rows(), locked=Locked.SKIP)).live:
        raise LeaseLost(job.id)


def leave_open(dialect: Dialect, fence: Fence, target: str, lease_ms: int) -> Plan[bool]:
    """Leave an attempt to its target for that long; return whether the claim was current.

    The claim stays the same: the target may be about to settle it.
    """
    return bool((yield from dialect.ask(RENEW, *fence, lease_ms, OPENED_PREFIX + target)))


def heartbeat(dialect: Dialect, fence: Fence, lease_ms: int | None) -> Plan[None]:
    """Renew the lease, perhaps with another length; raise `JobCancelled` where the job has a cancel request."""
    renewed = yield from dialect.ask(RENEW, *fence, lease_ms, None)
    if not renewed:
        raise LeaseLost(fence.job_id)
    if renewed[0]:
        raise JobCancelled(fence.job_id, (yield from reason_of(dialect, fence.job_id)))


def settlement_of(ended: Ended, taken: EndedClaim) -> Settlement:
    """Return what is written about an attempt, and about its job."""
    transition, reported = ended.transition, ended.progress
    progress = (taken.progress, taken.progress_message, 0)
    if reported is not None:
        progress = (reported.progress, reported.message, reported.replays)
    elif taken.progress is not None and _succeeds(ended):
        progress = (1.0, taken.progress_message, 0)
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
        unfit=transition.unfit,
        run_at_ms=transition.run_at_ms,
        progress=progress[0],
        progress_message=progress[1],
        replays=progress[2],
        worker=taken.worker,
        claimed_at_ms=taken.claimed_at_ms,
        started_at_ms=taken.started_at_ms,
    )


def _by_id(one: Ended | Success) -> tuple[int, int]:
    return (one.id if isinstance(one, Success) else one.job_id), one.lease


def _ids_of(attempts: Iterable[Ended | Success]) -> list[int]:
    return [job_id for one in attempts for job_id in (one.ids if isinstance(one, Success) else (one.job_id,))]
