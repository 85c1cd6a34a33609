"""The world around a fault: a queue with jobs of every kind in every state, and what must be true of it afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import psycopg
import pymysql
from pymysql.constants import CLIENT

from rowcall import (
    Backoff,
    Batch,
    Breaker,
    Chain,
    Context,
    ContextTask,
    Encryption,
    Fail,
    Job,
    JobCancelled,
    JobFailed,
    JobOutcome,
    Limit,
    PushOptions,
    Rowcall,
)
from rowcall.app import queue_of
from rowcall.declare.option_table import Options
from rowcall.domain.config import configure
from rowcall.drivers import liveness_file
from rowcall.drivers.mysql.connection import options_of
from rowcall.operations.enqueue import bind_by_name
from rowcall.queue import Backend
from rowcall.store.schema import TABLES
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from rowcall.testing.mysql import MysqlServer
from rowcall.testing.postgres_database import Databases, database_of
from rowcall.worker.upkeep.recovery import Recovery
from rowcall.worker.worker import Worker
from tests.conformance.notes import Notes
from tests.crash.storm import checks, flow_checks, leftovers, terms
from tests.crash.storm.journal import Change, install
from tests.crash.storm.records import records_in
from tests.faults.handlers import LastSteps, declare_handlers
from tests.faults.injection import SlowPostgresCommit, die
from tests.kept_connections import KeptConnections
from tests.observe import plain_sql
from tests.observe.plain_sql import PlainDatabase, PlainMysql, PlainPostgres

PUSH = PushOptions(secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
AGAIN = Backoff.constant(0)
NAME = "nightly"
"""Of a schedule, of a signal that a job waits for, and of an event."""
QUESTION = "answer"
"""What a job asks people."""
FUSED = Limit("fused", concurrency=1, breaker=Breaker(failures=0.5, of=1, pause=30))
HOURS = 8
PATIENCE_SECONDS, REPORT_SECONDS = 20.0, 0.05
WITHOUT_TIMES = (
    *checks.CHECKS,
    flow_checks.jobs_start_after_their_blockers,
    flow_checks.steps_of_a_chain_run_in_order,
    flow_checks.a_failed_blocker_has_its_effect,
    flow_checks.keys_are_unique,
    flow_checks.limits_of_concurrency_hold,
)


class Gate:
    """Keeps the handler of `busy` from ending, where a call needs that."""

    def __init__(self) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()
        self.may_end.set()


class Place(Notes):
    """Where handlers run now: they write to the notes of the case."""

    def __init__(self) -> None:
        super().__init__("")
        self.gate = Gate()
        self.url = ""

    def enter(self, url: str, notes: Notes) -> None:
        self.url, self._path = url, notes._path
        self.gate.began.clear()
        self.gate.may_end.set()


class Declared(NamedTuple):
    """A queue with all tasks, and the tasks of chains. Its database is another one for each case."""

    jobs: Rowcall
    place: Place
    step: ContextTask[[], object]
    last_steps: LastSteps


@cache
def declared() -> Declared:
    """Declare the tasks, once for all cases: that takes as long as a case."""
    jobs, place = Rowcall("sqlite:///never-opened.db", push=PUSH), Place()
    return Declared(jobs, place, *declare(jobs, place, place.gate))


def declare(jobs: Rowcall, notes: Place, gate: Gate) -> tuple[ContextTask[[], object], LastSteps]:
    """Declare a task for each feature, and return those for chains. The checks of storms know their names."""

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

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN, limit=FUSED)
    def fused(ctx: Context) -> None:
        noted(ctx.job)
        ctx.log.info("tries")
        if ctx.job.attempt == 1:
            raise ConnectionError("down")

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

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN)
    def child(ctx: Context) -> object:
        noted(ctx.job)
        return 1

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN)
    def parent(ctx: Context) -> object:
        noted(ctx.job)
        with suppress(JobFailed, JobCancelled):
            ctx.call(child.using(delay=60))
        return 2

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN)
    def asking(ctx: Context) -> object:
        noted(ctx.job)
        return ctx.wait_for(QUESTION, prompt="Continue?", choices=["yes", "no"], timeout=3600)

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

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=AGAIN)
    def busy(ctx: Context) -> None:
        notes.write("begin", ctx.job.id, ctx.job.lease)
        gate.began.set()
        ctx.progress(0.5, "half")
        while not gate.may_end.wait(REPORT_SECONDS):
            ctx.progress(0.5, "half")
            ctx.stream("half")
        notes.write("end", ctx.job.id, ctx.job.lease)

    return step, declare_handlers(jobs, noted, lambda: notes.url)


class App(NamedTuple):
    """A queue with all tasks, and the tasks of chains."""

    jobs: Rowcall
    step: ContextTask[[], object]
    last_steps: LastSteps
    gate: Gate
    url: str
    workers: list[Worker]
    """Workers that run next to the call."""
    others: frozenset[threading.Thread]
    """Threads that were there before: other tests leave handlers that never end."""

    def start_worker(self, queue: str) -> None:
        worker = self.jobs.worker(queues=[queue])
        worker.start()
        self.workers.append(worker)

    def close(self) -> None:
        self.gate.may_end.set()
        for worker in self.workers:
            worker.stop()
        self.jobs.close()
        for thread in self.threads():  # a call that was cancelled may still write
            thread.join(PATIENCE_SECONDS)

    def threads(self) -> list[threading.Thread]:
        """Return the threads that it has started, and that have not ended."""
        return [one for one in {*threading.enumerate()} - self.others if one.name.startswith("rowcall")]


class Scene(NamedTuple):
    """The jobs that calls are about, by what they are; and what else calls need."""

    jobs: dict[str, Job]
    chain: Chain
    batch: int


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
    jobs = app.jobs
    with closing(app), closing(plain_database(url)) as database:
        jobs.migrate()
        install(database)
        scene = _write(app, notes)
        _lose_a_worker(jobs, url, notes)
    return scene


def _write(app: App, notes: Notes) -> Scene:
    jobs, step = app.jobs, app.step
    made: dict[str, Job] = {"pending": jobs.enqueue("plain", tags=["storm"])}
    made["scheduled"] = jobs.enqueue("plain", delay=60)
    made["succeeded"] = jobs.complete(_claimed(jobs, "plain", notes)) or jobs.list(status="succeeded").jobs[0]
    group = jobs.batch(NAME, on_finish="step")
    jobs.fail(_claimed(jobs, "once", notes, group), "TEST:FAILED")
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
        jobs.enqueue("fused")
    jobs.enqueue("once")
    waiting = {"durable": "waiting", "parent": "parent", "asking": "asking"}
    steps = {name: jobs.enqueue(task, queue="steps") for task, name in waiting.items()}
    jobs.drain(queues=["steps"])
    made |= {name: jobs.get(job) for name, job in steps.items()}
    (made["child"],) = jobs.list(parent=made["parent"]).jobs
    chain = jobs.start_chain([step.bind(), step.bind()])
    jobs.complete(_claimed(jobs, "plain", notes, group))
    group.add(step.bind())
    jobs.add_schedule(NAME, "plain", every=3600)
    jobs.set_limit("slow", rate=2, per=60)
    for job in jobs.list(limit=100).jobs:
        notes.write("enqueued", job.id)
    return Scene(made, chain, group.id)


def _claimed(jobs: Rowcall, task: str, notes: Notes, batch: Batch | None = None) -> Job:
    """Claim by hand, and note what a handler would note. The job is in the batch, if there is one."""
    call = bind_by_name(queue_of(jobs), task, {}, Options(queue="hand"))
    if batch is None:
        jobs.enqueue(task, queue="hand")
    else:
        batch.add(call)
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


def new_clock() -> FakeClock:
    """Return a clock whose times are not 0, which means that a handler has not started."""
    return FakeClock(monotonic=1.0)


def app_at(url: str, notes: Notes, clock: FakeClock | None = None) -> App:
    others = frozenset(threading.enumerate())
    jobs, place, step, last_steps = declared()
    place.enter(url, notes)
    queue_of(jobs).own_backend = queue_of(jobs).backend = Backend(
        lambda: configure(url, push=PUSH), clock or new_clock()
    )
    return App(jobs, step, last_steps, place.gate, url, [], others)


def mysql_database(url: str) -> str:
    return str(options_of(url)["database"])


def plain_database(url: str) -> PlainDatabase:
    return _looks.get(url) or plain_sql.plain_database(url)


class Look(PlainPostgres):
    """A connection that is kept, and that closes with the template: the server needs long to start one."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        _looks[url] = self

    @property
    def pid(self) -> int:
        return self._connection.info.backend_pid

    def close(self) -> None:
        """Leave it open for the next case."""

    def end(self) -> None:
        del _looks[self.url]
        super().close()


