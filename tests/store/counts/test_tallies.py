from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rowcall import Job, Status
from rowcall.base.times import milliseconds_of
from rowcall.domain.outcome import (
    AttemptBudget,
    Lost,
    Outcome,
    Released,
    Reported,
    Succeeded,
    Transition,
    Unfit,
    decide,
)
from rowcall.store.counts.tallies import Tallies, bucket_of, cancelled_by_hand, expired, revived, times_of
from rowcall.store.queries.counts import MOST_ATTEMPTS_COUNTED, Tally
from rowcall.store.queries.flows import Touched

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def entered(outcome: Outcome, attempt: int = 1, max_attempts: int = 5) -> list[Tally]:
    tallies = Tallies()
    tallies.enter("mail", "send", attempt, decide(AttemptBudget(attempt, max_attempts), outcome), 5, 7)
    return tallies.rows()


def a_job(**fields: object) -> Job:
    given = {
        "id": 1,
        "type": "send",
        "queue": "mail",
        "payload": {},
        "status": Status.FAILED,
        "run_at": NOW,
        "created_at": NOW,
        **fields,
    }
    return Job(**given)  # type: ignore[arg-type]


def test_what_ends_the_same_way_is_one_row() -> None:
    tallies = Tallies()
    for wait in (5, 5, 1000):
        tallies.enter("mail", "send", 1, decide(AttemptBudget(1, 5), Succeeded()), wait, None)
    (tally,) = tallies.rows()
    assert (tally.outcome, tally.status, tally.jobs) == ("succeeded", "succeeded", 3)
    assert (tally.waits, tally.runs) == ({5: 2, bucket_of(1000): 1}, {})


def test_queue_type_attempt_and_error_each_make_their_own_row() -> None:
    tallies = Tallies()
    failure: Transition = decide(AttemptBudget(5, 5), Reported("A:B", ""))
    other: Transition = decide(AttemptBudget(5, 5), Reported("C:D", ""))
    for queue, kind, attempt, transition in (
        ("mail", "send", 5, failure),
        ("media", "send", 5, failure),
        ("mail", "post", 5, failure),
        ("mail", "send", 6, failure),
        ("mail", "send", 5, other),
    ):
        tallies.enter(queue, kind, attempt, transition, None, None)
    assert len(tallies.rows()) == 5
    assert {tally.jobs for tally in tallies.rows()} == {1}


def test_each_end_has_its_name_and_only_the_last_changes_a_total() -> None:
    cases: list[tuple[Outcome, int, str, str | None, str]] = [
        (Succeeded(), 1, "succeeded", "succeeded", ""),
        (Reported("A:B", ""), 1, "retried", None, "A:B"),
        (Reported("A:B", ""), 5, "failed", "failed", "A:B"),
        (Unfit("A:B", ""), 1, "failed", "failed", "A:B"),
        (Lost(), 1, "lost", None, "WORKER:LOST"),
        (Lost(), 5, "failed", "failed", "WORKER:LOST"),
        (Released(), 1, "released", None, ""),
    ]
    for outcome, attempt, name, status, code in cases:
        (tally,) = entered(outcome, attempt)
        assert (tally.outcome, tally.status, tally.error_code, tally.jobs) == (name, status, code, 1), outcome


def test_an_attempt_that_never_began_is_none() -> None:
    assert entered(Released(started=False)) == entered(Lost(started=False)) == []


def test_very_many_attempts_are_counted_together() -> None:
    (tally,) = entered(Succeeded(), attempt=5000, max_attempts=9000)
    assert tally.attempt == MOST_ATTEMPTS_COUNTED
    assert revived(a_job(attempt=5000)).attempt == MOST_ATTEMPTS_COUNTED


def test_reviving_takes_back_what_finishing_added() -> None:
    (added,) = entered(Reported("A:B", ""), attempt=5)
    taken = revived(a_job(attempt=5, error_code="A:B"))
    assert (taken.status, taken.queue, taken.type, taken.error_code, taken.attempt) == (
        added.status,
        added.queue,
        added.type,
        added.error_code,
        added.attempt,
    )
    assert (added.jobs, taken.jobs, taken.outcome) == (1, -1, None)


def test_what_people_and_time_cancel() -> None:
    by_hand = cancelled_by_hand(a_job(status=Status.PENDING), "CANCELLED:BY_HAND")
    assert (by_hand.status, by_hand.outcome, by_hand.jobs) == ("cancelled", "cancelled", 1)
    tallies = expired([Touched(1, "mail", "send", 0), Touched(2, "mail", "post", 0), Touched(3, "mail", "send", 0)])
    assert {(tally.type, tally.jobs, tally.outcome) for tally in tallies} == {
        ("send", 2, "expired"),
        ("post", 1, "expired"),
    }


def test_waits_and_runs_of_a_claimed_job() -> None:
    at_ms = milliseconds_of(NOW + timedelta(seconds=10))
    claimed = a_job(claimed_at=NOW + timedelta(seconds=3))
    assert times_of(claimed, at_ms) == (3000, 7000)
    started = a_job(claimed_at=NOW + timedelta(seconds=3), started_at=NOW + timedelta(seconds=4))
    assert times_of(started, at_ms) == (3000, 6000)
    assert times_of(a_job(), at_ms) == (None, None)
