"""The table of states, walked: every allowed move leads where the table says, every other one changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple, TypeVar

import msgspec
import pytest

from rowcall import Job, JobNotFound, LeaseLost, Rowcall, RowcallError, Snooze, Status, WrongState
from rowcall.app import queue_of
from rowcall.domain.lifecycle import TABLE, Move, sources, target
from rowcall.domain.outcome import (
    AttemptBudget,
    Mismatched,
    Outcome,
    Raised,
    Released,
    Reported,
    Succeeded,
    Unfit,
    decide,
)
from rowcall.operations.effects import Write
from rowcall.store.ends.after import WaitingEnd, end_waiting
from rowcall.store.ends.attempts import settle_one
from rowcall.store.ends.waiting import fail_unknown
from rowcall.store.flows.blockers import block_again, unblock
from rowcall.store.queries.claims import key_of
from rowcall.store.queries.flows import MARK_CHAINS
from rowcall.store.queries.jobs import STAGE
from rowcall.store.statement import Row, Statement
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.worker_parts import watcher

T = TypeVar("T")
CREATING = [rule for rule in TABLE if rule.source is None]
LEASE, DELAY = 300.0, 60.0
MISMATCH, GRACE = Mismatched("no argument `loud`", "0123abcd"), 10.0


class Walk(NamedTuple):
    """One job on its way; `blocker` is the job that it waits for, if it ever waited."""

    jobs: Rowcall
    clock: FakeClock
    job_id: int
    blocker: int | None = None

    @property
    def job(self) -> Job:
        return self.jobs.get(self.job_id)

    def run(self, plan: Callable[[], Generator[Statement[object], list[Row], T]]) -> T:
        return queue_of(self.jobs).run(Write(plan))

    def settle(self, outcome: Outcome) -> None:
        """End the latest attempt, as its worker does; a job that does not run was lost to that worker in between."""
        job = self.job
        if job.status is not Status.RUNNING:
            job = msgspec.structs.replace(job, lease=job.lease - 1)
        transition = decide(AttemptBudget(job.attempt, job.max_attempts), outcome)
        self.run(lambda: settle_one(queue_of(self.jobs).dialect, job, transition))

    def claim(self) -> list[Job]:
        return self.jobs.claim("hand", queues=[self.job.queue], lease=LEASE)

    def end_blocker(self, move: Move) -> None:
        if self.blocker is None:
            return
        blocker = self._replace(job_id=self.blocker)
        if move is Move.CANCEL:
            self.jobs.cancel(self.blocker)
        else:
            assert blocker.claim()
            blocker.settle(Succeeded() if move is Move.SUCCEED else Unfit("A:B", "why"))

    def recover(self) -> None:
        self.clock.advance(LEASE + 1)
        watcher(self.jobs).check()

    def cancel(self) -> None:
        """Cancel, and let the attempt that runs end."""
        if self.jobs.cancel(self.job_id).status is Status.RUNNING:
            self.settle(Released())

    def reblock(self) -> None:
        if self.job.status in sources(Move.REBLOCK):
            self.jobs.retry(self.job_id)
        else:
            self.run(lambda: block_again(queue_of(self.jobs).dialect, [self.job_id]))

    def expire(self) -> None:
        self.clock.advance(DELAY / 2)
        self.jobs.claim("hand", queues=["no such queue"])

    def complete_chain(self) -> None:
        self.run(lambda: queue_of(self.jobs).dialect.ask(MARK_CHAINS, [(self.job_id, self.job_id, 0)]))
        self.jobs.complete_chain(self.job_id)

    def unblock(self) -> None:
        self.end_blocker(Move.SUCCEED)
        self.run(lambda: unblock(queue_of(self.jobs).dialect, [self.job_id]))

    def break_blocked(self) -> None:
        self.end_blocker(Move.FAIL)
        end = WaitingEnd(target(Status.BLOCKED, Move.BREAK), "A:B", only=Status.BLOCKED)
        self.run(lambda: end_waiting(queue_of(self.jobs).dialect, {self.job_id: "why"}, end))

    def stage(self) -> None:
        self.clock.advance(DELAY + 1)
        self.run(lambda: queue_of(self.jobs).dialect.change(STAGE, 100))

    def refuse(self) -> None:
        self.clock.advance(GRACE + 1)
        key, due_ms, job = key_of("send", MISMATCH.fingerprint), round(GRACE * 1000), self.job
        self.run(lambda: fail_unknown(queue_of(self.jobs).dialect, job.queue, key, due_ms, "late"))


class Way(NamedTuple):
    """How a move is tried, and the error where it is not allowed; None for a move that then does nothing."""

    go: Callable[[Walk], object]
    refusal: type[RowcallError] | None = None


def _settling(outcome: Outcome) -> Way:
    return Way(lambda walk: walk.settle(outcome), LeaseLost)


WAYS: dict[Move, Way] = {
    Move.UNBLOCK: Way(Walk.unblock),
    Move.DEFER: Way(Walk.unblock),
    Move.BREAK: Way(Walk.break_blocked),
    Move.COMPLETE: Way(Walk.complete_chain, WrongState),
    Move.STAGE: Way(Walk.stage),
    Move.CLAIM: Way(Walk.claim),
    Move.SUCCEED: _settling(Succeeded()),
    Move.RETRY: _settling(Reported("A:B", "why")),
    Move.SNOOZE: _settling(Raised(Snooze(delay=DELAY), "", "")),
    Move.RELEASE: _settling(Released()),
    Move.FAIL: _settling(Unfit("A:B", "why")),
    Move.RECOVER: Way(Walk.recover),
    Move.LOSE: Way(Walk.recover),
    Move.REFUSE: Way(Walk.refuse),
    Move.CANCEL: Way(Walk.cancel, WrongState),
    Move.EXPIRE: Way(Walk.expire),
    Move.OVERRUN: Way(Walk.expire),
    Move.RESCHEDULE: Way(lambda walk: walk.jobs.reschedule(walk.job_id, delay=2 * DELAY), WrongState),
    Move.RERUN: Way(lambda walk: walk.jobs.retry(walk.job_id), WrongState),
    Move.REBLOCK: Way(Walk.reblock),
    Move.DELETE: Way(lambda walk: walk.jobs.delete(walk.job_id), WrongState),
}
# what a job must be like for a move, where not every job in its state will do
OPTIONS: dict[Move, dict[str, object]] = {
    Move.DEFER: {"delay": DELAY},
    Move.LOSE: {"max_attempts": 1},
    Move.EXPIRE: {"expires_in": DELAY / 4},
    Move.OVERRUN: {"deadline": DELAY / 4},
}


def job_in(status: Status, move: Move, jobs: Rowcall, clock: FakeClock) -> Walk:
    """Return a job in a state, in a separate queue, such that the move is possible if it is allowed there."""
    queue = f"{status}-{move}"
    options = {"queue": queue, **(OPTIONS.get(move, {}) if status in sources(move) else {})}
    falls = move is Move.REBLOCK and status in sources(move)
    if status is Status.BLOCKED or falls:
        blocker = jobs.enqueue("blocker", queue=f"{queue}-blocker").id
        walk = Walk(jobs, clock, jobs.enqueue("send", after=[blocker], **options).id, blocker)  # type: ignore[arg-type]
        if falls:
            walk.end_blocker(Move.CANCEL if status is Status.CANCELLED else Move.FAIL)
        return walk
    snoozes = status is Status.SCHEDULED and move is Move.OVERRUN  # the deadline counts from the first time
    if status is Status.SCHEDULED and not snoozes:
        options = {"delay": DELAY, **options}
    walk = Walk(jobs, clock, jobs.enqueue("send", **options).id)  # type: ignore[arg-type]
    if snoozes:
        assert walk.claim()
        walk.settle(Raised(Snooze(delay=DELAY), "", ""))
    elif status is Status.PENDING and move is Move.REFUSE:
        assert walk.claim()
        walk.settle(MISMATCH)
    elif status is Status.CANCELLED:
        jobs.cancel(walk.job_id)
    elif status not in (Status.SCHEDULED, Status.PENDING):
        assert walk.claim()
        if status is not Status.RUNNING:
            walk.settle(Succeeded() if status is Status.SUCCEEDED else Unfit("A:B", "why"))
    return walk


class TestLifecycle:
    def test_there_is_a_way_to_try_every_move(self) -> None:
        assert WAYS.keys() | {rule.move for rule in CREATING} == set(Move)

    def test_a_new_job_is_in_the_state_of_the_table(self, jobs: Rowcall) -> None:
        first = jobs.enqueue("send")
        new = {Move.ENQUEUE: first, Move.POSTPONE: jobs.enqueue("send", delay=DELAY)}
        new[Move.BLOCK] = jobs.enqueue("send", after=[first])
        assert {move: job.status for move, job in new.items()} == {rule.move: rule.target for rule in CREATING}

    @pytest.mark.parametrize("move", WAYS)
    def test_a_move_is_made_where_the_table_allows_it(self, jobs: Rowcall, clock: FakeClock, move: Move) -> None:
        for rule in TABLE:
            if rule.move is move and rule.source is not None:
                walk = job_in(rule.source, move, jobs, clock)
                assert walk.job.status is rule.source
                WAYS[move].go(walk)
                if rule.target is None:
                    with pytest.raises(JobNotFound):
                        jobs.get(walk.job_id)
                else:
                    assert walk.job.status is rule.target, rule

    @pytest.mark.parametrize("move", WAYS)
    def test_a_move_is_refused_everywhere_else(self, jobs: Rowcall, clock: FakeClock, move: Move) -> None:
        way = WAYS[move]
        for status in set(Status) - set(sources(move)):
            walk = job_in(status, move, jobs, clock)
            before = walk.job
            assert before.status is status
            if way.refusal is None:
                way.go(walk)
            else:
                with pytest.raises(way.refusal):
                    way.go(walk)
            after = walk.job
            assert (after.status, after.lease, after.attempt) == (status, before.lease, before.attempt), (move, status)
