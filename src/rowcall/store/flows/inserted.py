"""Jobs that are inserted in the order given, and how the blockers that they name stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from rowcall.domain.errors import InvalidOption
from rowcall.store.dialect import Dialect
from rowcall.store.new_job import Awaited, Inserted, NewJob, RelatedJob
from rowcall.store.queries import flows as queries
from rowcall.store.queries.batches import TALLY_BATCHES
from rowcall.store.queries.flows import Blocker, Standing, inserted_fields
from rowcall.store.statement import Plan

MOST_LINKS = 100  # of one job, to the traces of its blockers


def standing_of(dialect: Dialect, related: Sequence[RelatedJob]) -> Plan[dict[Blocker, Standing]]:
    """Return how the blockers of these jobs stand, or raise `InvalidOption` if one does not exist."""
    given_after = [one for item in related for one in (*item.job.after, *item.after)]
    awaited = {one.blocker: one for one in given_after if not isinstance(one, int)}
    if not awaited:
        return {}
    (standing,) = yield from dialect.ask(queries.STANDING, [(one.job_id, int(one.of_chain)) for one in awaited])
    for blocker, given in awaited.items():
        blocker_standing = standing.get(blocker)
        if blocker_standing is None or not _is_same(given, blocker_standing):
            what = "chain" if blocker.of_chain else "job"
            why = "it was deleted, or it is in another database"
            if blocker_standing is None and not (yield from sees_all(dialect)):
                why = "it was deleted, is in another database, or was written after your transaction took its snapshot"
            raise InvalidOption("after", f"no such {what} {blocker.job_id}: {why}")
    return standing


def _is_same(given: Awaited, found: Standing) -> bool:
    """Return whether both are the same job: a job of another database may have the same id."""
    return given.type in (None, found.type) and given.created_at_ms in (None, found.created_at_ms)


def link_traces(
    dialect: Dialect, job_id: int, own: str | None, after: Iterable[Awaited], standing: Mapping[Blocker, Standing]
) -> Plan[None]:
    """Add the traces of its blockers to a job that is traced: a line for each sender other than its own."""
    if own is None:
        return
    contexts = [standing[one.blocker].trace_context or "" for one in after if one.blocker in standing]
    senders = dict.fromkeys(words[0] for context in contexts if (words := context.split()) and words[0] not in own)
    if senders:
        yield from dialect.ask(queries.LINK_TRACES, job_id, "\n".join([own, *senders][: MOST_LINKS + 1]))


def insert_each(dialect: Dialect, jobs: Sequence[tuple[NewJob, str]]) -> Plan[list[Inserted]]:
    """Insert jobs and their payloads, and count those of batches; ids rise in the order given."""
    rows = yield from dialect.ask(queries.INSERT_EACH, [inserted_fields(job, payload) for job, payload in jobs])
    if added := Counter(row.batch_id for row in rows if row.batch_id is not None):
        yield from dialect.ask(TALLY_BATCHES, [(batch_id, count, None) for batch_id, count in sorted(added.items())])
    return sorted(rows, key=attrgetter("id"))


def sees_all(dialect: Dialect) -> Plan[bool]:
    """Return whether the next statement sees what other transactions have committed since this one began."""
    return (yield from dialect.ask(queries.ISOLATION)) in ([], ["read committed"])  # not asked where each one does
