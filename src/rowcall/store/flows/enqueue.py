"""Enqueues jobs that depend on others: with keys, after blockers, as chains and whole graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec

from rowcall.domain.errors import Conflict, DuplicateJob, InvalidOption
from rowcall.domain.job import FINISHED, Job
from rowcall.store.blobs.references import refer_to
from rowcall.store.control.queries import RECORD_EVENTS
from rowcall.store.dialect import Dialect
from rowcall.store.flows import queries
from rowcall.store.flows.blockers import gone, resolve
from rowcall.store.flows.queries import (
    Blocker,
    Edge,
    EndedEdge,
    Holder,
    Replacement,
    Standing,
    Unique,
    UnsureEdge,
    inserted_fields,
)
from rowcall.store.jobs.inspect import get_all
from rowcall.store.jobs.marks import retag
from rowcall.store.new_job import Awaited, Inserted, NewJob
from rowcall.store.statement import Plan
from rowcall.store.steps.queries import DELETE_STEPS

MOST_LINKS = 100  # of one job, to the traces of its blockers


class RelatedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be written. It waits for `job.after` and then `after`, in this order.

    A number in `after` is the position of an earlier job of the same call. `chain` is the position of the first step of
    its chain, of which it is step `chain_index`.
    """

    job: NewJob
    payload: str
    after: tuple[Awaited | int, ...] = ()
    chain: int | None = None
    chain_index: int = 0


Holders = dict[tuple[str, str], Job]
"""Jobs that hold a type's keys."""


class Committed(NamedTuple):
    """Committed jobs that the caller's transaction cannot see, because it began too early.

    `changed` are jobs of which it sees an old version: it cannot change them.
    """

    holders: Holders
    changed: frozenset[int]


def lock_keys(dialect: Dialect, related: Sequence[RelatedJob], now_ms: int | None) -> Plan[Holders | None]:
    """Lock the keys. Return the holders that this transaction sees; None if it sees all committed jobs."""
    yield from dialect.ask(queries.BEGIN_WRITING)
    groups = keyed(related)
    for (task, _), by_key in groups.items():
        yield from dialect.ask(queries.LOCK_KEYS, task, sorted(by_key))
    if not groups or (yield from sees_all(dialect)):
        return None
    return (yield from _holders(dialect, related, now_ms))


def read_committed(
    dialect: Dialect, related: Sequence[RelatedJob], seen: Holders, now_ms: int | None
) -> Plan[Committed]:
    """Return the committed holders of the keys, read outside the caller's transaction."""
    holders = yield from _holders(dialect, related, now_ms)
    seen_jobs = {job.id: job for job in seen.values()}
    current = (yield from get_all(dialect, sorted(seen_jobs))) if seen_jobs else {}
    return Committed(holders, frozenset(job.id for job in current.values() if job != seen_jobs[job.id]))


def _holders(dialect: Dialect, related: Sequence[RelatedJob], now_ms: int | None) -> Plan[Holders]:
    found: Holders = {}
    for (task, unique), by_key in keyed(related).items():
        holders = yield from _key_holders(dialect, task, by_key, unique, now_ms)
        jobs = (yield from get_all(dialect, [holder.job_id for holder in holders])) if holders else {}
        found.update({(task, holder.key): jobs[holder.job_id] for holder in holders if holder.job_id in jobs})
    return found


def write_related(
    dialect: Dialect,
    related: Sequence[RelatedJob],
    now_ms: int | None,
    committed: Committed | None = None,
    *,
    whole: bool = False,
) -> Plan[list[Inserted | Job]]:
    """Write all jobs or none; return each new row, or the job that already has the key.

    Every check comes before the first write. `whole`: if the first job exists, so do the others; return that job alone.
    """
    if not related:
        return []
    yield from dialect.ask(queries.BEGIN_WRITING)
    standing = yield from standing_of(dialect, related)
    taken = yield from _reserve_keys(dialect, related, committed, now_ms)
    if whole and 0 in taken:
        return [(yield from _existing(dialect, {0: taken[0]}, {}))[0]]
    new = [position for position in range(len(related)) if position not in taken]
    inserted: dict[int, Inserted] = {}
    if new:
        rows = yield from insert_each(dialect, [(_job_of(related[p]), related[p].payload) for p in new], now_ms)
        inserted = dict(zip(new, rows, strict=True))
        yield from refer_to(dialect, [related[p].payload for p in new], [row.id for row in rows])
        yield from _mark_chains(dialect, related, inserted)
        inserted = yield from _wait(dialect, related, inserted, standing, now_ms)
    existing = yield from _existing(dialect, taken, inserted)
    return [existing.get(position) or inserted[position] for position in range(len(related))]


# blockers


def _job_of(item: RelatedJob) -> NewJob:
    if item.job.after or item.after:
        return msgspec.structs.replace(item.job, blocked=True)
    return item.job


