"""The deadlines of attempts, in the order in which they expire."""

from __future__ import annotations

from rowcall import Rowcall
from rowcall.worker.attempt import Attempt
from rowcall.worker.lanes.deadlines import Deadlines
from tests.worker.support import claimed


def attempts(jobs: Rowcall, count: int) -> list[Attempt]:
    @jobs.task
    def note(number: int) -> None: ...

    note.enqueue_many([{"number": number} for number in range(count)])
    return claimed(jobs, count)


def test_the_first_to_expire_is_known_and_popped_first(jobs: Rowcall) -> None:
    late, early, never = attempts(jobs, 3)
    deadlines = Deadlines(10)
    assert deadlines.next_at() == float("inf")
    assert deadlines.add(late, 20.0)
    assert deadlines.add(early, 10.0)
    assert not deadlines.add(never, 30.0)
    assert deadlines.next_at() == 10.0
    assert deadlines.pop_overdue(9.0) is None
    assert [deadlines.pop_overdue(25.0) for _ in range(3)] == [early, late, None]
    assert deadlines.next_at() == 30.0


def test_settled_attempts_do_not_pile_up(jobs: Rowcall) -> None:
    settled, *others = attempts(jobs, 5)
    settled.settled = True
    deadlines = Deadlines(1)
    deadlines.add(settled, 1.0)
    for attempt in others:
        deadlines.add(attempt, 2.0)
    assert deadlines.next_at() == 2.0
