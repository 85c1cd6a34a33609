"""What must be true of jobs and attempts after every storm. Each check yields the problems that it finds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from rowcall.domain.lifecycle import TABLE, Move
from tests.crash.storm import terms
from tests.crash.storm.records import FINISHED, Claim, Problems, Records, is_claim, is_end

ALLOWED = {(rule.source, rule.target) for rule in TABLE}
FIRST = {rule.target for rule in TABLE if rule.source is None}
# one transaction, two statements
BLOCKED_AGAIN = {(rule.source, "pending", rule.target) for rule in TABLE if rule.move is Move.REBLOCK}
CLAIMED_FROM = {rule.source for rule in TABLE if rule.move is Move.CLAIM}


def nothing_is_lost(records: Records) -> Problems:
    """Every enqueued job is still there, or was deleted by a call or after it had ended."""
    for _, note in records.noted("enqueued"):
        if note.job_id not in records.by_job:
            yield f"job {note.job_id} was enqueued by {note.pid} and is not there"
    deleted_by_hand = {note.job_id for _, note in records.noted("deleting")}
    for change in records.changes:
        if change.op == "delete" and change.old_status not in FINISHED and change.job_id not in deleted_by_hand:
            yield f"deleted as {change.old_status} without a call: {records.history_of(change.job_id)}"


def nothing_is_left_of_what_was_rolled_back(records: Records) -> Problems:
    for change in records.changes:
        if change.type == terms.NEVER:
            yield f"enqueued in a transaction that was rolled back: {records.history_of(change.job_id)}"


def states_follow_the_table(records: Records) -> Problems:
    """Every change of state is in the table of the lifecycle; nothing happened between two changes."""
    was_cleared = any(records.noted("clearing"))  # which deletes jobs in every state
    for job_id, changes in records.by_job.items():
        first, *later = changes
        if first.op != "insert" or first.status not in FIRST:
            yield f"not enqueued: {records.history_of(job_id)}"
        before = first
        for change in later:
            if (change.old_status, change.old_lease) != (before.status, before.lease):
                yield f"change {change.seq} does not follow from {before.seq}: {records.history_of(job_id)}"
            source = change.old_status
            if (before.old_status, before.status, change.status) in BLOCKED_AGAIN:
                source = before.old_status
            if change.op == "delete" and was_cleared:
                continue
            if source != change.status and (source, change.status) not in ALLOWED:
                yield f"change {change.seq} is not allowed: {records.history_of(job_id)}"
            before = change


def no_attempt_is_settled_twice(records: Records) -> Problems:
    """Leases rise by one with each claim and with each end, and never otherwise than upwards.

    An end from outside takes the lease of the claim: no later claim has it.
    """
    completed = {note.job_id for _, note in records.noted("completing")}
    for change in records.changes:
        if change.op != "update":
            continue
        if change.lease < change.old_lease:
            yield f"change {change.seq} lowers the lease: {records.history_of(change.job_id)}"
        least = 0 if is_end(change) and change.chain_id in completed else 1
        if (is_claim(change) or is_end(change)) and not least <= change.lease - change.old_lease <= 1:
            yield f"change {change.seq} does not raise the lease by one: {records.history_of(change.job_id)}"
        if is_claim(change) and change.old_status not in CLAIMED_FROM:
            yield f"change {change.seq} claims what was {change.old_status}: {records.history_of(change.job_id)}"


def attempts_are_numbered_without_gaps(records: Records) -> Problems:
    """A claim is one attempt more, its end none or one fewer; there are never more than allowed."""
    for change in records.changes:
        if change.op != "update":
            continue
        more = change.attempt - change.old_attempt
        if is_claim(change):
            right = more == 1 and change.attempt <= change.max_attempts
        else:
            right = more == 0 or (is_end(change) and more == -1)
        if not right:
            yield f"change {change.seq} counts attempts wrongly: {records.history_of(change.job_id)}"


def each_claim_begins_once(records: Records) -> Problems:
    """What began was claimed by that process, and began once."""
    begun = Counter((note.job_id, note.attempt) for _, note in records.noted("begin"))
    for (job_id, lease), times in begun.items():
        if times > 1:
            yield f"lease {lease} began {times} times: {records.history_of(job_id)}"
        if (job_id, lease) not in records.claims:
            yield f"lease {lease} began and was never claimed: {records.history_of(job_id)}"


def what_began_is_on_record(records: Records) -> Problems:
    """A handler that ran counts as an attempt, or is shown as released or snoozed.

    But for a worker that was stopped, or taken for lost while it lived: it may begin a job that is no longer its own.
    """
    returned = {(one.job_id, one.attempt) for one in records.attempts if one.status in ("released", "snoozed")}
    gone = {change.job_id for change in records.changes if change.op == "delete"}
    for _, note in records.noted("begin"):
        claim = records.claims.get((note.job_id, note.attempt))
        if claim is None or claim.counts or note.job_id in gone:
            continue
        if records.faults["stop", claim.pid] or (claim.was_lost and not records.faults["kill", claim.pid]):
            continue
        if (claim.job_id, claim.attempt) not in returned:
            yield f"lease {claim.lease} began, and no attempt records it: {records.history_of(claim.job_id)}"


def success_means_the_handler_has_ended(records: Records) -> Problems:
    ended = {(note.job_id, note.attempt) for _, note in records.noted("end")}
    for claim in successes(records):
        if claim.type not in terms.EFFECTS and (claim.job_id, claim.lease) not in ended:
            yield f"lease {claim.lease} succeeded without its handler: {records.history_of(claim.job_id)}"


def successes(records: Records) -> Iterator[Claim]:
    """Successes by handlers: completing a chain from outside also makes its last step succeed."""
    completed = {note.job_id for _, note in records.noted("completing")}
    for claim in records.claims.values():
        if claim.end is not None and claim.end.status == "succeeded" and claim.end.chain_id not in completed:
            yield claim


def effects_happen_once_for_each_success(records: Records) -> Problems:
    """Rows that were written together with a completion are there if and only if that attempt succeeded."""
    made = Counter((effect.job_id, effect.lease) for effect in records.effects)
    for (job_id, lease), times in made.items():
        claim = records.claims.get((job_id, lease))
        if times > 1 or claim is None or claim.end is None or claim.end.status != "succeeded":
            yield f"{times} effects of lease {lease}: {records.history_of(job_id)}"
    for claim in successes(records):
        if claim.type in terms.EFFECTS and (claim.job_id, claim.lease) not in made:
            yield f"no effect of lease {claim.lease}: {records.history_of(claim.job_id)}"


def each_end_has_one_follow_up(records: Records) -> Problems:
    """In whichever way and transaction the job ends. A retry by hand leads to another end."""
    ends = Counter(
        (change.job_id, str(change.status))
        for change in records.changes
        if change.op == "update"
        and change.status in terms.FOLLOWED.get(change.type, ())
        and change.old_status not in FINISHED
    )
    follows = Counter((follow.followed, follow.event) for follow in records.follows)
    for job_id, status in sorted((ends - follows) + (follows - ends)):
        expected, found = ends[job_id, status], follows[job_id, status]
        yield f"{expected} times {status}, and {found} follow-ups: {records.history_of(job_id)}"


def each_batch_is_reported_once(records: Records) -> Problems:
    """However often it finishes, because its jobs are retried."""
    reports: dict[int, set[int]] = defaultdict(set)
    for _, note in records.noted("over"):
        reports[note.job_id].add(note.attempt)
    for batch_id, job_ids in sorted(reports.items()):
        if len(job_ids) > 1:
            yield f"batch {batch_id} was reported by the jobs {sorted(job_ids)}"


def history_has_every_attempt(records: Records) -> Problems:
    """Of jobs that are still there: the attempts that counted, in order, by whom."""
    shown: dict[int, list[tuple[int, str | None]]] = defaultdict(list)
    for attempt in records.attempts:
        if attempt.status not in ("released", "snoozed"):
            shown[attempt.job_id].append((attempt.attempt, attempt.worker))
    happened: dict[int, list[tuple[int, str | None]]] = defaultdict(list)
    for claim in records.claims.values():
        if claim.counts:
            happened[claim.job_id].append((claim.attempt, claim.worker))
    for last in records.remaining:
        if shown[last.job_id] != happened[last.job_id]:
            yield f"attempts {shown[last.job_id]} are shown: {records.history_of(last.job_id)}"


def attempts_that_began_have_started(records: Records) -> Problems:
    begun = {
        (claim.job_id, claim.attempt, claim.worker)
        for _, note in records.noted("begin")
        if (claim := records.claims.get((note.job_id, note.attempt))) is not None and claim.counts
    }
    for one in records.attempts:
        if not one.started and (one.job_id, one.attempt, one.worker) in begun and one.status not in ("released",):
            yield f"attempt {one.attempt} ran and has no start: {records.history_of(one.job_id)}"


def handlers_saw_what_was_enqueued(records: Records) -> Problems:
    for _, note in records.noted("wrong"):
        yield f"lease {note.attempt} saw wrong arguments or results: {records.history_of(note.job_id)}"


def only_those_expire_that_never_started(records: Records) -> Problems:
    for change in records.changes:
        if change.op == "update" and change.error_code == "EXPIRED:NOT_STARTED" and change.old_status != change.status:
            first = records.first_claim.get(change.job_id)
            if change.status == "cancelled" and change.attempt > 0 and first is not None and first.seq < change.seq:
                yield f"change {change.seq} expires a job that has run: {records.history_of(change.job_id)}"


CHECKS = (
    nothing_is_lost,
    nothing_is_left_of_what_was_rolled_back,
    states_follow_the_table,
    no_attempt_is_settled_twice,
    attempts_are_numbered_without_gaps,
    each_claim_begins_once,
    what_began_is_on_record,
    success_means_the_handler_has_ended,
    effects_happen_once_for_each_success,
    each_end_has_one_follow_up,
    each_batch_is_reported_once,
    history_has_every_attempt,
    attempts_that_began_have_started,
    handlers_saw_what_was_enqueued,
    only_those_expire_that_never_started,
)
