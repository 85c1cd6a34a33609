"""Jobs that were there before anything was counted."""

from __future__ import annotations

from rowcall import Rowcall, Status
from rowcall.store.records import MOST_ATTEMPTS_COUNTED

FAILED_BEFORE = 12


def old_jobs() -> list[tuple[str, str, str, int, str | None]]:
    """Type, queue, status, attempts and error code: twelve in each state."""
    return [
        (
            f"type{number % 2}",
            ("default", "mail")[number % 3 == 0],
            status.value,
            number * 20,
            (None, "A:B", "C:D")[number % 3] if status is Status.FAILED else None,
        )
        for number in range(12)
        for status in (
            Status.SUCCEEDED,
            Status.FAILED,
            *(other for other in Status if other not in ("succeeded", "failed")),
        )
    ]


def check_counts_of_old_jobs(jobs: Rowcall) -> None:
    rows = old_jobs()
    stats = jobs.stats()
    assert stats.total == len(rows)
    assert stats.by_status == dict.fromkeys(Status, FAILED_BEFORE)
    for queue in ("default", "mail"):
        for status in Status:
            assert stats.by_queue[queue][status] == sum(row[1:3] == (queue, status) for row in rows)
    attempts = [min(row[3], MOST_ATTEMPTS_COUNTED) for row in rows]
    assert jobs.retries().by_attempts == {count: attempts.count(count) for count in sorted(set(attempts))}
    assert {group.error_code: group.count for group in jobs.top_errors()} == {"": 4, "A:B": 4, "C:D": 4}
    assert jobs.retention().jobs == 3 * FAILED_BEFORE
