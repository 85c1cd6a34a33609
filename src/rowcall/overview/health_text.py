"""How things are, in words: what a page begins with."""

from __future__ import annotations

from collections.abc import Sequence

from rowcall.base.text import duration
from rowcall.domain.attention import Finding, Severity
from rowcall.domain.job import Stats, Status, WorkerInfo
from rowcall.overview.formats import counted


def verdict(findings: Sequence[Finding]) -> str:
    """Return the severity of the most urgent finding, or 'well'."""
    severities = {one.severity for one in findings}
    return next((severity.value for severity in Severity if severity in severities), "well")


def health_text(findings: Sequence[Finding], totals: Stats, alive: Sequence[WorkerInfo]) -> str:
    """Return whether all is well, how many workers there are, and how many jobs wait."""
    critical = sum(one.severity is Severity.CRITICAL for one in findings)
    warnings = len(findings) - critical
    also = f" and {counted(warnings, 'warning')}" if warnings else ""
    if critical:
        first = f"Not well: {counted(critical, 'critical problem')}{also}."
    elif warnings:
        first = f"Jobs run, but there {'is' if warnings == 1 else 'are'} {counted(warnings, 'warning')}."
    else:
        first = "All is well."
    return f"{first} {_workers_text(totals, alive)}, and {_waiting_text(totals)}."


def _workers_text(totals: Stats, alive: Sequence[WorkerInfo]) -> str:
    running = totals.by_status[Status.RUNNING]
    runs = f"{counted(running, 'job')} {'runs' if running == 1 else 'run'}" if running else "no job runs"
    if not alive:
        return f"No worker is alive, {runs}"
    return f"{counted(len(alive), 'worker')} {'is' if len(alive) == 1 else 'are'} alive, {runs}"


def _waiting_text(totals: Stats) -> str:
    pending = totals.by_status[Status.PENDING]
    if not pending:
        return "none waits" if totals.oldest_waiting is None else "due jobs wait to be noticed"
    oldest = "" if totals.oldest_waiting is None else f", the oldest for {duration(totals.oldest_waiting)}"
    return f"{counted(pending, 'job')} {'waits' if pending == 1 else 'wait'}{oldest}"
