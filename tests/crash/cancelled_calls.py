"""A call of each public async method, and what must be true after it was cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any, NamedTuple

from rowcall import Alert, Alerts, Context, Encryption, Flow, Job, Limit, NoAnswer, PushOptions, Rowcall
from rowcall.app import queue_of
from rowcall.domain.push_signatures import callback_token
from rowcall.operations.effects import Read, Write
from rowcall.overview.alerting import LEAD_MS
from rowcall.overview.attention import thresholds
from rowcall.store.queries.counts import SETTINGS
from rowcall.store.queries.steps import SIGNALS
from rowcall.store.queries.workers import Registration
from rowcall.store.recovery.register import register, retire
from rowcall.testing.fake_clock import FakeClock
from tests.connected import Connection
from tests.descriptors import open_descriptors
from tests.support import eventually

POOL_SIZE = 2
PUSH = PushOptions(secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
_numbers = itertools.count(1)


class World:
    """A queue, and what can be seen of it from outside."""

    def __init__(self, url: str, observer: Connection | None) -> None:
        """`observer` is connected to the same server, where it is one."""
        self.url = url
        self._others: dict[str, Rowcall] = {}
        self.observer = observer
        self.threads = set(threading.enumerate())
        self.jobs = jobs = Rowcall(url, push=PUSH) if observer is None else Rowcall(url, push=PUSH, pool_size=POOL_SIZE)
        self.queue = ""
        self.was_cancelled = False
        self.files = open_descriptors()

        @jobs.task(on="asked")
        def send(to: str) -> object:
            return to

        @jobs.task(on="asked")
        def also_send(to: str) -> object:
            return to

        self.send = send
        self.begin()

    def begin(self) -> None:
        """With a queue that no other call has used."""
        self.queue = f"q{os.getpid()}_{next(_numbers)}"

    def enqueued(self, to: str = "a", **options: Any) -> Job:
        return self.send.using(queue=self.queue, **options).enqueue(to)

    def claimed(self) -> Job:
        self.enqueued()
        job = self.jobs.dequeue("by-hand", queues=[self.queue])
        assert job is not None
        return job

    @property
    def found(self) -> list[Job]:
        return self.jobs.list(queue=self.queue, limit=1000).jobs[::-1]

    @property
    def statuses(self) -> list[str]:
        return [str(job.status) for job in self.found]

    def check_locks(self) -> None:
        """Return whether no connection is in a transaction."""
        if self.observer is not None:
            ask = self.observer.execute
            eventually(lambda: not ask(_HELD).fetchall(), message="the end of all transactions")
        else:
            with closing(sqlite3.connect(queue_of(self.jobs).database.path, isolation_level=None, timeout=10)) as other:
                other.execute("begin immediate")
                other.execute("rollback")

    async def check_pool(self) -> None:
        """Every connection can be had: all of them at once, where several can write at once."""
        together = 1 if self.observer is None else POOL_SIZE
        barrier = asyncio.Barrier(together)

        async def in_a_block() -> None:
            async with self.jobs.transaction() as tx:
                await tx.aenqueue("send", {"to": "burst"}, queue="burst")
                await barrier.wait()

        await asyncio.gather(*(in_a_block() for _ in range(together)))
        await asyncio.gather(*(self.jobs.alist(queue=self.queue) for _ in range(2 * POOL_SIZE)))

    def check_worker(self) -> None:
        """Nothing is left of any worker."""
        assert self.jobs.workers() == []
        assert [name for name in open_descriptors() - self.files if "worker-" in name] == []
        names = {thread.name for thread in threading.enumerate()}
        assert not names & {
            "rowcall-loop",
            "rowcall-heartbeat",
            "rowcall-recovery",
            "rowcall-pruning",
            "rowcall-cancel-requests",
            "rowcall-vacuum",
        }, names

    def encrypted(self, keys: str) -> Rowcall:
        """A queue on separate tables, because `rekey` encrypts all rows. Each letter is a key."""
        if keys not in self._others:
            encrypt = Encryption(keys=[key * 43 for key in keys])
            self._others[keys] = Rowcall(self.url, table_prefix="secret_", blob_threshold=1024, encrypt=encrypt)
        return self._others[keys]

    def watched(self) -> Rowcall:
        """A queue on separate tables, with a job that no worker claims, and a task that gets an alert of it."""
        if "watched" not in self._others:
            alerts, clock = Alerts(task="page", after=0, period=0), FakeClock()
            jobs = self._others["watched"] = Rowcall(self.url, table_prefix="watched_", alerts=alerts, clock=clock)
            jobs.task(page)
            jobs.enqueue("send")
            clock.advance(thresholds.UNSERVED_SECONDS)
        return self._others["watched"]

    def close(self) -> None:
        for jobs in (self.jobs, *self._others.values()):
            jobs.close()
        eventually(lambda: not self._new_threads(), message=f"the end of all threads ({self._new_threads()})")

    def _new_threads(self) -> list[str]:
        return [thread.name for thread in set(threading.enumerate()) - self.threads]


_HELD = """
select pid::text, state, query from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
union all
select pid::text, locktype, mode from pg_locks
where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())
"""


def page(alert: Alert) -> None: ...


class Call(NamedTuple):
    """A call that is about to be made, and what must be true of the database after it was cancelled."""

    made: Awaitable[object]
    check: Callable[[], None]


Prepare = Callable[[World], Call]
CASES: dict[str, tuple[tuple[str, ...], Prepare]] = {}
"""The cases by name, and the methods that each is about."""
READING: list[str] = []
"""The names of the cases that change nothing."""


def case(*methods: str) -> Callable[[Prepare], Prepare]:
    def note(prepare: Prepare) -> Prepare:
        CASES[prepare.__name__] = methods, prepare
        return prepare

    return note


def reading(method: str, *arguments: Callable[[World], object]) -> None:
    """A method that changes nothing."""

    def prepare(world: World) -> Call:
        job = world.enqueued()
        given = [argument(world) for argument in arguments]

        def check() -> None:
            assert job in world.found

        return Call(getattr(world.jobs, method)(*given), check)

    CASES[method] = (f"Rowcall.{method}",), prepare
    READING.append(method)


def job_id(world: World) -> int:
    return world.found[0].id


def chain_id(world: World) -> int:
    return world.jobs.start_chain([world.send.using(queue=world.queue).bind("first")]).id


for _name in "aget", "aattempts", "alog", "atimeline", "ablockers", "adependents", "awhy":
    reading(_name, job_id)
for _name in (
    *(
        "aactivity",
        "aattention",
        "alist",
        "alist_chains",
        "apaused",
        "aretention",
        "aretries",
        "aschedules",
        "astats",
        "astuck",
        "atop_errors",
    ),
    "afailing",
    *("alimits", "alimit_changes"),
    *("aworkers", "amigrate", "arecount", "avacuum", "aprune", "__aenter__"),
):
    reading(_name)
reading("achain", chain_id)
reading("__aexit__", lambda world: None, lambda world: None, lambda world: None)


# enqueueing


def all_or_nothing(world: World, count: int) -> Callable[[], None]:
    def check() -> None:
        assert len(world.found) in (0, count), world.found
        assert all(str(job.status) in ("pending", "blocked") for job in world.found)
        blocked = [job for job in world.found if job.status == "blocked"]
        assert all(world.jobs.blockers(job.id) for job in blocked)

    return check


@case("Rowcall.aenqueue")
def by_name(world: World) -> Call:
    return Call(world.jobs.aenqueue("send", {"to": "a"}, queue=world.queue), all_or_nothing(world, 1))


@case("Rowcall.apublish")
def published(world: World) -> Call:
    return Call(world.jobs.apublish("asked", {"to": "a"}, queue=world.queue), all_or_nothing(world, 2))


@case("Enqueuer.aenqueue")
def plain(world: World) -> Call:
    return Call(world.send.using(queue=world.queue).aenqueue("a"), all_or_nothing(world, 1))


@case("Enqueuer.aenqueue")
def large(world: World) -> Call:
    return Call(world.send.using(queue=world.queue).aenqueue("a" * 1_000_000), all_or_nothing(world, 1))


@case("Enqueuer.aenqueue")
def after_and_key(world: World) -> Call:
    blocker = world.send.using(queue="blockers").enqueue("before")
    return Call(
        world.send.using(queue=world.queue, after=blocker, key=world.queue).aenqueue("a"), all_or_nothing(world, 1)
    )


@case("Enqueuer.aenqueue_many")
def many(world: World) -> Call:
    rows = [{"to": "a"}, {"to": "b"}, {"to": "c"}]
    return Call(world.send.using(queue=world.queue).aenqueue_many(rows), all_or_nothing(world, 3))


def flow_of(world: World) -> Flow:
    flow, part = world.jobs.flow(), world.send.using(queue=world.queue)
    root = flow.add(part.bind("root"))
    flow.add_chain([part.bind("first"), part.bind("last")], after=root)
    return flow


@case("Flow.aenqueue")
def flow(world: World) -> Call:
    return Call(flow_of(world).aenqueue(), all_or_nothing(world, 3))


@case("Flow.__aenter__", "Flow.__aexit__")
def flow_block(world: World) -> Call:
    async def block() -> None:
        async with flow_of(world):
            pass

    return Call(block(), all_or_nothing(world, 3))


@case("Rowcall.astart_chain")
def chain(world: World) -> Call:
    part = world.send.using(queue=world.queue)
    return Call(world.jobs.astart_chain([part.bind("a"), part.bind("b")]), all_or_nothing(world, 2))


# batches


@case("Rowcall.abatch")
def batch(world: World) -> Call:
    name = world.queue

    def check() -> None:
        assert [one.total for one in world.jobs.list_batches().batches if one.name == name] in ([], [0])

    return Call(world.jobs.abatch(name), check)


@case("Batch.aadd")
def batch_add(world: World) -> Call:
    made, part = world.jobs.batch("group"), world.send.using(queue=world.queue)

    def check() -> None:
        all_or_nothing(world, 2)()
        assert made.counts().total == len(world.found)

    return Call(made.aadd(part.bind("a"), part.bind("b")), check)


@case("Batch.aseal")
def batch_seal(world: World) -> Call:
    made = world.jobs.batch("group", on_finish=world.send.using(queue=world.queue).bind("a"))

    def check() -> None:
        assert len(world.found) == (made.counts().status == "finished")

    return Call(made.aseal(), check)


@case("Batch.acancel", "Batch.aretry")
def batch_steered(world: World) -> Call:
    made = world.jobs.batch("group")
    made.add(world.send.using(queue=world.queue).bind("a"))

    async def steer() -> None:
        await made.acancel()
        await made.aretry()

    def check() -> None:
        info = made.counts()
        assert world.statuses == ["cancelled" if info.cancelled else "pending"]
        assert info.total == 1

    return Call(steer(), check)


@case("Batch.acounts", "Batch.await_", "Batch.adelete", "Rowcall.aget_batch", "Rowcall.alist_batches")
def batch_read(world: World) -> Call:
    made = world.jobs.batch("group")
    made.seal()

    async def read() -> None:
        found = await world.jobs.aget_batch(made.id)
        await found.acounts()
        await found.await_(10)
        await world.jobs.alist_batches()
        await found.adelete()

    def check() -> None:
        assert world.found == []

    return Call(read(), check)


# transactions


@case("Transaction.__aenter__", "Transaction.__aexit__", "Transaction.aenqueue")
def block(world: World) -> Call:
    async def in_a_block() -> None:
        async with world.jobs.transaction() as tx:
            await tx.aenqueue("send", {"to": "a"}, queue=world.queue)
            async with world.jobs.transaction():
                await world.send.using(queue=world.queue).aenqueue_many([{"to": "b"}, {"to": "c"}])

    return Call(in_a_block(), all_or_nothing(world, 3))


@case("Transaction.__aexit__")
def block_undone(world: World) -> Call:
    async def in_a_block() -> None:
        with contextlib.suppress(LookupError):
            async with world.jobs.transaction():
                await world.send.using(queue=world.queue).aenqueue("a")
                raise LookupError

    return Call(in_a_block(), all_or_nothing(world, 0))


@case("Transaction.aenqueue")
def block_that_continues(world: World) -> Call:
    """What was cancelled inside is all there or not at all, if the block is committed nevertheless."""

    async def in_a_block() -> None:
        async with world.jobs.transaction() as tx:
            tx.enqueue("send", {"to": "before"}, queue=f"{world.queue}_before")
            blocker = await tx.aenqueue("send", {"to": "blocker"}, queue="blockers")
            cancelled = None
            try:
                await tx.aenqueue("send", {"to": "a"}, queue=world.queue, after=blocker, key=world.queue)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    check = all_or_nothing(world, 1)
    return Call(in_a_block(), check)


# by hand


@case("Rowcall.adequeue")
def dequeue(world: World) -> Call:
    world.enqueued()
    return Call(world.jobs.adequeue("by-hand", queues=[world.queue]), lambda: nobodys(world))


@case("Rowcall.astack")
def stack(world: World) -> Call:
    """Its worker never answers."""
    queue = queue_of(world.jobs)
    silent = Registration(
        name="silent", host="", pid=1, queues="*", concurrency=1, version="", lease_ms=1, lock_path=None
    )
    queue.run(Write(register, queue.dialect, silent))
    world.enqueued()
    job = world.jobs.dequeue("silent", queues=[world.queue])
    assert job is not None

    async def ask() -> None:
        with contextlib.suppress(NoAnswer):
            await world.jobs.astack(job, timeout=0.001)

    def check() -> None:
        queue.run(Write(retire, queue.dialect, "silent"))
        settings = queue.run(Read(queue.dialect.ask(SETTINGS)))
        assert [name for name, _ in settings if name.startswith("stack:")] == []

    return Call(ask(), check)


@case("Rowcall.asteps")
def steps(world: World) -> Call:
    return Call(world.jobs.asteps(world.enqueued()), lambda: None)


@case("Rowcall.aopen_waits")
def open_waits(world: World) -> Call:
    return Call(world.jobs.aopen_waits(), lambda: None)


@case("Rowcall.asignal")
def signal(world: World) -> Call:
    job = world.enqueued()

    def check() -> None:
        sent = [event.event for event in world.jobs.timeline(job)].count("SIGNALLED")
        queue = queue_of(world.jobs)
        assert sent == len(queue.run(Read(queue.dialect.ask(SIGNALS, [job.id])))) <= 1

    return Call(world.jobs.asignal(job, "go", "x" * 1_000_000), check)


@case("Rowcall.aclaim")
def claim(world: World) -> Call:
    for to in "abc":
        world.enqueued(to)
    return Call(world.jobs.aclaim("by-hand", limit=5, queues=[world.queue]), lambda: nobodys(world))


@case("Rowcall.aclaim")
def claim_large(world: World) -> Call:
    world.enqueued("a" * 1_000_000)
    return Call(world.jobs.aclaim("by-hand", limit=5, queues=[world.queue]), lambda: nobodys(world))


def nobodys(world: World) -> None:
    """What was claimed for a caller who was cancelled is free again, and has not used up an attempt."""
    expected = ("pending", 0) if world.was_cancelled else ("running", 1)
    assert {(str(job.status), job.attempt) for job in world.found} == {expected}


def settling(method: str, *arguments: object, ends: str) -> None:
    def prepare(world: World) -> Call:
        job = world.claimed()

        def check() -> None:
            assert world.statuses in (["running"], [ends])

        return Call(getattr(world.jobs, method)(job, *arguments), check)

    CASES[method] = (f"Rowcall.{method}",), prepare


settling("acomplete", {"ok": True}, ends="succeeded")
settling("afail", "TIMEOUT:UPSTREAM", "30 s", ends="scheduled")
settling("aheartbeat", ends="running")
settling("arelease", ends="pending")


@case("Rowcall.apushed_job")
def pushed_job(world: World) -> Call:
    job = world.claimed()
    token = callback_token(PUSH.secrets, job.id, job.lease, job.holder)

    def check() -> None:
        assert world.statuses == ["running"]

    return Call(world.jobs.apushed_job(token), check)


# steering


def steering(method: str, *after: str, **arguments: object) -> None:
    def prepare(world: World) -> Call:
        job = world.enqueued()

        def check() -> None:
            assert world.statuses in ([], ["pending"], *([status] for status in after))
            assert world.found or method == "adelete"

        return Call(getattr(world.jobs, method)(job.id, **arguments), check)

    CASES[method] = (f"Rowcall.{method}",), prepare


steering("acancel", "cancelled")
steering("adelete")
steering("areschedule", "scheduled", delay=60)
steering("aset_priority", priority=7)
steering("aedit", arguments={"to": "b"})


@case("Rowcall.aclear")
def clear_all(world: World) -> Call:
    for to in "ab":
        world.enqueued(to)
    return Call(world.jobs.aclear(), all_or_nothing(world, 2))


@case("Rowcall.acancel")
def cancel_by_filter(world: World) -> Call:
    for to in "abc":
        world.enqueued(to)

    def check() -> None:
        assert set(world.statuses) <= {"pending", "cancelled"}

    return Call(world.jobs.acancel(status="pending", queue=world.queue), check)


@case("Rowcall.aretry")
def retry(world: World) -> Call:
    job = world.enqueued()
    world.jobs.cancel(job.id)

    def check() -> None:
        assert world.statuses in (["cancelled"], ["pending"])

    return Call(world.jobs.aretry(job.id), check)


def steering_a_chain(method: str, *after: list[str], **arguments: object) -> None:
    def prepare(world: World) -> Call:
        part = world.send.using(queue=world.queue)
        chain = world.jobs.start_chain([part.bind("a"), part.bind("b")])

        def check() -> None:
            assert world.statuses in (["pending", "blocked"], *after)

        return Call(getattr(world.jobs, method)(chain.id, **arguments), check)

    CASES[method] = (f"Rowcall.{method}",), prepare


steering_a_chain("acancel_chain", ["cancelled", "cancelled"])
steering_a_chain("acomplete_chain", ["cancelled", "succeeded"], ["succeeded", "succeeded"], result=1)
steering_a_chain("adelete_chain", [])


@case("Rowcall.awatch")
def watch(world: World) -> Call:
    jobs = world.watched()
    jobs.clear()
    jobs.enqueue("send")
    clock = queue_of(jobs).clock
    assert isinstance(clock, FakeClock)
    clock.advance(thresholds.UNSERVED_SECONDS)

    def check() -> None:
        paged = len(jobs.list(type="page").jobs)
        assert paged == 1 or (paged == 0 and world.was_cancelled)
        clock.advance(2 * LEAD_MS / 1000)
        jobs.watch()
        assert len(jobs.list(type="page").jobs) == 1

    return Call(jobs.awatch(), check)


@case("Rowcall.apause")
def pause(world: World) -> Call:
    def check() -> None:
        world.jobs.resume(world.queue)

    return Call(world.jobs.apause(world.queue), check)


@case("Rowcall.aresume")
def resume(world: World) -> Call:
    world.jobs.pause(world.queue)

    def check() -> None:
        world.jobs.resume(world.queue)

    return Call(world.jobs.aresume(world.queue), check)


@case("Rowcall.aset_limit")
def set_limit(world: World) -> Call:
    with_limit(world)

    def check() -> None:
        is_set = world.jobs.reset_limit(world.queue)
        assert len([one for one in world.jobs.limit_changes() if one.limit == world.queue]) == 2 * is_set

    return Call(world.jobs.aset_limit(world.queue, concurrency=2), check)


@case("Rowcall.areset_limit")
def reset_limit(world: World) -> Call:
    with_limit(world)
    world.jobs.set_limit(world.queue, concurrency=2)

    def check() -> None:
        world.jobs.reset_limit(world.queue)
        events = [one.event for one in world.jobs.limit_changes() if one.limit == world.queue]
        assert events == ["LIMIT_RESET", "LIMIT_SET"]

    return Call(world.jobs.areset_limit(world.queue), check)


def with_limit(world: World) -> None:
    """Enqueue a job under a limit with the name of the queue: then the limit is known."""
    world.jobs.enqueue("send", {"to": "a"}, queue=world.queue, limit=Limit(world.queue, concurrency=1))


def of_schedule(method: str, **arguments: object) -> None:
    def prepare(world: World) -> Call:
        name = world.queue
        if method != "aadd_schedule":
            world.jobs.add_schedule(name, "send", {"to": "a"}, every=3600, queue=name)
        else:
            arguments.update(task="send", arguments={"to": "a"}, every=3600, queue=name)

        def check() -> None:
            there = name in [schedule.name for schedule in world.jobs.schedules()]
            assert there or method in ("aadd_schedule", "aremove_schedule")
            assert len(world.found) <= (method == "arun_schedule_now")
            if there:
                world.jobs.remove_schedule(name)

        return Call(getattr(world.jobs, method)(name, **arguments), check)

    CASES[method] = (f"Rowcall.{method}",), prepare


for _name in "aadd_schedule", "apause_schedule", "aresume_schedule", "aremove_schedule", "arun_schedule_now":
    of_schedule(_name)


@case("Rowcall.arekey")
def rekey(world: World) -> Call:
    before, jobs = world.encrypted("o"), world.encrypted("no")
    before.clear()
    sent = [before.enqueue("send", {"to": to}) for to in ("a", "b" * 2_000)]
    before.fail(before.claim("by-hand")[0], "TEST:CODE", "secret")
    before.signal(sent[1], "go", "secret")

    def check() -> None:
        assert [jobs.get(job).payload for job in sent] == [job.payload for job in sent]
        assert jobs.get(sent[0]).error_detail == "secret"
        jobs.rekey()
        assert jobs.rekey().rekeyed == 0

    return Call(jobs.arekey(), check)


# results, workers, handlers


@case("Rowcall.aresult")
def result(world: World) -> Call:
    job = world.claimed()
    threading.Timer(0.02, world.jobs.complete, (job, "done")).start()

    def check() -> None:
        assert world.jobs.result(job, timeout=10) == "done"

    return Call(world.jobs.aresult(job), check)


@case("Rowcall.adrain")
def drain(world: World) -> Call:
    for to in "abc":
        world.enqueued(to)

    def check() -> None:
        world.check_worker()
        assert set(world.statuses) <= {"pending", "succeeded"}
        assert all(job.attempt == (job.status == "succeeded") for job in world.found)

    return Call(world.jobs.adrain(queues=[world.queue]), check)


@case("Worker.__aenter__", "Worker.__aexit__")
def worker(world: World) -> Call:
    world.enqueued()

    async def enter_and_leave() -> None:
        async with world.jobs.worker(queues=[world.queue]):
            await asyncio.sleep(0)

    def check() -> None:
        world.check_worker()
        assert [(job.status, job.attempt) for job in world.found] in ([("pending", 0)], [("succeeded", 1)])

    return Call(enter_and_leave(), check)


def of_context(method: str) -> None:
    def prepare(world: World) -> Call:
        attempt = ContextStub(world)

        def check() -> None:
            assert attempt.asked <= 1

        return Call(getattr(Context(attempt), method)(), check)  # type: ignore[arg-type]

    CASES[f"ctx.{method}"] = (f"Context.{method}",), prepare


class ContextStub:
    """The worker's side of a context, whose reads are the queue's."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.asked = 0

    def previous(self) -> object:
        self.asked += 1
        return self._world.jobs.list(queue=self._world.queue)

    def blockers(self) -> list[object]:
        return [self.previous()]


of_context("aprevious")
of_context("ablockers")
