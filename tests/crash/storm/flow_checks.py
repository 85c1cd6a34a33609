"""What must be true of jobs that have to do with one another: blockers, chains, keys, limits, schedules."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator
from itertools import pairwise
from operator import itemgetter

from rowcall.domain.limits import name_of
from tests.crash.storm import terms
from tests.crash.storm.journal import Change, Edge, Start
from tests.crash.storm.records import FINISHED, Claim, Problems, Records

# blockers and chains

ENDED_BADLY = frozenset({"failed", "cancelled", None})


def jobs_start_after_their_blockers(records: Records) -> Problems:
    """All have succeeded before the first claim, of a chain its last step; with "run", they have ended or are deleted.

    A transaction that deletes a job does not see the jobs that others are about to let wait for it.

    Retrying a job that failed with its blocker drops blockers that are deleted. A job that succeeded because its chain
    was completed from outside runs at once when it is retried.
    """
    chains = _chains(records)
    for edge in records.edges:
        claim = records.first_claim.get(edge.job_id)
        if claim is None or _reached(records, edge.job_id, {"succeeded"}, claim.seq):
            continue
        blocker = _last_step(records, chains, edge, claim.seq)
        wanted = {*FINISHED, None} if edge.on_failure == "run" else {"succeeded"}
        is_excused = _was_retried(records, edge.job_id) and _reached(records, blocker, {None}, claim.seq)
        if not is_excused and not _reached(records, blocker, wanted, claim.seq):
            yield f"did not wait for {blocker}: {records.history_of(edge.job_id)}\n    {records.history_of(blocker)}"


def steps_of_a_chain_run_in_order(records: Records) -> Problems:
    """Each after the one before it; no two are the same step.

    Unless the chain was completed from outside: then its last step may run again without the others. And a step that is
    retried by hand after the failed one before it was deleted has nothing to wait for.
    """
    completed = {note.job_id for _, note in records.noted("completing")}
    for chain_id, steps in _chains(records).items():
        for job_id, index in steps.items():
            claim = records.first_claim.get(job_id)
            before = [other for other, step in steps.items() if step == index - 1]
            if claim is None or index == 0 or chain_id in completed:
                continue
            enough = {"succeeded", None} if _was_retried(records, job_id) else {"succeeded"}
            if not any(_reached(records, other, enough, claim.seq) for other in before):
                told = "\n    ".join(map(records.history_of, before))
                yield f"chain {chain_id}, out of order: {records.history_of(job_id)}\n    {told}"
        there = Counter(index for job_id, index in steps.items() if records.by_job[job_id][-1].op != "delete")
        if max(there.values(), default=0) > 1:
            yield f"chain {chain_id} has a step twice: {steps}"


def a_failed_blocker_has_its_effect(records: Records) -> Problems:
    """Who ended because of a blocker had one that ended badly before; who is still blocked has a reason.

    One that is retried by hand waits for a retry of its blocker.
    """
    chains = _chains(records)
    edges: dict[int, list[Edge]] = defaultdict(list)
    waits: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for edge in records.edges:
        edges[edge.job_id].append(edge)
        waits[edge.job_id].append((_last_step(records, chains, edge, math.inf), edge.on_failure))
    for change in records.changes:
        if change.old_status == "blocked" and (change.error_code or "").startswith("BLOCKER:"):
            blamed = {job_id for edge in edges[change.job_id] for job_id in (edge.blocker_id, *chains[edge.blocker_id])}
            if not any(_reached(records, job_id, ENDED_BADLY, change.seq) for job_id in blamed):
                yield f"change {change.seq} blames a blocker: {records.history_of(change.job_id)}"
    last = {change.job_id: change.status for change in records.remaining}
    for change in records.remaining:
        retried = _was_retried(records, change.job_id)
        if change.status == "blocked" and not any(
            last.get(blocker) == "blocked"
            or (last.get(blocker) in ("failed", "cancelled") and (on_failure == "wait" or retried))
            for blocker, on_failure in waits[change.job_id]
        ):
            blockers = [records.history_of(blocker) for blocker, _ in waits[change.job_id]]
            yield "\n    ".join([f"blocked for ever: {records.history_of(change.job_id)}", *blockers])


def _chains(records: Records) -> dict[int, dict[int, int]]:
    """The steps of each chain, and their indexes; a job may come to be in one after it was written."""
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for change in records.changes:
        if change.chain_id is not None:
            found[change.chain_id][change.job_id] = change.chain_index or 0
    return found


def _last_step(records: Records, chains: dict[int, dict[int, int]], edge: Edge, seq: float) -> int:
    """The blocker itself, or the last step of a chain at that time: some may have been deleted before their turn."""
    if not edge.of_chain or edge.blocker_id not in chains:
        return edge.blocker_id

    def counts(job_id: int) -> bool:
        changes = [change for change in records.by_job[job_id] if change.seq < seq]
        return bool(changes) and not (changes[-1].op == "delete" and changes[-1].old_status not in FINISHED)

    steps = {job_id: index for job_id, index in chains[edge.blocker_id].items() if counts(job_id)}
    return max(steps, key=steps.__getitem__, default=edge.blocker_id)


def _was_retried(records: Records, job_id: int) -> bool:
    return any(change.old_status in FINISHED and change.op == "update" for change in records.by_job[job_id])


def _reached(records: Records, job_id: int, statuses: Collection[str | None], before_seq: int) -> bool:
    """Whether it was in such a state by then; None is one that is deleted."""
    return any(change.status in statuses and change.seq < before_seq for change in records.by_job.get(job_id, ()))


# keys


def keys_are_unique(records: Records) -> Problems:
    """Follow the changes in order: which jobs existed when another with the same task and key was written."""
    there: dict[tuple[str, str | None], dict[int, Change]] = defaultdict(dict)
    put_back: dict[int, int | None] = {}
    for change in records.changes:
        if change.key is None:
            continue
        _note_put_back(put_back, change)
        others = there[change.type, change.key]
        if change.op == "delete":
            others.pop(change.job_id, None)
            continue
        begins = change.op == "insert" or (change.old_status in FINISHED and change.status not in FINISHED)
        for other in others.values() if begins else ():
            if other.job_id != change.job_id and _is_in_the_way(other, change, put_back.get(other.job_id, 0)):
                histories = f"{records.history_of(change.job_id)}\n    {records.history_of(other.job_id)}"
                yield f"change {change.seq} makes a second one: {histories}"
        written = others.get(change.job_id, change)
        others[change.job_id] = change._replace(created_at=written.created_at)


def _note_put_back(put_back: dict[int, int | None], change: Change) -> None:
    """Note a time at which the end of a job's last attempt was committed: at the latest, when its next change began."""
    if change.old_status == "running":
        put_back[change.job_id] = None
    elif put_back.get(change.job_id, 0) is None:
        put_back[change.job_id] = change.at


