from __future__ import annotations

from collections import Counter

import msgspec

from rowcall import Kept, Pace, RetentionReport, Status
from rowcall.overview.counts import attempt_groups, by_activity, by_unfinished, kept_by_status, retried


def counts(**found: int) -> Counter[str]:
    return Counter(found)


def test_most_unfinished_jobs_come_first_and_finished_ones_do_not_count() -> None:
    found = {"done": counts(succeeded=900), "b": counts(pending=1, blocked=1), "a": counts(running=2), "c": counts()}
    assert by_unfinished(found) == ["a", "b", "c", "done"]


def test_the_busiest_come_first() -> None:
    assert by_activity({"a": Pace(), "b": Pace(arrived=1, retried=1), "c": Pace(failed=3)}) == ["c", "b", "a"]


def test_a_job_is_retried_from_its_second_attempt_on() -> None:
    assert retried({0: 5, 1: 7, 2: 3, 9: 1}) == 4


def test_numbers_of_attempts_that_fit_stand_alone() -> None:
    assert attempt_groups([1, 2], 2) == {"1": [1], "2": [2]}
    assert attempt_groups([1, 2, 3], 2) == {"1": [1], "2+": [2, 3]}


def test_kept_jobs_are_added_up_by_state() -> None:
    def kept(status: Status, jobs: int, prunable: int, more: bool = False) -> Kept:
        group = Kept(status=status, queue="q", type="t", keep=None, jobs=jobs, prunable=prunable, oldest_at=None)
        return msgspec.structs.replace(group, more_prunable=more)

    report = RetentionReport(
        kept=[kept(Status.FAILED, 3, 1), kept(Status.FAILED, 4, 2, True), kept(Status.SUCCEEDED, 5, 5)],
        jobs=12,
        prunable=8,
        size_bytes=0,
    )
    assert kept_by_status(report) == ({"failed": 7, "succeeded": 5}, {"failed": 3, "succeeded": 5}, {"failed"})
