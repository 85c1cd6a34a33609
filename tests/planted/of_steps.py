"""Defects of steps, child jobs, streams, logs, batches, and of limits that learn from attempts."""

from __future__ import annotations

from tests.planted.defect import defect

AFTER, ADMISSION = "store/ends/after.py", "store/limits/admission.py"

OF_STEPS = (
    defect(
        "parent not woken",
        "Calls GatheredCalls",
        "the end of a child is written into the step, and its parent does not run",
        (AFTER, "    if changed.parents:  # last:", "    if changed.parents and claimed is None:  # last:"),
        calls="complete child,ctx.call",
    ),
    defect(
        "caller's end of a child forgotten",
        "Calls Families",
        "a child that ends in a caller's transaction leaves nothing to check",
        (
            AFTER,
            "yield from dialect.ask(CHECK_PARENTS_OF, sorted(ended))",
            "yield from dialect.ask(CHECK_PARENTS_OF, [])",
        ),
        calls="ctx.complete",
    ),
    defect(
        "children outlive a cancelled parent",
        "Families",
        "only the children of failed parents are cancelled",
        (AFTER, "any(tally.status == Status.CANCELLED for", "any(tally.status == Status.FAILED for"),
        calls="cancel parent",
    ),
    defect(
        "signal with a key received again",
        "Families",
        "the row of a received signal with a key is deleted",
        ("store/steps/recorded.py", "(queries.RECEIVE_SIGNALS, True)", "(queries.DELETE_SIGNALS, True)"),
    ),
    defect(
        "part of the next attempt",
        "Streams",
        "values of an attempt that ends are counted to the part of the next one",
        ("store/queries/streams.py", "coalesce(lease, 0) < <bigint:2>", "coalesce(lease, 0) < <bigint:2> + 2"),
    ),
    defect(
        "output of rounds lost",
        "JobLogs Streams",
        "a round that settles attempts does not write what they have logged and appended",
        ("worker/loop.py", "attempts, plan, lambda result: result.settled)", "attempts, plan, lambda result: ())"),
    ),
    defect(
        "several try behind a breaker",
        "Breakers",
        "after the pause of a breaker, two jobs start at the same time",
        (ADMISSION, "self.tries + self.admitted > 0:", "self.tries + self.admitted > 1:"),
    ),
    defect(
        "units of one round not counted",
        "LimitUnits",
        "jobs that are claimed together do not count the units of each other",
        (
            ADMISSION,
            "sum(used for _, used in self._counted_units()) + sum(used for used, _, _ in self.new_units)",
            "sum(used for _, used in self._counted_units())",
        ),
    ),
    defect(
        "batch followed twice",
        "Batches",
        "a batch that finishes again, because a job was retried, is followed again",
        (
            "store/batches/finishing.py",
            "if batch.on_finish is not None and info.finish_job is None:",
            "if batch.on_finish is not None:",
        ),
    ),
    defect(
        "revived job counted twice",
        "Batches",
        "a job of a batch that runs again stays in the count of jobs that have ended",
        ("store/batches/finishing.py", "[(batch, -jobs, status) for", "[(batch, 0, status) for"),
        calls="retry failed",
    ),
    defect(
        "two of one key brought back",
        "FailingBlockers",
        "a retry brings back all jobs that fell with it, whatever their keys are",
        (
            "store/control/single_actions.py",
            "(job.key is None or (job.type, job.key) not in keys)",
            "(job.key is None or keys is not None)",
        ),
    ),
)