_looks: dict[str, Look] = {}


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


COPIES_PER_VACUUM = 50
"""Each copy leaves as many dead rows as the world has: after a thousand, all statements would be slow."""
MORE = "more"
"""The prefix, and on a server the schema, of tables next to the world."""
_EMPTY_SCHEMA = f"drop schema if exists {MORE} cascade; create schema {MORE}"


class PostgresTemplate:
    """One database, whose rows are put back for each case: that takes a tenth of the time of a new database."""

    kind = "postgres"

    def __init__(self, databases: Databases, folder: Path, notes: Notes) -> None:
        self._databases = databases
        self._copies = 0
        self.url = databases.create()
        self.scene = build(self.url, notes)
        self.side_files = _kept_files(self.url, folder)
        self._look, self._kept = Look(self.url), KeptConnections()
        self._kept.keep(self.url)
        self._connection = psycopg.connect(self.url, autocommit=True)
        tables = self._connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        sequences = self._connection.execute("select sequencename from pg_sequences where schemaname = 'public'")
        self._tables = sorted(str(row[0]) for row in tables)
        self._sequences = sorted(str(row[0]) for row in sequences.fetchall())
        SlowPostgresCommit.install(self._connection, (name for name in self._tables if name.startswith("rowcall_")))
        self._connection.execute("create schema world")
        for name in (*self._tables, *self._sequences):
            self._connection.execute(f"create table world.{name} as table public.{name}")
        rows = (
            f"delete from public.{name}; insert into public.{name} overriding system value select * from world.{name}"
            for name in self._tables
        )
        numbers = (
            f"select setval('public.{name}', last_value, is_called) from world.{name}" for name in self._sequences
        )
        # without triggers and foreign keys; in one round trip
        self._reset = ";".join(
            [_EMPTY_SCHEMA, "begin; set local session_replication_role = replica", *rows, *numbers, "commit"]
        )

    def copy(self) -> str:
        self._disconnect_others()
        if self._copies % COPIES_PER_VACUUM == 0:
            self._connection.execute("vacuum")
        self._copies += 1
        self._connection.execute(self._reset)
        return self.url

    def _disconnect_others(self) -> None:
        """End what clients that were cut off, or killed, have left on the server."""
        own = ", ".join(map(str, ["pg_backend_pid()", self._look.pid, *self._kept.pids(self.url)]))
        others = f"from pg_stat_activity where datname = current_database() and pid not in ({own})"
        self._connection.execute(f"select pg_terminate_backend(pid) {others}")
        eventually(
            lambda: not self._connection.execute(f"select 1 {others}").fetchall(),
            message="the end of all other connections",
        )

    def drop(self, url: str) -> None:
        """Leave it: the next copy is made in its place."""

    def close(self) -> None:
        self._kept.close()
        self._look.end()
        self._connection.close()
        self._databases.drop(database_of(self.url))


