"""Keys, blockers, chains and flows in a transaction of the caller's: it lives on whatever is refused, and takes along
all of it when it ends.
"""

from __future__ import annotations

import contextlib

import pytest

from rowcall import Context, DuplicateJob, InvalidOption, Job, JobOutcome, LeaseLost, Rowcall, Status
from tests.drivers.caller.callers.base import Caller, Kind, Undo
from tests.drivers.caller.callers.kinds import BY_NAME
from tests.drivers.caller.handlers import handled, handler_of
from tests.drivers.caller.queue_site import Case, Site

SOME = [
    BY_NAME[name]
    for name in (
        "sqlite3-legacy",
        "sqlite3-none",
        "aiosqlite",
        "psycopg",
        "psycopg-pipeline",
        "psycopg-async",
        "asyncpg",
        "sqlalchemy-pysqlite-session",
        "sqlalchemy-psycopg2-scoped-session",
        "sqlalchemy-asyncpg-async-connection",
        "django-sqlite-alias",
        "django-postgresql-proxy",
    )
]


@pytest.fixture(params=SOME, ids=lambda kind: kind.name)
def case(request: pytest.FixtureRequest) -> Case:
    here, elsewhere = request.getfixturevalue(f"{request.param.database}_sites")
    return Case(request.param, here, elsewhere)


async def lives_on(case: Case, mine: Caller) -> None:
    assert await mine.execute("select 1") == [(1,)]
    assert await mine.execute(f"select count(*) from mine where note = '{case.queue}'") == [(1,)]


async def write_flow(case: Case, mine: Caller, blocker: Job) -> list[Job]:
    flow = case.jobs.flow(connection=mine.connection)
    part = case.site.send.using(queue=case.queue)
    root = flow.add(part.bind("root"), after=blocker)
    flow.add_chain([part.bind("first"), part.bind("last")], after=root)
    return await flow.aenqueue() if mine.is_async else flow.enqueue()


def edges_of(case: Case, *jobs: Job) -> int:
    ids = ", ".join(str(job.id) for job in jobs)
    return len(case.site.execute(f"select 1 from rowcall_edge where job_id in ({ids})"))


# --- keys -----------------------------------------------------------------------------------------


