"""Each check of a storm finds what it is there to find: a good story passes them all, and one bad record does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.notes import Note
from tests.crash.storm import checks, flow_checks, terms
from tests.crash.storm.journal import Attempt, Change, Edge, Effect, Follow, Start
from tests.crash.storm.records import Problems, Records

Check = Callable[[Records], Problems]
ONE, TWO = "host:11:0", "host:22:0"
CHECKS: tuple[Check, ...] = (*checks.CHECKS, *flow_checks.CHECKS)


class Story:
    """Records that are made by hand, one change after another."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.notes: list[Note] = []
        self.edges: list[Edge] = []
        self.starts: list[Start] = []
        self.effects: list[Effect] = []
        self.attempts: list[Attempt] = []
        self.follows: list[Follow] = []
        for ticking in terms.SCHEDULES:
            for number in (1, 2):
                at = number * ticking.every_ms
                self.enqueue(900 + len(self.changes), ticking.task, run_at=at, created_at=at)

    @property
    def records(self) -> Records:
        found = self.notes, self.changes, self.edges, self.starts, self.effects, self.attempts, self.follows
        return Records(*found)

    def note(self, event: str, job_id: int, lease: int = 0, pid: int = 0) -> None:
        self.notes.append(Note(event, job_id, lease, pid))

    def enqueue(self, job_id: int, kind: str = "plain", status: str = "pending", **columns: Any) -> None:
        new = Change(
            *(len(self.changes), "insert", job_id, kind, None, None, status, 0, 0, 3, 0, 0, 0, 0),
            *(None, None, None, None, 0, 0),
        )
        self.changes.append(new._replace(**columns))
        self.note("enqueued", job_id)

    def change(self, job_id: int, status: str | None, **columns: Any) -> None:
        before = [one for one in self.changes if one.job_id == job_id][-1]
        change = before._replace(
            seq=len(self.changes),
            op="update",
            old_status=before.status,
            status=status,
            old_attempt=before.attempt,
            old_lease=before.lease,
            old_lost=before.lost,
        )
        self.changes.append(change._replace(**columns))

    def claim(self, job_id: int, worker: str = ONE, **columns: Any) -> None:
        last = [one for one in self.changes if one.job_id == job_id][-1]
        columns = {"attempt": last.attempt + 1, "lease": last.lease + 1, "worker": worker, **columns}
        self.change(job_id, "running", **columns)

    def end(self, job_id: int, status: str = "succeeded", **columns: Any) -> None:
        last = [one for one in self.changes if one.job_id == job_id][-1]
        self.change(job_id, status, **{"lease": last.lease + 1, **columns})

    def run(self, job_id: int, status: str = "succeeded", worker: str = ONE, under: str = "") -> None:
        """Claimed, begun, ended and recorded."""
        self.claim(job_id, worker)
        last = self.changes[-1]
        self.note(f"begin{under}", job_id, last.lease)
        self.note("end", job_id, last.lease)
        self.end(job_id, status)
        self.attempts.append(Attempt(job_id, last.attempt, status, worker, 1))

    def delete(self, job_id: int) -> None:
        self.change(job_id, None, op="delete")