def standing_of(dialect: Dialect, related: Sequence[RelatedJob]) -> Plan[dict[Blocker, Standing]]:
    """Return how the blockers of these jobs stand, or raise `InvalidOption` if one does not exist."""
    given_after = [one for item in related for one in (*item.job.after, *item.after)]
    awaited = {one.blocker: one for one in given_after if not isinstance(one, int)}
    if not awaited:
        return {}
    (standing,) = yield from dialect.ask(queries.STANDING, [(one.job_id, int(one.of_chain)) for one in awaited])
    for blocker, given in awaited.items():
        found = standing.get(blocker)
        if found is None or not _is_same(given, found):
            what = "chain" if blocker.of_chain else "job"
            why = "it was deleted, or it is in another database"
            if found is None and not (yield from sees_all(dialect)):
                why = "it was deleted, is in another database, or was written after your transaction took its snapshot"
            raise InvalidOption("after", f"no such {what} {blocker.job_id}: {why}")
    return standing


def _is_same(given: Awaited, found: Standing) -> bool:
    """Return whether both are the same job: a job of another database may have the same id."""
    return given.type in (None, found.type) and given.created_at_ms in (None, found.created_at_ms)


def _wait(
    dialect: Dialect,
    related: Sequence[RelatedJob],
    inserted: dict[int, Inserted],
    standing: dict[Blocker, Standing],
    now_ms: int | None,
) -> Plan[dict[int, Inserted]]:
    """Write the edges, and resolve those whose blockers have already ended."""
    edges: list[Edge] = []
    over: list[tuple[int, int]] = []
    for position, row in inserted.items():
        item = related[position]
        on_failure = item.job.on_blocker_failure
        after = (*item.job.after, *item.after)
        blockers = [Blocker(inserted[one].id) if isinstance(one, int) else one.blocker for one in after]
        for number, blocker in enumerate(dict.fromkeys(blockers)):
            unsure = int(blocker in standing and not dialect.one_writer)
            edges.append(Edge(blocker.job_id, int(blocker.of_chain), row.id, number, on_failure, unsure))
            if blocker in standing and standing[blocker].status in FINISHED:
                over.append((blocker.job_id, row.id))
    if not edges:
        return inserted
    yield from dialect.ask(queries.INSERT_EDGES, edges)
    for position, row in inserted.items():
        item = related[position]
        awaited = [one for one in (*item.job.after, *item.after) if not isinstance(one, int)]
        yield from _link_traces(dialect, row.id, item.job.trace_context, awaited, standing)
    if not over:
        return inserted
    (ended,) = yield from dialect.ask(queries.ENDS_OF, over)
    yield from resolve(dialect, ended, now_ms)
    written = yield from get_all(dialect, [row.id for row in inserted.values()])
    return {
        position: msgspec.structs.replace(row, status=str(written[row.id].status)) for position, row in inserted.items()
    }


def wait_for_others(dialect: Dialect, jobs: Sequence[tuple[int, NewJob]], now_ms: int | None) -> Plan[None]:
    """Write the edges of jobs that were just inserted as blocked. A blocker that is gone has failed."""
    edges: list[Edge] = []
    ended: list[EndedEdge] = []
    over: list[tuple[int, int]] = []
    awaited = {one.blocker for _, job in jobs for one in job.after}
    if not awaited:
        return
    (standing,) = yield from dialect.ask(queries.STANDING, [(one.job_id, int(one.of_chain)) for one in awaited])
    for job_id, job in jobs:
        for number, (blocker, *_) in enumerate(job.after):
            ends = (blocker.job_id, int(blocker.of_chain), job_id)
            if blocker.job_id < job_id:  # a higher id never existed, and the table refuses it
                edges.append(Edge(*ends, number, job.on_blocker_failure, int(not dialect.one_writer)))
            if blocker not in standing:
                ended.append(gone(UnsureEdge(*ends, job.on_blocker_failure)))
            elif standing[blocker].status in FINISHED:
                over.append((blocker.job_id, job_id))
    yield from dialect.ask(queries.INSERT_EDGES, edges)
    for job_id, job in jobs:
        yield from _link_traces(dialect, job_id, job.trace_context, job.after, standing)
    if over:
        ended += (yield from dialect.ask(queries.ENDS_OF, over))[0]
    yield from resolve(dialect, ended, now_ms)


def _link_traces(
    dialect: Dialect, job_id: int, own: str | None, after: Iterable[Awaited], standing: Mapping[Blocker, Standing]
) -> Plan[None]:
    """Add the traces of its blockers to a job that is traced: a line for each sender other than its own."""
    if own is None:
        return
    contexts = [standing[one.blocker].trace_context or "" for one in after if one.blocker in standing]
    senders = dict.fromkeys(words[0] for context in contexts if (words := context.split()) and words[0] not in own)
    if senders:
        yield from dialect.ask(queries.LINK_TRACES, job_id, "\n".join([own, *senders][: MOST_LINKS + 1]))


