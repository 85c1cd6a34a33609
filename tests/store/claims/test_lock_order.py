"""Whatever two transactions do to the same jobs, statement by statement: none waits for ever, and an attempt ends once.

Every transaction locks claims, then jobs, then ready rows, or skips what is locked. The jobs have all that their ends
write about: a slot, an order with a job behind them, tags, a job that waits for both, a follow-up, a batch of which
they are the last jobs, and a parent whose steps wait for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import msgspec
import psycopg
import pytest

from rowcall import Job, Limit, Rowcall
from rowcall.app import queue_of
from rowcall.domain.errors import RowcallError
from rowcall.domain.job import Status
from rowcall.domain.outcome import SUCCESS, AttemptBudget, Reported, decide
from rowcall.store.batches.finishing import fold_batches
from rowcall.store.claims.demand import Demand
from rowcall.store.claims.round import round_of_work
from rowcall.store.control import single_actions
from rowcall.store.control.bulk_actions import MatchedJobs
from rowcall.store.dialect import Dialect, Filter
from rowcall.store.ends.after import check_parents
from rowcall.store.ends.attempts import Completed, Ended, complete, settle
from rowcall.store.queries.claims import Ready
from rowcall.store.queries.counts import PRUNE
from rowcall.store.queries.ends import Owner
from rowcall.store.recovery.recover import recover_worker
from rowcall.store.statement import Plan, plain
from tests.conformance.store import Row, check_ready
from tests.conformance.worker_parts import StoreWorker
from tests.store.postgres.stepping import InThread, StepConnection, Stepper, stepping_connection

FOLLOWED = '{"failed":{"type":"note","queue":"notes"}}'
"""A follow-up that the rows of the jobs do not have, as they were written without the declaration of their task."""
FAILURE = msgspec.structs.replace(decide(AttemptBudget(1, 5), Reported("NO:GOOD", "bad")), on_end=FOLLOWED)
SHARE = int(os.environ.get("ROWCALL_TEST_MEETING_SHARE", "10"))
"""An action comes after one statement of this many of another one."""
FAR_AHEAD_MS = 4_000_000_000_000


class Scene(NamedTuple):
    """Two jobs, and the worker that holds them, unless they are ready. Others wait for them."""

    jobs: Rowcall
    worker: StoreWorker
    claimed: list[Ready]

    @property
    def dialect(self) -> Dialect:
        return queue_of(self.jobs).dialect

    @property
    def ids(self) -> list[int]:
        return [ready.id for ready in self.claimed]

    def batch(self) -> MatchedJobs:
        return MatchedJobs(self.dialect, Filter(), [self.jobs.get(job_id) for job_id in self.ids], None, 0)


def succeed(scene: Scene) -> Plan[object]:
    owner = Owner(scene.worker.name, scene.worker.holder)
    ended = [Ended(*ready.fence, SUCCESS, claimed_at_ms=1_900_000_000_000) for ready in scene.claimed]
    return settle(scene.dialect, ended, None, owner=owner)


def fail(scene: Scene) -> Plan[object]:
    return settle(scene.dialect, [Ended(*ready.fence, FAILURE) for ready in reversed(scene.claimed)], None)


def settle_both_ways(scene: Scene) -> Plan[object]:
    """Settle a failure, and a success behind it, which is written first."""
    first, second = scene.claimed
    ended = [Ended(*first.fence, FAILURE), Ended(*second.fence, SUCCESS, claimed_at_ms=1_900_000_000_000)]
    return settle(scene.dialect, ended, None, owner=Owner(scene.worker.name, scene.worker.holder))


def drop_a_void_claim(scene: Scene) -> Plan[object]:
    """Settle an attempt in a round that first drops the claim of a later job."""
    first, second = scene.claimed
    demand = Demand(worker=scene.worker.name, holder=scene.worker.holder, slots=0)
    ended = [Ended(*first.fence, FAILURE)]
    return round_of_work(scene.dialect, ended, None, demand, void=[second.fence])


def recover(scene: Scene) -> Plan[object]:
    return recover_worker(scene.dialect, scene.worker.name, None)


def complete_in_a_transaction(scene: Scene) -> Plan[object]:
    completed = Completed(scene.claimed[1].fence, "1", 5, on_end=FOLLOWED)
    return complete(scene.dialect, completed, lambda settled: [])


def cancel(scene: Scene) -> Plan[object]:
    return scene.batch().cancel("why", "me")


def prioritize(scene: Scene) -> Plan[object]:
    return scene.batch().set_priority(7, "me")


def edit(scene: Scene) -> Plan[object]:
    return single_actions.edit(
        scene.dialect, scene.ids[0], single_actions.Edited(names=("queue",), queue="other"), "me"
    )


def delete(scene: Scene) -> Plan[object]:
    return single_actions.delete(scene.dialect, scene.ids[0])


def delete_by_plain_sql(scene: Scene) -> Plan[object]:
    return (
        yield plain("delete from rowcall_job where id = any ($1::text::bigint[])", f"{{{scene.ids[1]},{scene.ids[0]}}}")
    )


def prune(scene: Scene) -> Plan[object]:
    return scene.dialect.change(PRUNE, "succeeded", "default", "send", FAR_AHEAD_MS, 100)


def claim(scene: Scene) -> Plan[object]:
    limits = queue_of(scene.jobs).declared.limits.declared
    demand = Demand(worker=scene.worker.name, holder=scene.worker.holder, slots=5, limits=limits)
    return round_of_work(scene.dialect, [], None, demand)


def tolerant(plan: Plan[object]) -> Plan[object]:
    """An action that the state of its job does not allow, or whose claim is gone, changes nothing."""
    try:
        return (yield from plan)
    except RowcallError as refused:
        return refused


Action = Callable[[Scene], Plan[object]]
ON_READY: list[Action] = [claim, cancel, prioritize, edit, delete, delete_by_plain_sql]
ON_CLAIMED: list[Action] = [
    *(succeed, fail, settle_both_ways, drop_a_void_claim, recover, complete_in_a_transaction, cancel, prioritize, edit),
    *(delete, delete_by_plain_sql, prune),
]


class Rows:
    """What the kit's check reads the tables with."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True)

    def execute(self, sql: str) -> list[Row]:
        cursor = self.connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description is not None else []


