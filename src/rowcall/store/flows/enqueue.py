"""Jobs that are written with an eye on others: with keys, after blockers, as chains and whole graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from rowcall.domain.errors import Conflict, DuplicateJob, InvalidOption
from rowcall.domain.job import FINISHED, WAITING, Job
from rowcall.store.blobs.references import refer_to
from rowcall.store.control.queries import RECORD_EVENTS
from rowcall.store.dialect import Dialect
from rowcall.store.flows.blockers import resolve
from rowcall.store.flows.insert import insert_each, sees_all
from rowcall.store.flows.queries import (
    BEGIN_WRITING,
    ENDS_OF,
    INSERT_EDGES,
    KEY_HOLDERS,
    LOCK_KEYS,
    MARK_CHAINS,
    REPLACE_WAITING,
    STANDING,
    Blocker,
    Edge,
    Holder,
    Replacement,
    Standing,
    Unique,
)
from rowcall.store.jobs.inspect import get_all
from rowcall.store.jobs.marks import retag
from rowcall.store.new_job import Awaited, Inserted, NewJob
from rowcall.store.statement import Plan


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be written. It waits for `job.after` and then `after`, in this order.

    A number in `after` is the place of another order of the same call, which must be an earlier one. `chain` is the
    place of the first step of the chain that it belongs to, of which it is step `chain_index`.
    """

    job: NewJob
    payload: str
    after: tuple[Awaited | int, ...] = ()
    chain: int | None = None
    chain_index: int = 0


class Placed(NamedTuple):
    """What became of an order: a new row, or a job that was there already."""

    inserted: Inserted | None
    existing: Job | None = None


Holders = dict[tuple[str, str], Job]
"""Jobs that hold a type's keys."""


class Beside(NamedTuple):
    """What is committed, where the transaction of the caller's began too early to see it.

    `changed` are jobs that it sees as they no longer are: it cannot change them any more.
    """

    holders: Holders
    changed: frozenset[int]


def lock_keys(dialect: Dialect, orders: Sequence[Order], now_ms: int | None) -> Plan[Holders | None]:
    """Have the keys to ourselves; gives who is seen to hold them, unless that is all there is to see."""
    yield from dialect.ask(BEGIN_WRITING)
    groups = keyed(orders)
    for (kind, _), by_key in groups.items():
        yield from dialect.ask(LOCK_KEYS, kind, sorted(by_key))
    if not groups or (yield from sees_all(dialect)):
        return None
    return (yield from _holders(dialect, orders, now_ms))


def look_beside(dialect: Dialect, orders: Sequence[Order], seen: Holders, now_ms: int | None) -> Plan[Beside]:
    """Who holds the keys in truth; read beside the caller's transaction."""
    holders = yield from _holders(dialect, orders, now_ms)
    seen_jobs = {job.id: job for job in seen.values()}
    committed = (yield from get_all(dialect, sorted(seen_jobs))) if seen_jobs else {}
    return Beside(holders, frozenset(job.id for job in committed.values() if job != seen_jobs[job.id]))


def _holders(dialect: Dialect, orders: Sequence[Order], now_ms: int | None) -> Plan[Holders]:
    found: Holders = {}
    for (kind, unique), by_key in keyed(orders).items():
        holders = yield from _key_holders(dialect, kind, by_key, unique, now_ms)
        jobs = (yield from get_all(dialect, [holder.job_id for holder in holders])) if holders else {}
        found.update({(kind, holder.key): jobs[holder.job_id] for holder in holders if holder.job_id in jobs})
    return found


def place_orders(
    dialect: Dialect, orders: Sequence[Order], now_ms: int | None, beside: Beside | None = None
) -> Plan[list[Placed]]:
    """Write all of them or none. What is refused is refused before anything is written."""
    if not orders:
        return []
    yield from dialect.ask(BEGIN_WRITING)
    standing = yield from _standing(dialect, orders)
    taken = yield from _take_keys(dialect, orders, beside, now_ms)
    new = [place for place in range(len(orders)) if place not in taken]
    inserted: dict[int, Inserted] = {}
    if new:
        rows = yield from insert_each(dialect, [(_job_of(orders[p]), orders[p].payload) for p in new], now_ms)
        inserted = dict(zip(new, rows, strict=True))
        yield from refer_to(dialect, [orders[p].payload for p in new], [row.id for row in rows])
        yield from _mark_chains(dialect, orders, inserted)
        inserted = yield from _wait(dialect, orders, inserted, standing, now_ms)
    existing = yield from _existing(dialect, taken, inserted)
    return [Placed(inserted.get(place), existing.get(place)) for place in range(len(orders))]