class MysqlTemplate:
    """One database, whose rows are put back for each case, on a server that nothing else uses in between.

    Triggers cannot be switched off. So the jobs are put back first, then all that their triggers have written to, and
    at last what the triggers of the journal have written to.
    """

    kind = "mysql"

    def __init__(self, server: MysqlServer, folder: Path, notes: Notes) -> None:
        self.url = server.create_database()
        self._server, self._name = server, mysql_database(self.url)
        self.scene = build(self.url, notes)
        self.side_files = _kept_files(self.url, folder)
        self._kept_url = server.create_database()
        self._connection = pymysql.connect(
            **options_of(self._kept_url), autocommit=True, client_flag=CLIENT.MULTI_STATEMENTS
        )
        self._run("set foreign_key_checks = 0; set sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
        self._run("/*!80000 set information_schema_stats_expiry = 0 */")
        names = [name for name in self._tables("%") if name != "rowcall_mutex"]
        names.sort(key=lambda name: (name != "rowcall_job", name.startswith("storm_")))
        self._run("; ".join(f"create table {name} as select * from {self._name}.{name}" for name in names))
        self._reset = "; ".join(
            f"delete from {self._name}.{name}; insert into {self._name}.{name} select * from {name}" for name in names
        )
        self._numbers = self._next_numbers()
        assert self._contents() == self._contents(), "the rows are not put back as they were"

    def copy(self) -> str:
        self._disconnect_others()
        if left := [*self._tables(f"{MORE}\\_%"), *self._tables(f"{MORE}\\_%", "VIEW")]:
            names = ", ".join(f"{self._name}.{name}" for name in left)
            self._run(f"drop view if exists {names}; drop table if exists {names}")
        self._run(self._reset)
        found = self._next_numbers()
        changed = [name for name, number in self._numbers.items() if found[name] != number]
        if changed:
            alter = f"alter table {self._name}.{{}} auto_increment = {{}}"
            self._run("; ".join(alter.format(name, self._numbers[name]) for name in changed))
        return self.url

    def _contents(self) -> bytes:
        """Return a digest of what is there, and then put the rows back."""
        with closing(PlainMysql(self.url)) as database:
            found = contents(database)
        self.copy()
        return found

    def _disconnect_others(self) -> None:
        """End what clients that were cut off, or killed, have left on the server."""
        self._server.terminate_connections(self._name)
        others = f"select 1 from information_schema.processlist where db = '{self._name}'"
        eventually(lambda: not self._run(others), message="the end of all other connections")

    def _tables(self, like: str, kind: str = "BASE TABLE") -> list[str]:
        named = f"select table_name from information_schema.tables where table_schema = '{self._name}'"
        return [str(name) for (name,) in self._run(f"{named} and table_type = '{kind}' and table_name like '{like}'")]

    def _next_numbers(self) -> dict[str, int]:
        numbered = "select table_name, auto_increment from information_schema.tables where auto_increment is not null"
        return dict(self._run(f"{numbered} and table_schema = '{self._name}'"))

    def _run(self, statements: str) -> list[tuple[Any, ...]]:
        """Run them in one round trip, and return the rows of the first."""
        with self._connection.cursor() as cursor:
            cursor.execute(statements)
            rows = list(cursor.fetchall())
            while cursor.nextset():
                pass
            return rows

    def drop(self, url: str) -> None:
        """Leave it: the next copy is made in its place."""

    def close(self) -> None:
        self._connection.close()
        for url in (self.url, self._kept_url):
            self._server.drop_database(mysql_database(url))


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


def contents(database: PlainDatabase) -> bytes:
    """Return a digest of all rows of all tables."""
    kind = database.url.partition(":")[0]
    names = [str(name) for (name,) in database.ask(_TABLES[kind])]
    if kind != "postgresql":
        rows = [
            (name, row) for name in names for row in database.ask(_ALL_OF.get((kind, name), f"select * from {name}"))
        ]
    else:
        rows = database.ask(
            " union all ".join(_JOURNAL if name == "public.storm_change" else _ROWS.format(name) for name in names)
        )
    return blake2b(repr(sorted(map(repr, rows))).encode(), digest_size=16).digest()


_ALL_OF = {
    ("mysql", "rowcall_mutex"): "select count(*) from rowcall_mutex",
    (
        "mysql",
        "storm_change",
    ): f"select row_number() over (order by seq), {', '.join(Change._fields[1:])} from storm_change",
}
_TABLES = {
    "mysql": "select table_name from information_schema.tables where table_schema = database()"
    " and table_type = 'BASE TABLE' order by 1",
    "sqlite": "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by 1",
    "postgresql": f"""
        select schemaname || '.' || tablename from pg_tables where schemaname in ('public', '{MORE}') order by 1""",
}
_ROWS = "select '{0}', one::text from {0} as one"
_JOURNAL = """
    select 'storm_change ' || row_number() over (), (to_jsonb(one) - 'seq' - 'began' - 'at')::text
    from (select * from public.storm_change order by seq) as one"""
"""It has real times. What came first is in its numbers, which have gaps after a rollback."""


def more(url: str, *, rekeyed: bool = False) -> Rowcall:
    """Return a queue next to the world, with other tables, and with keys: perhaps another one for what is written."""
    keys = ["n" * 43, "o" * 43] if rekeyed else ["o" * 43]
    if url.startswith("postgresql"):
        url += f"{'&' if '?' in url else '?'}options=-csearch_path%3D{MORE}"
    jobs = Rowcall(url, table_prefix=f"{MORE}_", encrypt=Encryption(keys=keys))
    jobs.task(name="plain")(lambda: None)
    return jobs


def finish(url: str, notes: Notes, clock: FakeClock, *, after_lease: bool = False) -> Iterator[str]:
    """Let a healthy worker finish all jobs, and yield what is wrong then.

    `after_lease`: a worker may have been registered after it had ended, and is lost when its lease is over.
    """
    with closing(app_at(url, notes, clock)) as app, closing(plain_database(url)) as database:
        jobs = app.jobs
        for paused in jobs.paused():
            jobs.resume(**{paused.kind: paused.name})
        for schedule in jobs.schedules():
            jobs.pause_schedule(schedule.name)
        if after_lease:
            recovery = Recovery(queue_of(jobs))
            recovery.check()
            clock.advance(3600)
            recovery.check()
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
        if any(f"{MORE}_" in str(name) for (name,) in database.ask(_TABLES[url.partition(":")[0]])):
            yield from _finish_more(url)


def _finish_more(url: str) -> Iterator[str]:
    with more(url, rekeyed=True) as jobs:
        jobs.migrate()
        jobs.rekey()
        jobs.drain()
        for job in jobs.list().jobs:
            if job.status != "succeeded":
                yield f"a job next to the world has not succeeded: {job}"


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
