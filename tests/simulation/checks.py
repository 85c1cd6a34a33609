"""What must be true of the records of a world, in addition to what must be true of every storm."""

from __future__ import annotations

import json
from collections import defaultdict

import msgspec

from tests.crash.storm import checks, flow_checks
from tests.crash.storm.records import FINISHED, Problems, Records, is_claim, is_end
from tests.observe.plain_sql import PlainDatabase
from tests.simulation.app import VALUES


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
    retried = _retried(records)
    for note in records.notes:
        kind, _, name = note.event.partition(":")
        if kind == "recorded":
            recorded.setdefault((note.job_id, name), note.attempt)
        elif kind == "step" and note.job_id not in retried:
            at = recorded.get((note.job_id, name))
            if at is not None and note.attempt > at:
                yield f"step {name} of lease {at} runs again in lease {note.attempt}: {records.history_of(note.job_id)}"


def _retried(records: Records) -> set[int]:
    """Return the jobs that a person has retried."""
    return {change.job_id for change in records.changes if change.op == "update" and change.old_status in FINISHED}


def the_first_answer_counts(records: Records) -> Problems:
    retried, accepted = _retried(records), dict[int, str]()
    for note in records.notes:
        kind, _, answer = note.event.partition(":")
        if kind == "accepted":
            accepted.setdefault(note.job_id, answer)
    for note in records.notes:
        kind, _, answer = note.event.partition(":")
        if kind == "answered" and note.job_id not in retried and accepted.get(note.job_id, answer) != answer:
            yield f"{answer} is not what was accepted first: {records.history_of(note.job_id)}"


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
    the_first_answer_counts,
)
STEADY_CHECKS = (flow_checks.limits_of_rate_hold, ticks_come_once)
"""Of worlds whose wall clock was not set."""


# rows that handlers leave


def each_call_has_one_child(records: Records, database: PlainDatabase) -> Problems:
    """Unless a person has retried the parent, which calls again the children that have failed."""
    children = "select parent_id, parent_step, count(*) from rowcall_job where parent_id is not null group by 1, 2"
    for parent, step, count in database.ask(children):
        if count > 1 and parent not in _retried(records):
            yield f"{count} children of step {step}: {records.history_of(parent)}"


def streams_are_in_order(records: Records, database: PlainDatabase) -> Problems:
    """A part is what one attempt has appended: all of it, if it succeeded. A reader has seen the same."""
    rows: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for job_id, *row in database.ask("select job_id, number, part, value from rowcall_stream order by job_id, number"):
        rows[job_id].append((row[0], row[1], row[2]))
    read: dict[int, list[str]] = defaultdict(list)
    for note in records.notes:
        if note.event.startswith("read:"):
            read[note.job_id].append(note.event)
    for job_id, values in rows.items():
        parts: dict[int, list[int]] = defaultdict(list)
        for _, part, value in values:
            parts[part].append(int(value))
        if [number for number, _, _ in values] != [*range(1, len(values) + 1)] or [*parts] != sorted(parts):
            yield f"the values of a stream are numbered {values}: {records.history_of(job_id)}"
        if any(of_part != [*range(len(of_part))] for of_part in parts.values()):
            yield f"a stream has the parts {dict(parts)}: {records.history_of(job_id)}"
        seen = read[job_id]
        if seen != [f"read:{part}:{value}" for _, part, value in values][: len(seen)]:
            yield f"a reader has seen {seen} of the stream {values}: {records.history_of(job_id)}"
    newest = {claim.job_id: claim for claim in records.claims.values()}
    for claim in checks.successes(records):
        is_last = newest[claim.job_id] is claim and records.by_job[claim.job_id][-1].op != "delete"
        if claim.type == "streaming" and is_last:
            last = max((part for _, part, _ in rows[claim.job_id]), default=0)
            if sum(part == last for _, part, _ in rows[claim.job_id]) != VALUES:
                yield f"lease {claim.lease} has the values {rows[claim.job_id]}: {records.history_of(claim.job_id)}"


def attempts_have_their_logs(records: Records, database: PlainDatabase) -> Problems:
    """One line of each attempt that succeeded, and never two."""
    logs = {
        (job_id, lease): json.loads(lines)
        for job_id, lease, lines in database.ask("select job_id, lease, lines from rowcall_log")
    }
    for (job_id, lease), lines in logs.items():
        if len(lines) != 1:
            yield f"lease {lease} has the log {lines}: {records.history_of(job_id)}"
    for claim in checks.successes(records):
        is_there = records.by_job[claim.job_id][-1].op != "delete"
        if claim.type == "plain" and is_there and (claim.job_id, claim.lease) not in logs:
            yield f"lease {claim.lease} has no log: {records.history_of(claim.job_id)}"


CHECKS_OF_ROWS = (each_call_has_one_child, streams_are_in_order, attempts_have_their_logs)