class Meeting(NamedTuple):
    """A queue, a connection for each of the two that meet, and one to check with. A new one costs more than a case."""

    jobs: Rowcall
    enqueue_sends: Callable[[list[dict[str, object]]], list[Job]]
    one: StepConnection
    other: StepConnection
    rows: Rows


@pytest.fixture
def meeting(postgres_url: str) -> Iterator[Meeting]:
    rows = Rows(postgres_url)
    with (
        Rowcall(postgres_url) as jobs,
        stepping_connection(postgres_url) as one,
        stepping_connection(postgres_url) as other,
        rows.connection,
    ):

        @jobs.task(limit=Limit("api", concurrency=2), ordered_by="account", tags=["tagged"])
        def send(account: str) -> None:
            pass

        yield Meeting(jobs, send.enqueue_many, one, other, rows)


TABLES = ("job", "worker", "slot", "batch", "batch_tally", "parent_check")
EMPTIED = "; ".join(f"delete from rowcall_{table}" for table in TABLES)
RELATED = """
    with pair as (
      insert into rowcall_batch (name, created_at, sealed_at, added) values ('pair', now(), now(), 2) returning id
    ), waiting as (
      insert into rowcall_step (job_id, position, attempt, started_at, kind, name, status, child_id)
      select {parent}, id % 1000000, 1, now(), 'call', 'send', 'waiting', id from rowcall_job where id in {children})
    update rowcall_job set parent_id = {parent}, parent_step = rowcall_job.id % 1000000, batch_id = pair.id
    from pair where rowcall_job.id in {children}"""
MEMBERS = "select id, status in ('succeeded', 'failed', 'cancelled') from rowcall_job where batch_id is not null"
WAITS = "select child_id, status from rowcall_step"
FINISHED = "select finished_at is not null, succeeded + failed + cancelled from rowcall_batch"