def a_good_story() -> Story:
    """With a bit of everything in it."""
    story = Story()
    story.enqueue(1)
    story.run(1, "scheduled")
    story.change(1, "pending")
    story.run(1, worker=TWO)
    story.enqueue(2, "join", "blocked")
    story.edges.append(Edge(1, 0, 2, "fail"))
    story.change(2, "pending")
    story.run(2)
    story.delete(1)
    story.enqueue(3, "effect")
    story.claim(3)
    story.effects.append(Effect(3, 1))
    story.end(3)
    story.follows.append(Follow(13, 3, "succeeded"))
    story.attempts.append(Attempt(3, 1, "succeeded", ONE, 1))
    story.enqueue(4, "step", chain_id=4, chain_index=0)
    story.enqueue(5, "step", "blocked", chain_id=4, chain_index=1)
    story.run(4)
    story.change(5, "pending")
    story.run(5)
    story.enqueue(6, "keyed", key="a")
    story.run(6)
    story.enqueue(7, "keyed", key="a")
    story.run(7)
    story.enqueue(8, "paced")
    story.run(8)
    story.starts.append(Start('["paced",0]', 1_000))
    story.enqueue(9, "late")
    story.claim(9)
    story.note("begin:late", 9, 1)
    story.note("kill", 11)
    story.end(9, "pending", lost=1, error_code="WORKER:LOST")
    story.attempts.append(Attempt(9, 1, "lost", ONE, 1))
    story.run(9, worker=TWO, under=":late")
    story.enqueue(10, "join", "blocked")
    story.enqueue(11)
    story.edges.append(Edge(11, 0, 10, "wait"))
    story.run(11, "failed")
    story.enqueue(12)
    story.note("deleting", 12)
    story.delete(12)
    return story


BAD: list[tuple[Check, Callable[[Story], None]]] = []


def breaks(check: Check) -> Callable[[Callable[[Story], None]], Callable[[Story], None]]:
    def add(spoil: Callable[[Story], None]) -> Callable[[Story], None]:
        BAD.append((check, spoil))
        return spoil

    return add


@breaks(checks.nothing_is_lost)
def an_enqueue_that_returned_left_nothing(story: Story) -> None:
    story.note("enqueued", 99)


@breaks(checks.nothing_is_lost)
def a_job_went_before_it_had_ended(story: Story) -> None:
    story.enqueue(20)
    story.delete(20)


@breaks(checks.nothing_is_left_of_what_was_rolled_back)
def a_job_of_a_transaction_that_was_rolled_back(story: Story) -> None:
    story.enqueue(20, terms.NEVER)


@breaks(checks.states_follow_the_table)
def a_move_that_no_table_has(story: Story) -> None:
    story.enqueue(20, status="scheduled")
    story.change(20, "blocked")


@breaks(checks.states_follow_the_table)
def a_change_without_a_record(story: Story) -> None:
    story.enqueue(20)
    story.change(20, "cancelled", old_status="scheduled")


@breaks(checks.no_attempt_is_settled_twice)
def a_second_end_of_one_lease(story: Story) -> None:
    story.enqueue(20)
    story.claim(20)
    story.end(20, "pending", lease=1)


@breaks(checks.no_attempt_is_settled_twice)
def a_lease_that_falls(story: Story) -> None:
    story.change(2, "succeeded", lease=0)


@breaks(checks.no_attempt_is_settled_twice)
def a_claim_of_what_has_ended(story: Story) -> None:
    story.claim(2)


@breaks(checks.attempts_are_numbered_without_gaps)
def an_attempt_that_is_left_out(story: Story) -> None:
    story.enqueue(20)
    story.claim(20, attempt=2)


@breaks(checks.attempts_are_numbered_without_gaps)
def an_attempt_too_many(story: Story) -> None:
    story.enqueue(20, max_attempts=1)
    story.run(20, "scheduled")
    story.change(20, "pending")
    story.run(20)


@breaks(checks.attempts_are_numbered_without_gaps)
def an_attempt_that_is_taken_back_later(story: Story) -> None:
    story.change(2, "succeeded", attempt=0)


@breaks(checks.each_claim_begins_once)
def a_claim_that_begins_twice(story: Story) -> None:
    story.note("begin", 2, 1)


@breaks(checks.each_claim_begins_once)
def a_begin_without_a_claim(story: Story) -> None:
    story.note("begin", 2, 5)


@breaks(checks.what_began_is_on_record)
def a_handler_that_ran_off_the_record(story: Story) -> None:
    story.enqueue(20)
    story.claim(20)
    story.note("begin", 20, 1)
    story.end(20, "pending", attempt=0, lost=1)