def _is_in_the_way(other: Change, new: Change, put_back: int | None) -> bool:
    if new.type in terms.ONE_ACTIVE:
        return other.status not in FINISHED
    if new.type in terms.ONE_WAITING:
        # A running job is not replaced, so a second one is written. The attempt of the first may end, and put it back,
        # between the check of the new job and its INSERT: on PostgreSQL a settlement does not wait for the lock of the
        # key. A job that waited before the transaction of the new one began must have been replaced.
        if new.op != "insert" or other.status in FINISHED or other.status == "running":
            return False
        return put_back is not None and put_back < new.began
    if new.type in terms.ONE_KEPT:
        return new.op == "insert"
    young = new.created_at - other.created_at < terms.KEY_WINDOW_SECONDS * 1000 - 1  # rounded to milliseconds
    return new.type in terms.ONE_IN_WINDOW and new.op == "insert" and young


# limits


def limits_of_concurrency_hold(records: Records) -> Problems:
    """No more handlers of one key run at the same time, by the order of their notes."""
    running: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for begin, end, key, claim in sorted(_lives(records), key=itemgetter(0)):
        others = [(until, who) for until, who in running[key] if until > begin]
        running[key] = [*others, (end, f"lease {claim.lease} of job {claim.job_id} by {claim.worker}")]
        if len(running[key]) > terms.CONCURRENCY[key.partition(":")[0]]:
            living = ", ".join(who for _, who in running[key])
            yield f"{len(running[key])} under {key}, at line {begin}: {living}; {records.history_of(claim.job_id)}"


