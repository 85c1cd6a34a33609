"""Keys: at most one job of a type holds each. An enqueue with a key that is taken finds, replaces or refuses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from rowcall.domain.errors import Conflict, DuplicateJob, InvalidOption
from rowcall.domain.job import WAITING, Job
from rowcall.store.blobs.references import refer_to
from rowcall.store.dialect import Dialect
from rowcall.store.flows.inserted import sees_all
from rowcall.store.jobs.inspect import get_all, lock_jobs
from rowcall.store.jobs.marks import retag
from rowcall.store.new_job import Inserted, RelatedJob
from rowcall.store.queries import flows as queries
from rowcall.store.queries.control import RECORD_EVENTS
from rowcall.store.queries.flows import Holder, Replacement, Unique
from rowcall.store.queries.steps import CHECK_PARENTS, DELETE_STEPS, FORGET_RECEIVED
from rowcall.store.statement import Plan

Holders = dict[tuple[str, str], Job]
"""Jobs that hold a type's keys."""


class Committed(NamedTuple):
    """Committed jobs that the caller's transaction cannot see, because it began too early.

    `changed` are jobs of which it sees an old version: it cannot change them.
    """

    holders: Holders
    changed: frozenset[int]


def lock_keys(dialect: Dialect, related: Sequence[RelatedJob]) -> Plan[Holders | None]:
    """Lock the keys. Return the holders that this transaction sees; None if it sees all committed jobs."""
    yield from dialect.ask(queries.BEGIN_WRITING)
    groups = keyed(related)
    for (task, _), by_key in groups.items():
        yield from dialect.ask(queries.LOCK_KEYS, task, sorted(by_key))
    if not groups or (yield from sees_all(dialect)):
        return None
    return (yield from _holders(dialect, related))


def read_committed(dialect: Dialect, related: Sequence[RelatedJob], seen: Holders) -> Plan[Committed]:
    """Return the committed holders of the keys, read outside the caller's transaction."""
    holders = yield from _holders(dialect, related)
    seen_jobs = {job.id: job for job in seen.values()}
    current = (yield from get_all(dialect, sorted(seen_jobs))) if seen_jobs else {}
    return Committed(holders, frozenset(job.id for job in current.values() if job != seen_jobs[job.id]))


def _holders(dialect: Dialect, related: Sequence[RelatedJob]) -> Plan[Holders]:
    holding_jobs: Holders = {}
    for (task, unique), by_key in keyed(related).items():
        holders = yield from _key_holders(dialect, task, by_key, unique)
        jobs = (yield from get_all(dialect, [holder.job_id for holder in holders])) if holders else {}
        holding_jobs.update({(task, holder.key): jobs[holder.job_id] for holder in holders if holder.job_id in jobs})
    return holding_jobs


class Taken(NamedTuple):
    """A key that is taken: by an existing job, or by another job of the same call."""

    job_id: int | None = None
    position: int | None = None
    hidden: Job | None = None


def keyed(related: Sequence[RelatedJob]) -> dict[tuple[str, Unique], dict[str, list[int]]]:
    """Return the positions of jobs with keys, by type and rule of uniqueness, and by key."""
    groups: dict[tuple[str, Unique], dict[str, list[int]]] = {}
    for position, item in enumerate(related):
        if item.job.unique is not None and item.job.key is not None:
            by_key = groups.setdefault((item.job.type, item.job.unique), {})
            by_key.setdefault(item.job.key, []).append(position)
    return groups


def reserve_keys(
    dialect: Dialect, related: Sequence[RelatedJob], committed: Committed | None
) -> Plan[dict[int, Taken]]:
    """Return which positions are duplicates, and of what. `on_duplicate="replace"` replaces waiting jobs here."""
    taken: dict[int, Taken] = {}
    for (task, unique), by_key in keyed(related).items():
        yield from dialect.ask(queries.LOCK_KEYS, task, sorted(by_key))
        holders = yield from _key_holders(dialect, task, by_key, unique)
        held = {holder.key: holder for holder in holders}
        hidden: dict[str, Job] = {}
        if committed is not None:
            true = {key: committed.holders[task, key] for key in by_key if (task, key) in committed.holders}
            held = {key: holder for key, holder in held.items() if not _has_lost(holder, true.get(key), committed)}
            hidden = {key: job for key, job in true.items() if key not in held or held[key].job_id in committed.changed}
            _refuse_hidden(task, unique, hidden)
        if unique.on_duplicate == "raise":
            _refuse_duplicates(task, by_key, {key: holder.job_id for key, holder in held.items()})
        if unique.on_duplicate == "replace":
            replaceable = {key: holder.job_id for key, holder in held.items()}
            given = {replaceable[key]: _replacement(replaceable[key], related[by_key[key][-1]]) for key in replaceable}
            replaced = (yield from _replace(dialect, given)) if given else set()
            yield from _record_replaced(dialect, related, by_key, replaceable, replaced)
            held = {key: holder for key, holder in held.items() if holder.job_id in replaced}
        for key, positions in by_key.items():
            if key in hidden:
                taken.update(dict.fromkeys(positions, Taken(hidden=hidden[key])))
            elif key in held:
                taken.update(dict.fromkeys(positions, Taken(held[key].job_id)))
            else:
                chosen = positions[-1] if unique.on_duplicate == "replace" else positions[0]
                taken.update(dict.fromkeys((p for p in positions if p != chosen), Taken(position=chosen)))
    return taken