def test_a_duplicate_never_breaks_the_transaction(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        taken = case.site.send.using(queue=case.queue, key=case.queue, delay=60).enqueue("before")
        await mine.begin()
        await mine.execute(case.note)
        again = await mine.enqueue(case.send(mine, key=case.queue), "again")
        assert (again.id, again.duplicate) == (taken.id, True)
        with pytest.raises(DuplicateJob):
            await mine.enqueue(case.send(mine, key=case.queue, on_duplicate="raise"), "again")
        await lives_on(case, mine)
        new = await mine.enqueue(case.send(mine, key=f"{case.queue} new"), "new")
        same = await mine.enqueue(case.send(mine, key=f"{case.queue} new"), "same")
        assert (new.duplicate, same.duplicate, same.id) == (False, True, new.id)
        many = await mine.enqueue_many(
            case.send(mine, key=lambda to: f"{case.queue} {to}"), [{"to": "new"}, {"to": "a"}, {"to": "a"}]
        )
        assert [job.duplicate for job in many] == [True, False, True]
        replaced = await mine.enqueue(case.send(mine, key=case.queue, on_duplicate="replace"), "replaced")
        assert (replaced.id, replaced.payload) == (taken.id, {"to": "replaced"})
        await lives_on(case, mine)
        assert case.sent_to == ["before"]
        await mine.commit()

    case.run(scenario)
    assert case.sent_to == ["replaced", "new", "a"]
    assert case.notes == 1


def test_a_replacement_is_rolled_back_with_the_rest(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        case.site.send.using(queue=case.queue, key=case.queue, delay=60).enqueue("before")
        await mine.begin()
        await mine.execute(case.note)
        await mine.enqueue(case.send(mine, key=case.queue, on_duplicate="replace"), "replaced")
        await mine.enqueue(case.send(mine, key=f"{case.queue} new"), "new")
        await mine.rollback()

    case.run(scenario)
    assert case.sent_to == ["before"]
    assert case.written[0].status is Status.SCHEDULED
    assert not case.site.send.using(queue=case.queue, key=f"{case.queue} new").enqueue("new").duplicate


# --- blockers and flows ---------------------------------------------------------------------------


def test_a_refused_blocker_leaves_the_transaction_alive(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        elsewhere = case.elsewhere.send.using(queue=case.queue).enqueue("elsewhere")
        await mine.begin()
        await mine.execute(case.note)
        for wrong in (elsewhere, 2**61):
            with pytest.raises(InvalidOption, match="after"):
                await mine.enqueue(case.send(mine, after=wrong), "never")
        await lives_on(case, mine)
        await mine.commit()

    case.run(scenario)
    assert (case.written, case.notes) == ([], 1)


def test_a_flow_is_written_with_the_transaction(case: Case) -> None:
    found: list[Job] = []

    async def scenario(mine: Caller) -> None:
        blocker = case.site.send.using(queue=case.queue, delay=60).enqueue("blocker")
        await mine.begin()
        await mine.execute(case.note)
        found.extend(await write_flow(case, mine, blocker))
        after_own = await mine.enqueue(case.send(mine, after=found[0]), "after")
        assert after_own.status is Status.BLOCKED
        assert case.sent_to == ["blocker"]
        assert edges_of(case, *found) == 0
        await mine.commit()

    case.run(scenario)
    assert case.sent_to == ["blocker", "root", "first", "last", "after"]
    assert [case.jobs.get(job.id) for job in found] == found
    assert edges_of(case, *found) == 3
    assert case.jobs.chain(found[1].id).length == 2


def test_a_savepoint_takes_job_and_edges_along(case: Case) -> None:
    found: list[Job] = []

    async def scenario(mine: Caller) -> None:
        blocker = case.site.send.using(queue=case.queue, delay=60).enqueue("blocker")
        await mine.begin()
        await mine.execute(case.note)
        with contextlib.suppress(Undo):
            async with mine.savepoint():
                found.extend(await write_flow(case, mine, blocker))
                await mine.enqueue(case.send(mine, key=case.queue), "keyed")
                raise Undo
        kept = await mine.enqueue(case.send(mine, key=case.queue, after=blocker), "kept")
        assert not kept.duplicate
        found.append(kept)
        await lives_on(case, mine)
        await mine.commit()

    case.run(scenario)
    assert case.sent_to == ["blocker", "kept"]
    assert edges_of(case, *found) == 1


def test_a_blocker_that_came_after_the_snapshot(postgresql_sites: tuple[Site, Site]) -> None:
    case = Case(BY_NAME["psycopg"], *postgresql_sites)

    async def scenario(mine: Caller) -> None:
        await mine.execute("set transaction isolation level repeatable read")
        await mine.execute("select 1")
        blocker = case.site.send.using(queue=case.queue).enqueue("blocker")
        with pytest.raises(InvalidOption, match=r"after: no such job .* after your transaction took its snapshot"):
            await mine.enqueue(case.send(mine, after=[blocker]), "refused")
        await mine.rollback()
        await mine.enqueue(case.send(mine, after=[blocker]), "waits")
        await mine.commit()

    case.run(scenario)
    assert case.sent_to == ["blocker", "waits"]


# --- completions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
def test_what_a_completion_continues_with_commits_along(case: Case, commits: bool) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        ctx.continue_with(case.site.send.using(queue=case.queue, delay=60), "next")
        await mine.begin()
        await mine.execute(case.note)
        await mine.complete(ctx, "done")
        assert len(case.written) == 1
        await (mine.commit() if commits else mine.rollback())

    job, _ = handled(case, body)
    if commits:
        chain = case.jobs.chain(job.id)
        assert [step.status for step in chain.steps] == [Status.SUCCEEDED, Status.SCHEDULED]
        assert (chain.steps[0].result, chain.steps[1].payload) == ("done", {"to": "next"})
    else:
        assert (job.status, job.chain_id) == (Status.FAILED, None)
        assert len(case.written) == 1
    assert case.notes == commits


def test_a_completion_that_continues_needs_a_transaction(case: Case) -> None:
    """Else a crash in between loses what comes next."""

    async def body(ctx: Context, mine: Caller) -> None:
        ctx.continue_with(case.site.send.using(queue=case.queue, delay=60), "next")
        if not commits_each(case.kind):
            await mine.begin()
            await mine.complete(ctx, "done")
            await mine.commit()
            return
        with pytest.raises(InvalidOption, match="connection has no transaction open"):
            await mine.complete(ctx, "done")

    job, _ = handled(case, body)
    assert job.status == Status.SUCCEEDED
    assert [step.status for step in case.jobs.chain(job.id).steps] == [Status.SUCCEEDED, Status.SCHEDULED]


def test_a_completion_that_is_followed_needs_a_transaction(case: Case) -> None:
    results: list[object] = []

    async def body(ctx: Context, mine: Caller) -> None:
        if commits_each(case.kind):
            with pytest.raises(InvalidOption, match="connection has no transaction open"):
                await mine.complete(ctx, "refused")
        await mine.begin()
        await mine.complete(ctx, "done")
        await mine.commit()

    task = handler_of(case, body)

    @task.on_success(name=f"{case.queue}-followed", queue=case.queue)
    def followed(job: JobOutcome) -> None:
        results.append(job.result)

    task.enqueue()
    case.jobs.drain(queues=[case.queue])
    assert (case.troubles, results) == ([], ["done"])


def commits_each(kind: Kind) -> bool:
    """Whether it commits each statement on its own, as long as its user has not begun anything."""
    return kind.name in ("sqlite3-none", "aiosqlite-none", "sqlite3-autocommit-on") or (
        kind.name.startswith(("psycopg-autocommit", "psycopg-async-autocommit", "asyncpg", "django"))
    )


def test_who_has_lost_the_job_continues_with_nothing(case: Case) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        ctx.continue_with(case.site.send.using(queue=case.queue), "next")
        case.site.execute(f"update rowcall_claim set holder = holder + 1 where job_id = {ctx.job.id}")
        await mine.begin()
        await mine.execute(case.note)
        with pytest.raises(LeaseLost):
            await mine.complete(ctx)
        await lives_on(case, mine)
        await mine.rollback()

    handled(case, body)
    assert len(case.written) == 1
    assert case.notes == 0


def test_a_second_completion_has_lost_it(case: Case) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        ctx.continue_with(case.site.send.using(queue=case.queue, delay=60), "next")
        await mine.begin()
        await mine.complete(ctx, 1)
        with pytest.raises(LeaseLost):
            await mine.complete(ctx, 2)
        await mine.commit()

    job, _ = handled(case, body)
    assert (job.status, job.result) == (Status.SUCCEEDED, 1)
    assert case.jobs.chain(job.id).length == 2


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
def test_jobs_after_a_completion_become_ready_with_its_commit(case: Case, commits: bool) -> None:
    waiting: list[Job] = []

    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.complete(ctx, "done")
        assert case.jobs.get(waiting[0].id).status is Status.BLOCKED
        await (mine.commit() if commits else mine.rollback())

    task = handler_of(case, body)
    job = task.enqueue()
    waiting.append(case.site.send.using(queue=f"{case.queue} later", after=job).enqueue("later"))
    case.jobs.drain(queues=[case.queue])
    for trouble in case.troubles:
        raise trouble
    settle_all(case.jobs)
    found = case.jobs.get(waiting[0].id)
    assert found.status is (Status.PENDING if commits else Status.FAILED)


def settle_all(jobs: Rowcall) -> None:
    """A claim checks unsure edges: with many writers, it is what notices the completion."""
    assert jobs.dequeue("hand", queues=["nothing"]) is None
