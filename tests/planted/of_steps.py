"""Defects of steps, child jobs, streams, logs, batches, and of limits that learn from attempts."""

from __future__ import annotations

from tests.planted.defect import defect

AFTER, ADMISSION = "store/ends/after.py", "store/limits/admission.py"
LEARNING, STEPS = "store/limits/holds_and_breakers.py", "durable/step_state.py"

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
        ("store/steps/recorded.py", "signal, _ in received if signal.key is None", "signal, _ in received"),
    ),
    defect(
        "part of the next attempt",
        "Streams",
        "values of an attempt that ends are counted to the part of the next one",
        ("store/queries/streams.py", "coalesce(lease, 0) < <bigint:2>", "coalesce(lease, 0) < <bigint:2> + 2"),
    ),
    defect(
        "value appended again",
        "Streams",
        "code that runs again before a recorded step appends its values again",
        (
            "worker/streams.py",
            "        if step is not None and step < start.last_step:\n            return\n        self._values += 1",
            "        self._values += 1",
        ),
    ),
    defect(
        "detached child cancelled",
        "Families First",
        "a detached child is cancelled with its parent",
        ("store/queries/steps.py", " and child.detached is null\n", "\n"),
    ),
    defect(
        "patch forgotten",
        "CodeChanges",
        "an attempt does not read which patches an earlier one has recorded",
        (
            STEPS,
            "        self._patches = [row.name for row in reversed(rows) if row.kind == StepKind.PATCH]\n",
            "        self._patches = []\n",
        ),
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
        "breaker never opens",
        "Breakers",
        "a breaker waits for one outcome more than it keeps",
        (LEARNING, "if last.outcomes >= breaker.of and", "if last.outcomes > breaker.of and"),
    ),
    defect(
        "any success closes a breaker",
        "Breakers",
        "an attempt that began before the breaker opened counts as the one that tries",
        (LEARNING, "end.claimed_at_ms is not None and end.claimed_at_ms >= breaker.until_ms", "True"),
    ),
    defect(
        "used units not corrected",
        "LimitUnits",
        "units that a handler has used in addition count for nothing",
        (LEARNING, "        if more > 0:", "        if more > units.span_ms * 1000 + more:"),
    ),
    defect(
        "used units counted twice",
        "LimitUnits",
        "the units that were reserved count once more when the handler says what it has used",
        (LEARNING, "more = units.used - units.reserved\n", "more = units.used\n"),
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
