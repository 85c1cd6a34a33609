"""What must be true of the records of a world, in addition to what must be true of every storm."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from tests.crash.storm import checks, flow_checks
from tests.crash.storm.records import FINISHED, Problems, Records, is_claim, is_end


def jobs_of_an_order_run_one_after_the_other(records: Records) -> Problems:
    """When a job is claimed, each earlier one of its order has ended."""
    order = {note.job_id: note.event for _, note in records.noted("ordered")}
    states: dict[str, dict[int, str | None]] = defaultdict(dict)
    for change in records.changes:
        if change.job_id not in order:
            continue
        jobs = states[order[change.job_id]]
        if is_claim(change):
            for earlier, status in jobs.items():
                if earlier < change.job_id and status is not None and status not in FINISHED:
                    yield f"before job {earlier}: {records.history_of(change.job_id)}"
        jobs[change.job_id] = change.status


def recorded_steps_run_once(records: Records) -> Problems:
    """Once `ctx.step` has returned, no later attempt runs the step again, unless a person has retried the job."""
    recorded: dict[tuple[int, str], int] = {}
    retried = {change.job_id for change in records.changes if change.op == "update" and change.old_status in FINISHED}
    for note in records.notes:
        kind, _, name = note.event.partition(":")
        if kind == "recorded":
            recorded.setdefault((note.job_id, name), note.attempt)
        elif kind == "step" and note.job_id not in retried:
            at = recorded.get((note.job_id, name))
            if at is not None and note.attempt > at:
                yield f"step {name} of lease {at} runs again in lease {note.attempt}: {records.history_of(note.job_id)}"


def attempts_that_began_have_started(records: Records) -> Problems:
    """Unless people ended them within a second: a claim from the buffer says only later that its handler has begun."""
    completed = {note.job_id for _, note in records.noted("completing")}
    by_people = {
        change.job_id
        for change in records.changes
        if is_end(change) and (change.status == "cancelled" or change.chain_id in completed)
    }
    attempts = [attempt for attempt in records.attempts if attempt.job_id not in by_people]
    yield from checks.attempts_that_began_have_started(msgspec.structs.replace(records, attempts=attempts))


def ticks_come_once(records: Records) -> Problems:
    """A short world may end before the first tick."""
    for problem in flow_checks.ticks_come_once_and_none_is_missing(records):
        if not problem.endswith("never ticked"):
            yield problem


CHECKS = (
    *(check for check in checks.CHECKS if check is not checks.attempts_that_began_have_started),
    attempts_that_began_have_started,
    flow_checks.jobs_start_after_their_blockers,
    flow_checks.steps_of_a_chain_run_in_order,
    flow_checks.a_failed_blocker_has_its_effect,
    flow_checks.keys_are_unique,
    flow_checks.limits_of_concurrency_hold,
    jobs_of_an_order_run_one_after_the_other,
    recorded_steps_run_once,
)
STEADY_CHECKS = (flow_checks.limits_of_rate_hold, ticks_come_once)
"""Of worlds whose wall clock was not set."""