@breaks(checks.success_means_the_handler_has_ended)
def a_success_without_a_handler(story: Story) -> None:
    story.enqueue(20)
    story.claim(20)
    story.end(20)


@breaks(checks.effects_happen_once_for_each_success)
def an_effect_twice(story: Story) -> None:
    story.effects.append(Effect(3, 1))


@breaks(checks.effects_happen_once_for_each_success)
def an_effect_of_a_failure(story: Story) -> None:
    story.enqueue(20, "effect")
    story.run(20, "failed")
    story.effects.append(Effect(20, 1))


@breaks(checks.effects_happen_once_for_each_success)
def a_success_without_its_effect(story: Story) -> None:
    story.effects.clear()


@breaks(checks.history_has_every_attempt)
def an_attempt_that_is_not_recorded(story: Story) -> None:
    story.attempts.pop()


@breaks(checks.history_has_every_attempt)
def an_attempt_of_another_worker(story: Story) -> None:
    story.attempts[-1] = story.attempts[-1]._replace(worker=TWO)


@breaks(checks.attempts_that_began_have_started)
def an_attempt_without_a_start(story: Story) -> None:
    story.attempts[-1] = story.attempts[-1]._replace(started=0)


@breaks(checks.handlers_saw_what_was_enqueued)
def a_handler_with_wrong_arguments(story: Story) -> None:
    story.note("wrong", 2, 1)


@breaks(checks.only_those_expire_that_never_started)
def an_end_by_lateness_after_an_attempt(story: Story) -> None:
    story.enqueue(20)
    story.run(20, "scheduled")
    story.change(20, "cancelled", error_code="EXPIRED:NOT_STARTED")


@breaks(checks.each_end_has_one_follow_up)
def an_end_that_was_not_followed(story: Story) -> None:
    story.enqueue(20, "once")
    story.run(20, "failed")


@breaks(checks.each_end_has_one_follow_up)
def an_end_that_was_followed_twice(story: Story) -> None:
    story.follows.append(Follow(20, 3, "succeeded"))


@breaks(checks.each_end_has_one_follow_up)
def a_follow_up_of_a_job_that_was_retried(story: Story) -> None:
    story.follows.append(Follow(20, 1, "failed"))


@breaks(checks.each_batch_is_reported_once)
def a_batch_that_is_reported_by_two_jobs(story: Story) -> None:
    for job_id in (20, 21):
        story.note("over", 5, job_id)


@breaks(flow_checks.jobs_start_after_their_blockers)
def a_start_before_the_blocker_has_succeeded(story: Story) -> None:
    story.edges.append(Edge(11, 0, 8, "fail"))


@breaks(flow_checks.jobs_start_after_their_blockers)
def a_start_before_the_last_step_of_a_chain(story: Story) -> None:
    story.enqueue(20, "step", chain_id=20, chain_index=0)
    story.enqueue(21, "step", "blocked", chain_id=20, chain_index=1)
    story.run(20)
    story.enqueue(22, "join", "blocked")
    story.edges.append(Edge(20, 1, 22, "fail"))
    story.change(22, "pending")
    story.run(22)
    story.change(21, "cancelled", error_code="CANCELLED:BY_HAND")


@breaks(flow_checks.jobs_start_after_their_blockers)
def a_start_before_a_blocker_has_ended_at_all(story: Story) -> None:
    story.enqueue(20)
    story.enqueue(21)
    story.edges.append(Edge(20, 0, 21, "run"))
    story.run(21)


@breaks(flow_checks.jobs_start_after_their_blockers)
def a_start_after_its_blocker_was_deleted(story: Story) -> None:
    _starts_after_a_deleted_blocker(story, "fail")


def _starts_after_a_deleted_blocker(story: Story, on_failure: str) -> None:
    story.enqueue(20)
    story.enqueue(21, "join", "blocked")
    story.edges.append(Edge(20, 0, 21, on_failure))
    story.delete(20)
    story.change(21, "pending")
    story.run(21)