def _mark_chains(dialect: Dialect, related: Sequence[RelatedJob], inserted: dict[int, Inserted]) -> Plan[None]:
    steps = [
        (row.id, inserted[chain].id, related[position].chain_index)
        for position, row in inserted.items()
        if (chain := related[position].chain) is not None
    ]
    if steps:
        yield from dialect.ask(queries.MARK_CHAINS, steps)


# keys


class _Taken(NamedTuple):
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


def _reserve_keys(
    dialect: Dialect, related: Sequence[RelatedJob], committed: Committed | None, now_ms: int | None
) -> Plan[dict[int, _Taken]]:
    """Return which positions are duplicates, and of what. `on_duplicate="replace"` replaces waiting jobs here."""
    taken: dict[int, _Taken] = {}
    for (task, unique), by_key in keyed(related).items():
        yield from dialect.ask(queries.LOCK_KEYS, task, sorted(by_key))
        holders = yield from _key_holders(dialect, task, by_key, unique, now_ms)
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
            replaced = (yield from _replace(dialect, given, now_ms)) if given else set()
            yield from _record_replaced(dialect, related, by_key, replaceable, replaced, now_ms)
            held = {key: holder for key, holder in held.items() if holder.job_id in replaced}
        for key, positions in by_key.items():
            if key in hidden:
                taken.update(dict.fromkeys(positions, _Taken(hidden=hidden[key])))
            elif key in held:
                taken.update(dict.fromkeys(positions, _Taken(held[key].job_id)))
            else:
                chosen = positions[-1] if unique.on_duplicate == "replace" else positions[0]
                taken.update(dict.fromkeys((p for p in positions if p != chosen), _Taken(position=chosen)))
    return taken


def _key_holders(
    dialect: Dialect, task: str, keys: Iterable[str], unique: Unique, now_ms: int | None
) -> Plan[list[Holder]]:
    # an older job may wait again, after a failed attempt, while the newest one runs: that one can be replaced
    scope = "waiting" if unique.on_duplicate == "replace" else unique.scope
    return (yield from dialect.ask(queries.KEY_HOLDERS, now_ms, task, sorted(keys), scope, unique.window_ms))[0]


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
            raise InvalidOption("key", f"{task}: two jobs of one call have the key {key!r}")


def _replacement(job_id: int, item: RelatedJob) -> Replacement:
    job = item.job
    times = (job.run_at_ms, job.delay_ms, job.expires_at_ms, job.expires_in_ms)
    shared = job.fair, job.weight, job.ordered, job.order_blocks
    return Replacement(job_id, item.payload, *times, job.limits, job.target, *shared)


def _replace(dialect: Dialect, given: dict[int, Replacement], now_ms: int | None) -> Plan[set[int]]:
    """Replace jobs that are still waiting; return their ids. Durable steps of the old arguments are deleted."""
    rows = yield from dialect.ask(queries.REPLACE_WAITING, now_ms, given)
    replaced = [row.job_id for row in rows]
    yield from retag(dialect, replaced)
    if claimed := [row.job_id for row in rows if row.lease]:
        yield from dialect.ask(DELETE_STEPS, claimed)
    return set(replaced)


def _record_replaced(
    dialect: Dialect,
    related: Sequence[RelatedJob],
    by_key: dict[str, list[int]],
    replaceable: dict[str, int],
    replaced: set[int],
    now_ms: int | None,
) -> Plan[None]:
    for key, job_id in replaceable.items():
        if job_id in replaced:
            yield from refer_to(dialect, [related[by_key[key][-1]].payload], [job_id])
            yield from dialect.ask(RECORD_EVENTS, now_ms, [job_id], "REPLACED", None, f"key {key}")


def _existing(dialect: Dialect, taken: dict[int, _Taken], inserted: dict[int, Inserted]) -> Plan[dict[int, Job]]:
    ids = {
        position: claim.job_id if claim.position is None else inserted[claim.position].id
        for position, claim in taken.items()
        if claim.hidden is None
    }
    jobs = {position: claim.hidden for position, claim in taken.items() if claim.hidden is not None}
    if ids:
        found = yield from get_all(dialect, sorted({job_id for job_id in ids.values() if job_id is not None}))
        jobs.update({position: found[job_id] for position, job_id in ids.items() if job_id in found})
    return {position: msgspec.structs.replace(job, duplicate=True) for position, job in jobs.items()}


def insert_each(dialect: Dialect, jobs: Sequence[tuple[NewJob, str]], now_ms: int | None) -> Plan[list[Inserted]]:
    """Insert jobs and their payloads; ids rise in the order given."""
    rows = yield from dialect.ask(queries.INSERT_EACH, now_ms, [inserted_fields(job, payload) for job, payload in jobs])
    return sorted(rows, key=attrgetter("id"))


def sees_all(dialect: Dialect) -> Plan[bool]:
    """Return whether the next statement sees what other transactions have committed since this one began."""
    return dialect.one_writer or (yield from dialect.ask(queries.ISOLATION)) == ["read committed"]
