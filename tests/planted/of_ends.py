"""Defects of how jobs and attempts end, and of what follows."""

from __future__ import annotations

from tests.planted.defect import defect

ATTEMPTS, AFTER, WAITING = "store/ends/attempts.py", "store/ends/after.py", "store/ends/waiting.py"
SQLITE, POSTGRES = "store/sqlite/ends.py", "store/postgres/ends.py"

OF_ENDS = (
    defect(
        "fence without holder",
        "Fence ClaimRows",
        "the fence does not ask who holds the claim",
        (
            SQLITE,
            "on claim.job_id = given.job_id and claim.lease = given.lease and claim.holder = given.holder",
            "on claim.job_id = given.job_id and claim.lease = given.lease",
        ),
        (
            POSTGRES,
            "claim.lease = given.lease\n          and claim.holder = given.holder for update)",
            "claim.lease = given.lease\n          for update)",
        ),
    ),
    defect(
        "settle without taking",
        "Settle Fence",
        "an attempt is settled, and its claim stays",
        (ATTEMPTS, "    yield from dialect.ask(queries.DROP_CLAIMS, fences)\n", ""),
    ),
    defect(
        "complete without fence",
        "Fence",
        "a handler's transaction completes a job that another attempt holds",
        (
            SQLITE,
            "claim.lease = $3 and claim.holder = $4\n      and <job>.lease = claim.lease - 1",
            "(claim.lease = $3 and claim.holder = $4 or 1)\n      and <job>.lease = claim.lease - 1",
        ),
        (
            POSTGRES,
            "lease = $3::bigint and holder = $4::bigint for update\n    ), seen",
            "(lease = $3::bigint and holder = $4::bigint or true) for update\n    ), seen",
        ),
        (POSTGRES, "select lease + 1 = $3::bigint and status", "select (lease + 1 = $3::bigint or true) and status"),
    ),
    defect(
        "retry without ready row",
        "Retry Lifecycle Settle",
        "a retry that is due at once has no ready row",
        (
            ATTEMPTS,
            "pending = [row.id for row in rows if row.status == Status.PENDING] + sorted(",
            "pending = sorted(",
        ),
    ),
    defect(
        "release keeps the lease",
        "Fence Settle Stopping",
        "a release does not raise the lease",
        (
            SQLITE,
            "update <job> set status = given.status, lease = {_ENDED_LEASE},",
            "update <job> set status = given.status,"
            " lease = case when given.attempt_returned then <job>.lease else {_ENDED_LEASE} end,",
        ),
        (
            POSTGRES,
            "update <job> as job set status = {_ended.status}, lease = {ENDED_LEASE},",
            "update <job> as job set status = {_ended.status},"
            " lease = case when {_ended.attempt_returned} = 1 then job.lease else {ENDED_LEASE} end,",
        ),
    ),
    defect(
        "expiry without after_end",
        "Ends Expiry Dependencies",
        "what follows an end does not follow an expiry",
        (
            WAITING,
            "in_use, Locked.SKIP, claimed=False, followed=followed)\n    return len(expired)",
            "in_use, Locked.SKIP, claimed=False, followed=followed) if False else ()\n    return len(expired)",
        ),
    ),
    defect(
        "completion without after_end",
        "Ends Dependencies",
        "what follows an end does not follow a completion in the handler's transaction",
        (
            ATTEMPTS,
            "    yield from after_end(dialect, [fence.job_id], make_tallies({fence.job_id}), locked=locked,"
            " followed=followed)\n",
            "",
        ),
    ),
    defect(
        "no savepoint",
        "ClaimRows Settle EndedFromOutside",
        "SQLite's settle goes back to no savepoint where a claim is gone",
        ("store/sqlite/dialect.py", "        yield from self.ask(end_queries.SAVEPOINT)\n", ""),
        ("store/sqlite/dialect.py", "        yield from self.ask(end_queries.BACK_TO_SAVEPOINT)\n", ""),
    ),
    defect(
        "tallies added twice",
        "Counts Ends",
        "an end is counted twice",
        (
            AFTER,
            "    if tallies:\n        yield from dialect.ask(TALLY, tallies)\n",
            "    if tallies:\n        yield from dialect.ask(TALLY, [*tallies, *tallies])\n",
        ),
    ),
    defect(
        "broken job not followed",
        "Ends Outcomes FailingBlockers",
        "the follow-up of a job that failed with its blocker is forgotten",
        (AFTER, "followed = any_followed(touched)", "followed = False"),
    ),
    defect(
        "waiters not notified",
        "Results Ends",
        "who waits for a job does not learn that it has ended",
        (AFTER, "    if ended and in_use.waiters:", "    if False:"),
    ),
    defect(
        "next step of a lost attempt",
        "GoingOn FixedChains Fence",
        "an attempt that is not current writes the next step of its chain",
        (
            ATTEMPTS,
            "steps = {job_id: then for job_id, then in continued.items() if job_id in live}",
            "steps = continued",
        ),
    ),
    defect(
        "cancel request forgotten",
        "CancelRunning CancelSurvives",
        "an attempt with a cancel request is retried",
        ("store/jobs/cancel_requests.py", "    if not asked:\n", "    if True:\n"),
    ),
    defect(
        "unfit without the fingerprint",
        "Mismatches",
        "a job that does not fit is released without noting what has refused it",
        (SQLITE, "      unfit = {_UNFIT},\n", ""),
        (POSTGRES, '      unfit = {also_unfit("job.unfit", _ended.unfit)},\n', ""),
    ),
    defect(
        "unblock with an open edge",
        "Blockers Graphs",
        "a job runs as soon as one of its blockers has ended",
        (
            "store/sqlite/flows.py",
            "      and not exists (select 1 from <edge> as edge where edge.job_id = <job>.id and edge.state = 'open')",
            "",
        ),
        (
            "store/postgres/flows.py",
            "and not exists (select from <edge> as edge where edge.job_id = job.id and edge.state = 'open' offset 0)",
            "",
        ),
    ),
    defect(
        "blocker resolved twice",
        "Dependencies Blockers EdgeRepair",
        "the end of a blocker leaves the edge open, so that it is resolved again",
        (
            AFTER,
            "            yield from dialect.ask(queries.SETTLE_EDGES, Status.SUCCEEDED, passing)\n",
            "            pass\n",
        ),
        (
            "store/sqlite/flows.py",
            "      and not exists (select 1 from <edge> as edge where edge.job_id = <job>.id and edge.state = 'open')",
            "",
        ),
        (
            "store/postgres/flows.py",
            "and not exists (select from <edge> as edge where edge.job_id = job.id and edge.state = 'open' offset 0)",
            "",
        ),
    ),
    defect(
        "signal taken, wait not finished",
        "Signals",
        "a wait takes its signal, and stays open",
        (
            "store/steps/recorded.py",
            "return StepWritten(StepStatus.FINISHED, due_at_ms, signals[place])",
            "return StepWritten(StepStatus.WAITING, due_at_ms)",
        ),
    ),
    defect(
        "steps not fenced",
        "StepFence",
        "an attempt that is not current records a step",
        (
            "store/steps/recorded.py",
            "    ours = [one for one in writes if (one.job_id, one.lease, one.holder) in live]\n",
            "    ours = list(writes) if live or writes else []\n",
        ),
    ),
)
