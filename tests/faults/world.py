"""The world around a fault: a queue with jobs of every kind in every state, and what must be true of it afterwards."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from rowcall import Backoff, Chain, Context, ContextTask, Fail, Job, JobOutcome, Limit, PushOptions, Rowcall
from rowcall.app import queue_of
from rowcall.drivers import liveness_file
from rowcall.store.schema import TABLES
from rowcall.testing.fake_clock import FakeClock
from rowcall.testing.postgres_database import Databases, database_of
from tests.conformance.notes import Notes
from tests.crash.storm import checks, flow_checks, leftovers, terms
from tests.crash.storm.journal import install
from tests.crash.storm.records import records_in
from tests.faults.injection import die
from tests.observe.plain_sql import PlainDatabase, PlainPostgres, PlainSqlite

PUSH = PushOptions(secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
AGAIN = Backoff.constant(0)
NAME = "nightly"
"""Of a schedule, of a signal that a job waits for, and of an event."""
HOURS = 6
WITHOUT_TIMES = (
    *checks.CHECKS,
    flow_checks.jobs_start_after_their_blockers,
    flow_checks.steps_of_a_chain_run_in_order,
    flow_checks.a_failed_blocker_has_its_effect,
    flow_checks.keys_are_unique,
    flow_checks.limits_of_concurrency_hold,
)


def declare(jobs: Rowcall, notes: Notes) -> ContextTask[[], object]:
    """Declare a task for each feature, and return the one for chains. The checks of storms know their names."""

    def noted(job: Job, under: str = "") -> None:
        notes.write(f"begin{under}", job.id, job.lease)
        notes.write("end", job.id, job.lease)

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN, on=NAME)
    def plain(ctx: Context) -> object:
        noted(ctx.job)
        return ctx.job.id

    @jobs.task(max_attempts=1)
    def once(ctx: Context) -> object:
        noted(ctx.job)
        raise Fail("TEST:FAILED")

    @jobs.task(name=terms.FOLLOW_UP, max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN)
    def followed(ctx: Context, job: JobOutcome) -> None:
        noted(ctx.job)

    once.on_failure(cancelled=True)(followed)

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN, limit=terms.SPOTS)
    def spot(ctx: Context, spot: int) -> None:
        noted(ctx.job, f":spots:{spot}")

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN, limit=Limit("slow", rate=2, per=60))
    def slow(ctx: Context) -> None:
        noted(ctx.job)

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN, key=lambda name: name)
    def keyed(ctx: Context, name: str) -> None:
        noted(ctx.job)

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN, ordered_by="account")
    def in_order(ctx: Context, account: str) -> None:
        noted(ctx.job)

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN)
    def step(ctx: Context) -> object:
        noted(ctx.job)
        return ctx.job.id

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN)
    def join(ctx: Context, blockers: int) -> None:
        noted(ctx.job)
        if len(ctx.blockers) != blockers:
            notes.write("wrong", ctx.job.id, ctx.job.lease)

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN)
    def durable(ctx: Context) -> object:
        noted(ctx.job)
        first = ctx.step("first", lambda: 1)
        return [first, ctx.wait_for(NAME, timeout=3600)]

    @jobs.task(batch=3, max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN)
    def batch(ctx: Context, items: list[int]) -> list[int]:
        for job in ctx.jobs:
            noted(job)
        return items

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN)
    def deadly(ctx: Context) -> None:
        notes.write("begin", ctx.job.id, ctx.job.lease)
        if ctx.job.attempt == 1:
            die()
        notes.write("end", ctx.job.id, ctx.job.lease)

    return step


class App(NamedTuple):
    """A queue with all tasks, and the task of chains."""

    jobs: Rowcall
    step: ContextTask[[], object]


class Scene(NamedTuple):
    """The jobs that calls are about, by what they are; and what else calls need."""

    jobs: dict[str, Job]
    chain: Chain


class Template(Protocol):
    """A database with the world in it, which each case copies."""

    kind: str
    url: str
    side_files: Path
    """The liveness file of the dead worker, by which others know at once that it is dead."""
    scene: Scene

    def copy(self) -> str:
        """Return the URL of a copy."""

    def drop(self, url: str) -> None: ...


def build(url: str, notes: Notes) -> Scene:
    """Write the world into an empty database."""
    app = app_at(url, notes)
    with closing(app.jobs) as jobs, closing(plain_database(url)) as database:
        jobs.migrate()
        install(database)
        scene = _write(app, notes)
        _lose_a_worker(jobs, url, notes)
    return scene


def _write(app: App, notes: Notes) -> Scene:
    jobs, step = app
    made: dict[str, Job] = {"pending": jobs.enqueue("plain", tags=["storm"])}
    made["scheduled"] = jobs.enqueue("plain", delay=60)
    made["succeeded"] = jobs.complete(_claimed(jobs, "plain", notes)) or jobs.list(status="succeeded").jobs[0]
    jobs.fail(_claimed(jobs, "once", notes), "TEST:FAILED")
    made["failed"] = jobs.list(status="failed").jobs[0]
    made["claimed"] = _claimed(jobs, "plain", notes)
    made["keyed"] = jobs.enqueue("keyed", {"name": "a"})
    made["blocker"] = jobs.enqueue("plain")
    made["blocked"] = jobs.enqueue("join", {"blockers": 1}, after=made["blocker"])
    for number in range(3):
        jobs.enqueue("spot", {"spot": 0})
        jobs.enqueue("slow")
        jobs.enqueue("in_order", {"account": "a"})
        jobs.enqueue("batch", {"item": number})
    jobs.enqueue("once")
    durable = jobs.enqueue("durable", queue="steps")
    jobs.drain(queues=["steps"])
    made["waiting"] = jobs.get(durable)
    chain = jobs.start_chain([step.bind(), step.bind()])
    jobs.add_schedule(NAME, "plain", every=3600)
    for job in jobs.list(limit=100).jobs:
        notes.write("enqueued", job.id)
    return Scene(made, chain)


def _claimed(jobs: Rowcall, task: str, notes: Notes) -> Job:
    """Claim by hand, and note what a handler would note."""
    jobs.enqueue(task, queue="hand")
    (job,) = jobs.claim("hand:1:1", queues=["hand"])
    notes.write("begin", job.id, job.lease)
    notes.write("end", job.id, job.lease)
    return job


def _lose_a_worker(jobs: Rowcall, url: str, notes: Notes) -> None:
    """Leave what a killed worker leaves: its row, and the claim of the job that killed it."""
    jobs.enqueue("deadly", queue="lost")
    jobs.close()
    child = os.fork()
    if not child:
        app_at(url, notes).jobs.drain(queues=["lost"])
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def app_at(url: str, notes: Notes, clock: FakeClock | None = None) -> App:
    jobs = Rowcall(url, push=PUSH, clock=clock or FakeClock())
    return App(jobs, declare(jobs, notes))


def plain_database(url: str) -> PlainDatabase:
    return PlainSqlite(url) if url.startswith("sqlite") else PlainPostgres(url)


class SqliteTemplate:
    kind = "sqlite"

    def __init__(self, folder: Path, notes: Notes) -> None:
        self._folder = folder
        self._file = folder / "world.db"
        self._copies = 0
        self.url = f"sqlite:///{self._file}"
        self.scene = build(self.url, notes)
        self.side_files = _kept_files(self.url, folder)

    def copy(self) -> str:
        self._copies += 1
        folder = self._folder / str(self._copies)
        folder.mkdir()
        return f"sqlite:///{shutil.copyfile(self._file, folder / 'world.db')}"

    def drop(self, url: str) -> None:
        shutil.rmtree(Path(url.removeprefix("sqlite:///")).parent)


class PostgresTemplate:
    kind = "postgres"

    def __init__(self, databases: Databases, folder: Path, notes: Notes) -> None:
        self._databases = databases
        self.url = databases.create()
        self.scene = build(self.url, notes)
        self.side_files = _kept_files(self.url, folder)

    def copy(self) -> str:
        return self._databases.create(template=database_of(self.url))

    def drop(self, url: str) -> None:
        self._databases.drop(database_of(url))

    def close(self) -> None:
        self.drop(self.url)


# what must be true


UNCOUNTED = frozenset({"attempt", "history", "tally", "total"})
"""Counts may be folded at any time. A claim whose caller was cancelled is released, and recorded as an attempt."""
COUNTED = "rows of "
COLUMNS = "type, queue, status, priority, attempt, key, held, error_code"


def snapshot(database: PlainDatabase) -> Counter[object]:
    """Return what is in the database, without ids, times and random numbers: two of them can be compared.

    One statement reads all of it: a call that was cancelled may commit while this reads.
    """
    jobs = f"select {COLUMNS} from rowcall_jobs"
    counts = (
        f"select '{COUNTED}{table}', null, null, (select count(*) from rowcall_{table}), null, null, null, null"
        for table in TABLES.keys() - UNCOUNTED
    )
    rows: Counter[object] = Counter()
    for name, *values in database.ask(" union all ".join((jobs, *counts))):
        if name.startswith(COUNTED):
            rows[name.removeprefix(COUNTED)] = values[2]
        else:
            rows[(name, *values)] += 1
    return rows


def finish(url: str, notes: Notes, clock: FakeClock) -> Iterator[str]:
    """Let a healthy worker finish all jobs, and yield what is wrong then."""
    with closing(app_at(url, notes, clock).jobs) as jobs, closing(plain_database(url)) as database:
        for paused in jobs.paused():
            jobs.resume(**{paused.kind: paused.name})
        for schedule in jobs.schedules():
            jobs.pause_schedule(schedule.name)
        for _ in range(HOURS):
            clock.advance(3600)
            jobs.drain()
            if not database.ask(leftovers.UNFINISHED):
                break
        jobs.drain()  # also removes what the last one left behind: openings of a rate
        records = records_in(database, notes)
        for check in WITHOUT_TIMES:
            yield from (f"{check.__name__}: {problem}" for problem in check(records))
        yield from leftovers.rows_left(database)
        yield from leftovers.odd_timelines(jobs, jobs.list(limit=200).jobs)


@contextmanager
def copied(template: Template) -> Iterator[str]:
    url = template.copy()
    shutil.copytree(template.side_files, _side_folder(url), dirs_exist_ok=True)
    try:
        yield url
    finally:
        template.drop(url)


def _kept_files(url: str, folder: Path) -> Path:
    """Copy the liveness files of dead workers: databases of a server share a folder, and recovery removes them."""
    kept = folder / "side-files"
    kept.mkdir()
    for path in liveness_file.files_in(_side_folder(url)):
        if liveness_file.is_dead(path):
            shutil.copy(path, kept)
    return kept


def _side_folder(url: str) -> str:
    with closing(Rowcall(url)) as jobs:
        return queue_of(jobs).database.side_folder