def _lives(records: Records) -> Iterator[tuple[int, int, str, Claim]]:
    """Yield each attempt from the line of its begin to that of its end, or of the death of its process.

    An attempt that was recovered from a stopped worker does not count from then on: it may even begin later, if the
    worker was stopped just before. It is unknown when a handler ended whose process was stopped in an orderly way.
    """
    ends = {(note.job_id, note.attempt): line for line, note in records.noted("end")}
    for line, note in records.noted("begin"):
        key = note.event.partition(":")[2]
        claim = records.claims.get((note.job_id, note.attempt))
        if not key or claim is None:
            continue
        kills, stops = records.faults["kill", claim.pid], records.faults["stop", claim.pid]
        was_taken = claim.was_lost or claim.worker in records.taken_for_lost
        if was_taken and (not (kills or stops) or any(stop < line for stop in stops)):
            continue
        # an attempt that was settled without its handler says nothing about who has its slot
        is_settled_alone = claim.end is not None and claim.end.status != "succeeded"
        marks = [ends.get((note.job_id, note.attempt)), *kills, *(stops if was_taken or is_settled_alone else ())]
        later = [mark for mark in marks if mark is not None and mark > line]
        if later:
            yield line, min(later), key, claim


def limits_of_rate_hold(records: Records) -> Problems:
    """In no window are there more starts, or units that they reserve, than allowed; and every claim is a start."""
    by_key: dict[str, list[Start]] = defaultdict(list)
    for start in records.starts:
        by_key[start.limit_key].append(start)
    for limit in (terms.PACED, terms.WEIGHED):
        assert limit.rate is not None
        keys = [key for key in by_key if name_of(key) == limit.name]
        for key in keys:
            window: deque[Start] = deque()
            for start in sorted(by_key[key], key=lambda start: start.at):
                window.append(start)
                while start.at - window[0].at >= float(limit.per) * 1000:  # type: ignore[arg-type]
                    window.popleft()
                if sum(one.units for one in window) > limit.rate:
                    yield f"more than {limit.rate} starts or units of {key} between {window[0].at} and {start.at}"
        started = sum(len(by_key[key]) for key in keys)
        claimed = sum(claim.type == limit.name for claim in records.claims.values())
        if started != claimed:
            yield f"{claimed} claims of {limit.name} under its rate, and {started} starts"


# schedules


def ticks_come_once_and_none_is_missing(records: Records) -> Problems:
    for task, every_ms, catch_up in terms.SCHEDULES:
        written = [change for change in records.changes if change.op == "insert" and change.type == task]
        ticks = sorted(written, key=lambda change: change.run_at)
        if not ticks:
            yield f"{task} never ticked"
        for change in ticks:
            if change.run_at % every_ms or change.run_at > change.created_at:
                yield f"{task} ticked at {change.run_at}, written at {change.created_at}"
        for before, after in pairwise(ticks):
            missing = range(before.run_at + every_ms, after.run_at, every_ms)
            if after.run_at == before.run_at:
                yield f"{task} ticked twice at {after.run_at}: jobs {before.job_id} and {after.job_id}"
            elif missing and not _may_miss(catch_up, missing, after):
                yield f"{task} missed {list(missing)} before job {after.job_id}, written at {after.created_at}"


def _may_miss(catch_up: str, missing: range, after: Change) -> bool:
    if catch_up == "one":
        return after.created_at >= after.run_at
    return catch_up == "skip" and missing[-1] < after.created_at - terms.SKIPPED_AFTER_MS


CHECKS = (
    jobs_start_after_their_blockers,
    steps_of_a_chain_run_in_order,
    a_failed_blocker_has_its_effect,
    keys_are_unique,
    limits_of_concurrency_hold,
    limits_of_rate_hold,
    ticks_come_once_and_none_is_missing,
)
