"""Orders and groups of counts: what needs attention first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rowcall.domain.job import FINISHED, Pace, RetentionReport, Status

PACE_COUNTS = ("arrived", "succeeded", "retried", "failed")


def by_unfinished(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the names of queues or tasks, those with most unfinished jobs first."""
    unfinished = [status for status in Status if status not in FINISHED]
    return sorted(counts, key=lambda name: (-sum(counts[name][status] for status in unfinished), name))


def by_activity(paces: Mapping[str, Pace]) -> list[str]:
    """Return the names of queues or tasks, busiest first."""
    return sorted(paces, key=lambda name: (-sum(getattr(paces[name], field) for field in PACE_COUNTS), name))


def retried(attempts: Mapping[int, int]) -> int:
    """Return how many jobs took more than one attempt."""
    return sum(jobs for number, jobs in attempts.items() if number > 1)


def attempt_groups(numbers: list[int], most: int) -> dict[str, list[int]]:
    """
    >>> attempt_groups([0, 1, 2, 5, 9], 4)
    {'0': [0], '1': [1], '2': [2], '5+': [5, 9]}
    """
    if len(numbers) <= most:
        return {str(number): [number] for number in numbers}
    alone, together = numbers[: most - 1], numbers[most - 1 :]
    return {**{str(number): [number] for number in alone}, f"{together[0]}+": together}


def kept_by_status(report: RetentionReport) -> tuple[Counter[str], Counter[str], set[str]]:
    """Return how many finished jobs are kept, and how many the next prune deletes, by state; of which states, more."""
    jobs: Counter[str] = Counter()
    prunable: Counter[str] = Counter()
    for kept in report.kept:
        jobs[kept.status] += kept.jobs
        prunable[kept.status] += kept.prunable
    return jobs, prunable, {kept.status for kept in report.kept if kept.more_prunable}
