"""What a storm must not leave behind once all is calm: orphaned rows, counts that are wrong, stuck jobs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable

from rowcall import BlobUnreadable, Job, Rowcall
from rowcall.app import queue_of
from rowcall.domain.blobs import reference_of
from rowcall.torture.arena import with_tables
from rowcall.torture.checker import LEFT_OVER
from tests.crash.storm.records import Problems
from tests.observe import slow
from tests.observe.plain_sql import PlainDatabase, jobs_of

UNFINISHED = """
    select id, type, queue, status, held, worker from rowcall_job where status in ('pending', 'scheduled', 'running')"""
_COUNTED = """(select coalesce(sum(tally.jobs), 0) from rowcall_batch_tally as tally
               where tally.batch_id = batch.id and tally.status {})"""
_ENDED = "succeeded + failed + cancelled + " + _COUNTED.format("is not null")
NONE_OF = {
    "jobs that are not finished": UNFINISHED,
    "sealed batches that have not finished": """
        select * from rowcall_batch as batch where sealed_at is not null and not exists (
          select 1 from rowcall_job where batch_id = batch.id and status = 'blocked')
        and (finished_at is null or finish_job is null)""",
    "batches that have counted wrongly": f"""
        select * from rowcall_batch as batch where not exists (
          select 1 from rowcall_job where batch_id = batch.id and status = 'blocked')
        and added + {_COUNTED.format("is null")} <> {_ENDED}""",
    **{what: with_tables(sql, "rowcall_") for what, sql in LEFT_OVER.items()},
    "openings of a rate": "select limit_key from rowcall_opening",
    "pins of blobs": "select token, digest from rowcall_blob_pin",
    "edges of deleted jobs": "select * from rowcall_edge where job_id not in (select id from rowcall_job)",
    "open edges of jobs that do not wait": """
        select edge.* from rowcall_edge as edge join rowcall_job as job on job.id = edge.job_id
        join rowcall_job as blocker on blocker.id = edge.blocker_id and blocker.status <> 'blocked'
        where edge.state = 'open' and job.status <> 'blocked' and edge.on_failure <> 'wait'
        and edge.resolved_at is null""",  # one that a retry has reopened waits for a retry of its blocker
    "open edges of blockers that succeeded": """
        select edge.* from rowcall_edge as edge join rowcall_job as blocker on blocker.id = edge.blocker_id
        where edge.state = 'open' and edge.of_chain = 0 and blocker.status = 'succeeded'""",
    "references of deleted jobs": "select * from rowcall_blob_ref where job_id not in (select id from rowcall_job)",
}


def rows_left(database: PlainDatabase) -> Problems:
    for what, sql in NONE_OF.items():
        found = database.ask(sql)
        if found:
            yield f"{len(found)} {what} are left: {found[:10]}"


def blobs_left(jobs: Rowcall, database: PlainDatabase, stored: set[str]) -> Problems:
    """Every blob that a row refers to is there, noted as needed by that job, and there is no other."""
    needed: set[tuple[str, int]] = set()
    for job_id, payload, result in database.ask(_TEXTS[database.url.partition(":")[0]]):
        for text in (payload, result, *_outcome_in(payload)):
            reference = reference_of(text)
            if reference is not None:
                needed.add((reference.digest, int(job_id)))
                try:
                    queue_of(jobs).blobs.fetched_raw(text)
                except BlobUnreadable as error:
                    yield f"a blob of job {job_id} cannot be read: {error}"
    noted = {
        (str(digest), int(job_id)) for digest, job_id in database.ask("select digest, job_id from rowcall_blob_ref")
    }
    if needed != noted:
        yield f"references that are noted and not needed, or needed and not noted: {sorted(needed ^ noted)[:10]}"
    if {digest for digest, _ in needed} != stored:
        yield f"blobs {sorted({digest for digest, _ in needed} ^ stored)[:10]} are not needed, or not there"


def _outcome_in(payload: str) -> list[str]:
    """Return the arguments and the result of the job that a follow-up follows."""
    outcome = json.loads(payload).get("job", {})
    return [json.dumps(outcome[name], separators=(",", ":")) for name in ("arguments", "result") if name in outcome]


_TEXTS = {
    "sqlite": "select id, payload, result from rowcall_job",
    "mysql": "select id, payload, result from rowcall_job",
    "postgresql": "select id, payload::text, result::text from rowcall_job",
}


def wrong_answers(jobs: Rowcall, database: PlainDatabase) -> Problems:
    """Counts are compared with a slow count over all rows."""
    rows = jobs_of(database)
    tags = _tags(database)
    wanted = slow.Wanted(status="succeeded", queue=None, type=None, tag="storm")
    answers: list[Callable[[], None]] = [
        lambda: slow.check_counts(jobs, rows, round(time.time() * 1000)),
        lambda: slow.check_retries(jobs, rows),
        lambda: slow.check_errors(jobs, rows),
        lambda: slow.check_page(jobs, rows, tags, wanted, 7),
    ]
    for check in answers:
        try:
            check()
        except AssertionError as error:
            yield f"an answer is not what a slow count says: {error}"


def _tags(database: PlainDatabase) -> dict[int, set[str]]:
    return {int(job_id): {"storm"} for (job_id,) in database.ask("select id from rowcall_job where tags is not null")}


def odd_timelines(jobs: Rowcall, some: list[Job]) -> Problems:
    """A timeline lists the same claims, starts and ends as the attempts."""
    for job in some:
        attempts, events = jobs.attempts(job.id), jobs.timeline(job.id)
        seen = Counter(event.event for event in events)
        claimed = Counter(event.detail for event in events if event.event == "CLAIMED")
        statuses = Counter(attempt.status for attempt in attempts)
        right = (
            seen["ENQUEUED"] == 1
            and events[0].event == "ENQUEUED"
            and claimed == Counter(f"attempt {attempt.attempt}" for attempt in attempts)
            and seen["STARTED"] == sum(attempt.started_at is not None for attempt in attempts)
            and seen["SUCCEEDED"] == statuses["succeeded"]
            and seen["RECOVERED"] == statuses["lost"]
            and seen["RELEASED"] == statuses["released"]
            and seen["SNOOZED"] == statuses["snoozed"]
        )
        if not right:
            yield f"job {job.id}: {[(event.at, event.event, event.detail) for event in events]} differs from {attempts}"