def _key_holders(dialect: Dialect, task: str, keys: Iterable[str], unique: Unique) -> Plan[list[Holder]]:
    # an older job may wait again, after a failed attempt, while the newest one runs: that one can be replaced
    scope = "waiting" if unique.on_duplicate == "replace" else unique.scope
    return (yield from dialect.ask(queries.KEY_HOLDERS, task, sorted(keys), scope, unique.window_ms))[0]


def _has_lost(holder: Holder, true: Job | None, committed: Committed) -> bool:
    """Return whether it no longer holds its key, although the transaction sees that it does."""
    return holder.job_id in committed.changed and (true is None or true.id != holder.job_id)


def _refuse_hidden(task: str, unique: Unique, hidden: dict[str, Job]) -> None:
    for key, job in hidden.items():
        if unique.on_duplicate == "raise":
            raise DuplicateJob(task, key, job.id)
        if unique.on_duplicate == "replace":
            raise Conflict(
                f"job {job.id} has the key {key!r} and was written or changed after your transaction began, so it"
                " cannot be replaced from there",
                "Nothing was written, and the transaction continues: enqueue again in a new one",
            )


def _refuse_duplicates(task: str, by_key: dict[str, list[int]], held: dict[str, int]) -> None:
    for key, positions in by_key.items():
        if key in held:
            raise DuplicateJob(task, key, held[key])
        if len(positions) > 1:
            raise InvalidOption("key", f"{task}: rows {positions[0]} and {positions[1]} have the same key {key!r}")


def _replacement(job_id: int, item: RelatedJob) -> Replacement:
    job = item.job
    times = (job.run_at_ms, job.delay_ms, job.expires_at_ms, job.expires_in_ms)
    shared = job.fair, job.weight, job.ordered, job.order_blocks
    unique = job.unique or Unique()
    kept = int(unique.keep_run_at), unique.longest_delay_ms, job.deadline_ms
    return Replacement(job_id, item.payload, *times, job.limits, job.target, *shared, *kept)


def _replace(dialect: Dialect, replacements: dict[int, Replacement]) -> Plan[set[int]]:
    """Replace jobs that are still waiting; return their ids. Durable steps of the old arguments are deleted, and their
    children cancelled."""
    waiting = [job.id for job in (yield from lock_jobs(dialect, sorted(replacements))) if job.status in WAITING]
    if not waiting:
        return set()
    rows = yield from dialect.ask(queries.REPLACE_WAITING, {job_id: replacements[job_id] for job_id in waiting})
    replaced = [row.job_id for row in rows]
    yield from retag(dialect, replaced)
    if claimed := [row.job_id for row in rows if row.lease]:
        yield from dialect.ask(DELETE_STEPS, claimed)
        yield from dialect.ask(FORGET_RECEIVED, claimed)
        yield from dialect.ask(CHECK_PARENTS, claimed)  # the next round of a worker cancels their children
    return set(replaced)


def _record_replaced(
    dialect: Dialect,
    related: Sequence[RelatedJob],
    by_key: dict[str, list[int]],
    replaceable: dict[str, int],
    replaced: set[int],
) -> Plan[None]:
    for key, job_id in replaceable.items():
        if job_id in replaced:
            yield from refer_to(dialect, [related[by_key[key][-1]].payload], [job_id])
            yield from dialect.ask(RECORD_EVENTS, [job_id], "REPLACED", None, f"key {key}")


def existing_jobs(dialect: Dialect, taken: dict[int, Taken], inserted: dict[int, Inserted]) -> Plan[dict[int, Job]]:
    ids = {
        position: key.job_id if key.position is None else inserted[key.position].id
        for position, key in taken.items()
        if key.hidden is None
    }
    jobs = {position: key.hidden for position, key in taken.items() if key.hidden is not None}
    if ids:
        found = yield from get_all(dialect, sorted({job_id for job_id in ids.values() if job_id is not None}))
        jobs.update({position: found[job_id] for position, job_id in ids.items() if job_id in found})
    return {position: msgspec.structs.replace(job, duplicate=True) for position, job in jobs.items()}
