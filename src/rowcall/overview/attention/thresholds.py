"""When something needs attention: every code, its severity, and its threshold, most urgent first.

Bursts, a limit that is full for a moment, and workers that restart are normal, and below every threshold.
"""

from __future__ import annotations

from typing import NamedTuple

from rowcall.base.text import duration
from rowcall.domain.attention import Severity
from rowcall.observe.health import CLOCK_SECONDS, LITTLE_SPACE_BYTES, LONG_TRANSACTION_SECONDS, OVERSIZED_WAL_BYTES
from rowcall.overview.formats import size

UNSERVED_SECONDS = 30.0  # longer than a worker takes to restart, or to be declared lost
UNUSED_SCHEDULE_SECONDS = 15 * 60.0  # longer than the 10 minutes between the rarest duties of a worker
LATE_SCHEDULE_SECONDS = 60.0
FAILING_SECONDS, FAILING_ATTEMPTS, FAILING_SHARE = 5 * 60.0, 10, 0.5
ALWAYS_FAILING_SECONDS, ALWAYS_FAILING_ATTEMPTS = 3600.0, 5
HELD_SECONDS = 5 * 60.0  # limits are there to hold bursts
PAUSED_SECONDS = 5 * 60.0
LONG_WAIT_SECONDS, WINDOW_SECONDS, LONG_DRAIN_SECONDS = 10 * 60.0, 10 * 60.0, 3600.0
STUCK_SECONDS, STUCK_FACTOR = 2 * 60.0, 5
USUAL_RUNS, USUAL_SECONDS = 5, 24 * 3600.0
UNUSUAL_SECONDS = 3600.0  # of a task without a timeout that has not run before
PROGRESS_SECONDS = 5 * 60.0
UNKNOWN_SECONDS = 24 * 3600.0
UNPRUNED_SECONDS, UNPRUNED_JOBS = 3600.0, 10_000
NO_SPACE_BYTES = 32 * 1024**2
FUTURE_SECONDS = 5.0
DEAD_ROWS = 1_000_000
SESSIONS_SHARE = 0.8


class Threshold(NamedTuple):
    """`when` completes the sentence "It is a finding if …"."""

    severity: Severity
    when: str


_CRITICAL, _WARNING = Severity.CRITICAL, Severity.WARNING
_UNSERVED = duration(UNSERVED_SECONDS)

THRESHOLDS: dict[str, Threshold] = {
    "no_worker": Threshold(
        _CRITICAL,
        f"no worker is alive, nothing has ended for {_UNSERVED}, and jobs or a schedule have been due for as long; or"
        f" there is a schedule, and no worker for {duration(UNUSED_SCHEDULE_SECONDS)}",
    ),
    "no_space": Threshold(_CRITICAL, f"less than {size(NO_SPACE_BYTES)} are free on the disk of a SQLite file"),
    "read_only": Threshold(_CRITICAL, "the server is a standby, or read-only"),
    "queue_unserved": Threshold(
        _CRITICAL, f"jobs of a queue have been due for {_UNSERVED}, and no worker serves it; none ended in that time"
    ),
    "task_unknown": Threshold(
        _CRITICAL, f"jobs of a task have been due for {_UNSERVED}, and no worker of their queue knows it"
    ),
    "arguments_refused": Threshold(
        _CRITICAL, f"jobs have been due for {_UNSERVED}, and no worker's version of their task accepts their arguments"
    ),
    "task_failing": Threshold(
        _CRITICAL,
        f"of at least {FAILING_ATTEMPTS} attempts of a task in {duration(FAILING_SECONDS)}, half or more fail; or all"
        f" of at least {ALWAYS_FAILING_ATTEMPTS} in {duration(ALWAYS_FAILING_SECONDS)}",
    ),
    "schedule_late": Threshold(
        _CRITICAL, f"a schedule was due {duration(LATE_SCHEDULE_SECONDS)} ago, or has a problem and does not tick"
    ),
    "job_stuck": Threshold(
        _WARNING,
        f"a handler runs for {STUCK_FACTOR} times as long as 99 % of the last day's, and for"
        f" {duration(STUCK_SECONDS)} or more; with fewer than {USUAL_RUNS} of those, {duration(STUCK_SECONDS)} longer"
        f" than its timeout, else {duration(UNUSUAL_SECONDS)}; and it reported no progress for"
        f" {duration(PROGRESS_SECONDS)}",
    ),
    "limit_full": Threshold(
        _WARNING, f"the first of the jobs that a full limit holds has been due for {duration(HELD_SECONDS)}"
    ),
    "paused": Threshold(
        _WARNING, f"a queue or a task has been paused for {duration(PAUSED_SECONDS)}, and has due jobs"
    ),
    "falling_behind": Threshold(
        _WARNING,
        f"jobs of a queue have been due for {duration(LONG_WAIT_SECONDS)}, and at the rates of the last"
        f" {duration(WINDOW_SECONDS)} its backlog grows, or needs more than {duration(LONG_DRAIN_SECONDS)}",
    ),
    "unknown_failures": Threshold(
        _WARNING,
        f"jobs failed within {duration(UNKNOWN_SECONDS)} because no worker knew their task or accepted their arguments",
    ),
    "retention_behind": Threshold(
        _WARNING,
        f"{UNPRUNED_JOBS:,} finished jobs should have been deleted {duration(UNPRUNED_SECONDS)} ago or earlier",
    ),
    "little_space": Threshold(_WARNING, f"less than {size(LITTLE_SPACE_BYTES)} are free on the disk of a SQLite file"),
    "wal": Threshold(_WARNING, f"the write-ahead log of a SQLite file is longer than {size(OVERSIZED_WAL_BYTES)}"),
    "clock": Threshold(
        _WARNING,
        f"a job or a heartbeat is {duration(FUTURE_SECONDS)} in the future, or the server's clock and that of the"
        f" machine that asks differ by more than {duration(CLOCK_SECONDS)}",
    ),
    "long_transaction": Threshold(
        _WARNING, f"a transaction has been open for {duration(LONG_TRANSACTION_SECONDS)} in a database of PostgreSQL"
    ),
    "dead_rows": Threshold(_WARNING, f"the table of jobs in PostgreSQL has {DEAD_ROWS:,} dead rows"),
    "sessions": Threshold(_WARNING, f"{SESSIONS_SHARE:.0%} of the server's connections are in use"),
}