@breaks(flow_checks.steps_of_a_chain_run_in_order)
def a_step_before_the_one_before_it(story: Story) -> None:
    story.enqueue(20, "step", chain_id=20, chain_index=0)
    story.enqueue(21, "step", chain_id=20, chain_index=1)
    story.run(21)
    story.run(20)


@breaks(flow_checks.steps_of_a_chain_run_in_order)
def a_retried_step_while_the_failed_one_before_it_is_there(story: Story) -> None:
    story.enqueue(20, "step", chain_id=20, chain_index=0)
    story.enqueue(21, "step", chain_id=20, chain_index=1)
    story.change(20, "failed")
    story.change(21, "failed")
    story.change(21, "pending")
    story.run(21)


@breaks(flow_checks.steps_of_a_chain_run_in_order)
def a_step_that_is_there_twice(story: Story) -> None:
    story.enqueue(20, "step", "blocked", chain_id=4, chain_index=1)
    story.edges.append(Edge(10, 0, 20, "fail"))


@breaks(flow_checks.a_failed_blocker_has_its_effect)
def a_failure_because_of_a_blocker_that_succeeded(story: Story) -> None:
    story.enqueue(20, status="blocked")
    story.edges.append(Edge(8, 0, 20, "fail"))
    story.change(20, "failed", error_code="BLOCKER:FAILED")


@breaks(flow_checks.a_failed_blocker_has_its_effect)
def a_job_that_is_blocked_for_ever(story: Story) -> None:
    story.enqueue(20, status="blocked")
    story.edges.append(Edge(11, 0, 20, "fail"))


@breaks(flow_checks.keys_are_unique)
def two_active_jobs_of_one_key(story: Story) -> None:
    story.enqueue(20, "keyed", key="b")
    story.enqueue(21, "keyed", key="b")


@breaks(flow_checks.keys_are_unique)
def a_retry_of_a_job_whose_key_is_taken(story: Story) -> None:
    story.enqueue(20, "keyed", key="a")
    story.change(7, "pending")


@breaks(flow_checks.keys_are_unique)
def two_waiting_jobs_where_one_replaces_the_other(story: Story) -> None:
    story.enqueue(20, "keyed_or_replace", key="a")
    story.enqueue(21, "keyed_or_replace", key="a", began=1)


def _runs_and_waits_again(story: Story, job_id: int) -> None:
    """Its attempt ends at 4, and it is staged at 5."""
    story.enqueue(job_id, "keyed_or_replace", key="a")
    story.claim(job_id, at=3)
    story.end(job_id, "scheduled", at=4)
    story.change(job_id, "pending", at=5)


@breaks(flow_checks.keys_are_unique)
def a_second_job_although_the_first_one_waits_again(story: Story) -> None:
    _runs_and_waits_again(story, 20)
    story.enqueue(21, "keyed_or_replace", key="a", began=6)


@breaks(flow_checks.keys_are_unique)
def two_jobs_of_a_key_that_finished_ones_hold(story: Story) -> None:
    story.enqueue(20, "keyed_for_good", key="a")
    story.run(20)
    story.enqueue(21, "keyed_for_good", key="a")


@breaks(flow_checks.keys_are_unique)
def two_jobs_within_the_window_of_a_key(story: Story) -> None:
    story.enqueue(20, "keyed_for_a_while", key="a", created_at=10_000)
    story.run(20)
    story.enqueue(21, "keyed_for_a_while", key="a", created_at=11_000)


@breaks(flow_checks.limits_of_concurrency_hold)
def one_more_than_a_limit_allows(story: Story) -> None:
    for job_id in (20, 21):
        story.enqueue(job_id, "late")
        story.claim(job_id)
        story.note("begin:late", job_id, 1)
    for job_id in (20, 21):
        story.note("end", job_id, 1)
        story.end(job_id)
        story.attempts.append(Attempt(job_id, 1, "succeeded", ONE, 1))