# blockers


def _job_of(order: Order) -> NewJob:
    if order.job.after or order.after:
        return msgspec.structs.replace(order.job, blocked=True)
    return order.job


def _standing(dialect: Dialect, orders: Sequence[Order]) -> Plan[dict[Blocker, Standing]]:
    given_after = [one for order in orders for one in (*order.job.after, *order.after)]
    awaited = {one.blocker: one for one in given_after if not isinstance(one, int)}
    if not awaited:
        return {}
    (standing,) = yield from dialect.ask(STANDING, [(one.job_id, int(one.of_chain)) for one in awaited])
    for blocker, given in awaited.items():
        found = standing.get(blocker)
        if found is None or not _is_same(given, found):
            what = "chain" if blocker.of_chain else "job"
            why = "it was deleted, or is another's"
            if found is None and not (yield from sees_all(dialect)):
                why = "it was deleted, is another's, or came after the snapshot of your transaction was taken"
            raise InvalidOption("after", f"there is no such {what} {blocker.job_id} in this database: {why}")
    return standing


def _is_same(given: Awaited, found: Standing) -> bool:
    """A job of another database may have the id of one that is here."""
    return given.type in (None, found.type) and given.created_at_ms in (None, found.created_at_ms)


def _wait(
    dialect: Dialect,
    orders: Sequence[Order],
    inserted: dict[int, Inserted],
    standing: dict[Blocker, Standing],
    now_ms: int | None,
) -> Plan[dict[int, Inserted]]:
    """Write what each waits for; what has ended already counts at once."""
    edges: list[Edge] = []
    over: list[tuple[int, int]] = []
    for place, row in inserted.items():
        order = orders[place]
        on_failure = order.job.on_blocker_failure
        after = (*order.job.after, *order.after)
        blockers = [Blocker(inserted[one].id) if isinstance(one, int) else one.blocker for one in after]
        for number, blocker in enumerate(dict.fromkeys(blockers)):
            unsure = int(blocker in standing and not dialect.one_writer)
            edges.append(Edge(blocker.job_id, int(blocker.of_chain), row.id, number, on_failure, unsure))
            if blocker in standing and standing[blocker].status in FINISHED:
                over.append((blocker.job_id, row.id))
    if not edges:
        return inserted
    yield from dialect.ask(INSERT_EDGES, edges)
    if not over:
        return inserted
    (ended,) = yield from dialect.ask(ENDS_OF, over)
    yield from resolve(dialect, ended, now_ms)
    written = yield from get_all(dialect, [row.id for row in inserted.values()])
    return {place: msgspec.structs.replace(row, status=str(written[row.id].status)) for place, row in inserted.items()}


def _mark_chains(dialect: Dialect, orders: Sequence[Order], inserted: dict[int, Inserted]) -> Plan[None]:
    steps = [
        (row.id, inserted[chain].id, orders[place].chain_index)
        for place, row in inserted.items()
        if (chain := orders[place].chain) is not None
    ]
    if steps:
        yield from dialect.ask(MARK_CHAINS, steps)


# keys


class _Claim(NamedTuple):
    """A key that is taken: by a job that is there, or by an earlier order of the same call."""

    job_id: int | None = None
    order: int | None = None
    hidden: Job | None = None


def keyed(orders: Sequence[Order]) -> dict[tuple[str, Unique], dict[str, list[int]]]:
    """The places of the orders that have keys, by what makes them duplicates, and by key."""
    groups: dict[tuple[str, Unique], dict[str, list[int]]] = {}
    for place, order in enumerate(orders):
        if order.job.unique is not None and order.job.key is not None:
            by_key = groups.setdefault((order.job.type, order.job.unique), {})
            by_key.setdefault(order.job.key, []).append(place)
    return groups