def new_scene(meeting: Meeting, *, claimed: bool) -> Scene:
    meeting.rows.execute(EMPTIED)
    worker = StoreWorker(meeting.jobs, "web-1")
    parent = meeting.jobs.enqueue("parent", delay=3600)
    first, _, second = meeting.enqueue_sends([{"account": account} for account in ("a", "a", "b")])
    made = [first.id, second.id]
    meeting.rows.execute(RELATED.format(parent=parent.id, children=f"({first.id}, {second.id})"))
    meeting.jobs.enqueue("note", after=made)
    if claimed:
        return Scene(meeting.jobs, worker, worker.claim(slots=2).started)
    ready = [Ready(job_id, "send", "default", "{}", 5, 0, 0, 0, None, None, None) for job_id in made]
    return Scene(meeting.jobs, worker, ready)


def pairs(actions: list[Action]) -> list[Any]:
    return [
        pytest.param(first, second, (row + column) % SHARE, id=f"{first.__name__}-{second.__name__}")
        for (row, first), (column, second) in product(enumerate(actions), repeat=2)
    ]


def meet(meeting: Meeting, first: Action, second: Action, before: int, *, claimed: bool) -> None:
    """Let the second come after some or all statements of the first, and check what is left."""
    steps = before
    while before <= steps:
        scene = new_scene(meeting, claimed=claimed)
        one, other = tolerant(first(scene)), tolerant(second(scene))
        with Stepper(meeting.one, one) as begun, Stepper(meeting.other, other) as coming:
            begun.step(before)
            later = InThread(coming.finish)
            begun.finish()
            later.join()
            steps = begun.steps
        check(scene, meeting.rows, f"{second.__name__} after {before} statements of {first.__name__}")
        before += SHARE


def check(scene: Scene, tables: Rows, when: str) -> None:
    check_ready(tables)
    claims = {row[0]: row[1] for row in tables.execute("select job_id, lease from rowcall_claim")}
    rows = tables.execute("select id, status, lease, attempt from rowcall_job")
    assert claims.keys() <= {row[0] for row in rows}, f"a claim without a job: {when}"
    for job_id, status, lease, attempt in rows:
        if job_id in claims:
            assert (status, claims[job_id]) == ("pending", int(str(lease)) + 1), when
        else:
            assert attempt in (0, 1), f"an attempt ended twice: {when}"
    check_related(scene, tables, when)
    for ready in scene.claimed:  # what still runs can be settled, once
        if ready.id in claims and ready.holder == scene.worker.holder:
            assert [scene.worker.settle(ready, outcome) for outcome in (OUTCOME, OUTCOME)] == [True, False], when
            assert scene.jobs.get(ready.id).status in (Status.SCHEDULED, Status.CANCELLED), when


def check_related(scene: Scene, tables: Rows, when: str) -> None:
    """Each end was counted in the batch once, and written into the step of the parent, perhaps by a later check."""
    database = queue_of(scene.jobs).database
    database.write(lambda: fold_batches(scene.dialect))
    database.write(lambda: check_parents(scene.dialect))
    is_ended = {int(str(child)): bool(ended) for child, ended in tables.execute(MEMBERS)}
    ((finished, counted),) = tables.execute(FINISHED)
    assert sum(is_ended.values()) <= int(str(counted)) <= len(scene.ids), when
    assert finished == all(is_ended.values()), when
    waits = {int(str(child)): status == "waiting" for child, status in tables.execute(WAITS)}
    for child, ended in is_ended.items():  # a job may have ended before it was deleted
        assert waits[child] != ended, f"{child}: {when}"


OUTCOME = Reported("NO:GOOD", "bad")


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second", "before"), pairs(ON_CLAIMED))
def test_on_claimed_jobs(meeting: Meeting, first: Action, second: Action, before: int) -> None:
    meet(meeting, first, second, before, claimed=True)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second", "before"), pairs(ON_READY))
def test_on_ready_jobs(meeting: Meeting, first: Action, second: Action, before: int) -> None:
    meet(meeting, first, second, before, claimed=False)