@breaks(flow_checks.limits_of_concurrency_hold)
def a_handler_that_runs_on_next_to_its_next_attempt(story: Story) -> None:
    story.enqueue(20, "late")
    story.claim(20)
    story.note("begin:late", 20, 1)
    story.end(20, "scheduled", error_code="TIMEOUT:HANDLER")
    story.change(20, "pending")
    story.claim(20)
    story.note("begin:late", 20, 3)
    for lease in (1, 3):
        story.note("end", 20, lease)
    story.end(20)
    story.attempts += [Attempt(20, 1, "failed", ONE, 1), Attempt(20, 2, "succeeded", ONE, 1)]


@breaks(flow_checks.limits_of_rate_hold)
def one_more_than_a_rate_allows(story: Story) -> None:
    for number in range(terms.PACED.rate or 0):
        story.enqueue(20 + number, "paced")
        story.run(20 + number)
        story.starts.append(Start('["paced",0]', 1_100 + number))


@breaks(flow_checks.limits_of_rate_hold)
def one_unit_more_than_a_rate_allows(story: Story) -> None:
    for number, units in enumerate((terms.MOST_UNITS, (terms.WEIGHED.rate or 0) - terms.MOST_UNITS + 1)):
        story.enqueue(20 + number, "weighed")
        story.run(20 + number)
        story.starts.append(Start('["weighed",0]', 1_100 + number, units))


@breaks(flow_checks.limits_of_rate_hold)
def a_claim_that_is_no_start(story: Story) -> None:
    story.starts.clear()


@breaks(flow_checks.ticks_come_once_and_none_is_missing)
def a_tick_twice(story: Story) -> None:
    every_ms = terms.SCHEDULES[0].every_ms
    story.enqueue(20, terms.SCHEDULES[0].task, run_at=every_ms, created_at=every_ms)


@breaks(flow_checks.ticks_come_once_and_none_is_missing)
def a_tick_that_is_missing(story: Story) -> None:
    late = terms.SCHEDULES[0].every_ms * 4
    story.enqueue(20, terms.SCHEDULES[0].task, run_at=late, created_at=late + 5)


@breaks(flow_checks.ticks_come_once_and_none_is_missing)
def a_tick_that_was_skipped_too_soon(story: Story) -> None:
    late = terms.SCHEDULES[2].every_ms * 4
    story.enqueue(20, terms.SCHEDULES[2].task, run_at=late, created_at=late + 5)


@breaks(flow_checks.ticks_come_once_and_none_is_missing)
def a_tick_of_another_time(story: Story) -> None:
    story.enqueue(20, terms.SCHEDULES[1].task, run_at=1_001, created_at=1_002)


def found(story: Story) -> dict[str, list[str]]:
    problems = {check.__name__: list(check(story.records)) for check in CHECKS}
    return {name: some for name, some in problems.items() if some}


def test_a_good_story_passes() -> None:
    assert found(a_good_story()) == {}


@pytest.mark.parametrize(("check", "spoil"), [pytest.param(*bad, id=bad[1].__name__) for bad in BAD])
def test_a_bad_record_is_found(check: Check, spoil: Callable[[Story], None]) -> None:
    story = a_good_story()
    spoil(story)
    assert check.__name__ in found(story)


def test_a_job_that_ran_when_the_transaction_of_the_next_one_began_is_not_in_its_way() -> None:
    story = a_good_story()
    _runs_and_waits_again(story, 20)
    story.enqueue(21, "keyed_or_replace", key="a", began=3)
    assert flow_checks.keys_are_unique.__name__ not in found(story)


def test_a_job_that_runs_after_any_end_of_its_blocker_may_run_after_its_deletion() -> None:
    story = a_good_story()
    _starts_after_a_deleted_blocker(story, "run")
    assert flow_checks.jobs_start_after_their_blockers.__name__ not in found(story)


def test_no_check_is_without_a_bad_record() -> None:
    assert {check.__name__ for check in CHECKS} == {check.__name__ for check, _ in BAD}