def _take_keys(
    dialect: Dialect, orders: Sequence[Order], beside: Beside | None, now_ms: int | None
) -> Plan[dict[int, _Claim]]:
    """Which orders are duplicates, and of what. Waiting jobs that are to be replaced are replaced here."""
    taken: dict[int, _Claim] = {}
    for (kind, unique), by_key in keyed(orders).items():
        yield from dialect.ask(LOCK_KEYS, kind, sorted(by_key))
        holders = yield from _key_holders(dialect, kind, by_key, unique, now_ms)
        held = {holder.key: holder for holder in holders}
        out_of_sight: dict[str, Job] = {}
        if beside is not None:
            true = {key: beside.holders[kind, key] for key in by_key if (kind, key) in beside.holders}
            held = {key: holder for key, holder in held.items() if not _has_lost(holder, true.get(key), beside)}
            out_of_sight = {
                key: job for key, job in true.items() if key not in held or held[key].job_id in beside.changed
            }
            _refuse_hidden(kind, unique, out_of_sight)
        if unique.on_duplicate == "raise":
            _refuse_duplicates(kind, by_key, {key: holder.job_id for key, holder in held.items()})
        replaceable = {key: holder.job_id for key, holder in held.items() if holder.status in WAITING}
        if unique.on_duplicate == "replace":
            given = {replaceable[key]: _replacement(replaceable[key], orders[by_key[key][-1]]) for key in replaceable}
            replaced = (yield from _replace(dialect, given, now_ms)) if given else set()
            yield from _record_replaced(dialect, orders, by_key, replaceable, replaced, now_ms)
            held = {key: holder for key, holder in held.items() if holder.job_id in replaced}
        for key, places in by_key.items():
            if key in out_of_sight:
                taken.update(dict.fromkeys(places, _Claim(hidden=out_of_sight[key])))
            elif key in held:
                taken.update(dict.fromkeys(places, _Claim(held[key].job_id)))
            else:
                chosen = places[-1] if unique.on_duplicate == "replace" else places[0]
                taken.update(dict.fromkeys((p for p in places if p != chosen), _Claim(order=chosen)))
    return taken


def _key_holders(
    dialect: Dialect, kind: str, keys: Iterable[str], unique: Unique, now_ms: int | None
) -> Plan[list[Holder]]:
    return (yield from dialect.ask(KEY_HOLDERS, now_ms, kind, sorted(keys), unique.scope, unique.window_ms))[0]


def _has_lost(holder: Holder, true: Job | None, beside: Beside) -> bool:
    """Whether it no longer holds its key, although it is seen to."""
    return holder.job_id in beside.changed and (true is None or true.id != holder.job_id)


def _refuse_hidden(kind: str, unique: Unique, hidden: dict[str, Job]) -> None:
    for key, job in hidden.items():
        if unique.on_duplicate == "raise":
            raise DuplicateJob(kind, key, job.id)
        if unique.on_duplicate == "replace":
            raise Conflict(
                f"job {job.id} has the key {key!r} and was written or changed after your transaction began, so it"
                " cannot be replaced from there",
                "Nothing was written, and the transaction goes on: enqueue again in a new one",
            )


def _refuse_duplicates(kind: str, by_key: dict[str, list[int]], held: dict[str, int]) -> None:
    for key, places in by_key.items():
        if key in held:
            raise DuplicateJob(kind, key, held[key])
        if len(places) > 1:
            raise InvalidOption("key", f"{kind}: two jobs of one call have the key {key!r}")


def _replacement(job_id: int, order: Order) -> Replacement:
    job = order.job
    times = (job.run_at_ms, job.delay_ms, job.expires_at_ms, job.expires_in_ms)
    return Replacement(job_id, order.payload, *times, job.limits)


def _replace(dialect: Dialect, given: dict[int, Replacement], now_ms: int | None) -> Plan[set[int]]:
    """Replace jobs that are still waiting; return their ids."""
    replaced = yield from dialect.ask(REPLACE_WAITING, now_ms, given)
    yield from retag(dialect, replaced)
    return set(replaced)


def _record_replaced(
    dialect: Dialect,
    orders: Sequence[Order],
    by_key: dict[str, list[int]],
    replaceable: dict[str, int],
    replaced: set[int],
    now_ms: int | None,
) -> Plan[None]:
    for key, job_id in replaceable.items():
        if job_id in replaced:
            yield from refer_to(dialect, [orders[by_key[key][-1]].payload], [job_id])
            yield from dialect.ask(RECORD_EVENTS, now_ms, [job_id], "REPLACED", None, f"key {key}")


def _existing(dialect: Dialect, taken: dict[int, _Claim], inserted: dict[int, Inserted]) -> Plan[dict[int, Job]]:
    ids = {
        place: claim.job_id if claim.order is None else inserted[claim.order].id
        for place, claim in taken.items()
        if claim.hidden is None
    }
    jobs = {place: claim.hidden for place, claim in taken.items() if claim.hidden is not None}
    if ids:
        found = yield from get_all(dialect, sorted({job_id for job_id in ids.values() if job_id is not None}))
        jobs.update({place: found[job_id] for place, job_id in ids.items() if job_id in found})
    return {place: msgspec.structs.replace(job, duplicate=True) for place, job in jobs.items()}
