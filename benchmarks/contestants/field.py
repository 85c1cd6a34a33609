"""The queues of `make bench-field`: what is installed, the command of its worker, and where its jobs are.

Their apps are in `apps`. The other modules of this package run queues at their fastest, within a process of the bench.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Service = Literal["SQLite", "PostgreSQL", "Redis"]

APPS = "benchmarks.contestants.apps"
GRAPHILE_JOBS = "graphile_worker._private_jobs"


@dataclass(frozen=True)
class History:
    """How one finished job becomes many: its table is copied, with another value in the column of its id."""

    table: str
    finished: str
    id: str
    new_id: str


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A queue. `left` and `failed` ask how many jobs it still has to do, and how many ended as failed."""

    name: str
    service: Service
    packages: tuple[str, ...]
    app: str
    command: tuple[str, ...]
    shown: str
    """The command as its docs show it."""
    jobs: int
    """How many no-ops take it some seconds."""
    slow_jobs: int
    left: str
    failed: str = ""
    bulk: bool = False
    history: History | None = None
    keeps: str = "keeps no finished jobs"
    """What it has of finished jobs, if they cannot be measured."""
    settings: str
    after_kill: str
    """What happens to the jobs of a worker that was killed."""
    environment: Mapping[str, str] = field(default_factory=dict)
    npm: bool = False
    programs: Path | None = None
    """The folder with its programs, if they are installed elsewhere."""

    @property
    def ours(self) -> bool:
        return self.app == "rowcall_app"


def _rowcall(service: Service) -> Peer:
    return Peer(
        name=f"rowcall-{service.lower()}",
        service=service,
        packages=("rowcall[postgres]",),
        app="rowcall_app",
        command=("rowcall", "work", f"{APPS}.rowcall_app:jobs"),
        shown="rowcall work app:jobs",
        jobs=100_000,
        slow_jobs=8_000,
        left="select count(*) from rowcall_job where status in ('blocked', 'scheduled', 'pending')",
        failed="select count(*) from rowcall_job where status = 'failed'",
        bulk=True,
        history=History("rowcall_job", "", "", ""),
        settings="10 threads; keeps finished jobs for days",
        after_kill="jobs run again within seconds, and count as an attempt",
    )


PEERS = (
    _rowcall("SQLite"),
    Peer(
        name="huey",
        service="SQLite",
        packages=("huey==3.5.4",),
        app="huey_app",
        command=("huey_consumer", f"{APPS}.huey_app.huey"),
        shown="huey_consumer app.huey",
        jobs=6_000,
        slow_jobs=800,
        left="select count(*) from task",
        settings="1 thread; deletes a job when it begins",
        after_kill="the job is gone: it was deleted when it began",
    ),
    Peer(
        name="litequeue",
        service="SQLite",
        packages=("litequeue==0.9",),
        app="litequeue_app",
        command=("python", "-m", f"{APPS}.litequeue_app"),
        shown="python app.py",
        jobs=4_000,
        slow_jobs=800,
        left="select count(*) from Queue where status in (0, 1)",
        failed="select count(*) from Queue where status = 3",
        history=History("Queue", "status = 2", "message_id", "lower(hex(randomblob(16)))"),
        settings="it has no worker: a loop of `pop` and `done`, which sleeps for 0.1 s if the queue is empty;"
        " `synchronous=full` instead of its `normal`",
        after_kill="the job stays locked, until the app unlocks it",
    ),
    Peer(
        name="django-tasks-db",
        service="SQLite",
        packages=("django-tasks-db[compat]==0.13.0", "django==5.2.19", "django-tasks==0.12.0"),
        app="django_app",
        command=("python", "-m", "django", "db_worker"),
        shown="./manage.py db_worker",
        jobs=1_000,
        slow_jobs=600,
        left="select count(*) from django_tasks_database_dbtaskresult where status in ('READY', 'RUNNING')",
        failed="select count(*) from django_tasks_database_dbtaskresult where status = 'FAILED'",
        history=History(
            "django_tasks_database_dbtaskresult", "status = 'SUCCESSFUL'", "id", "lower(hex(randomblob(16)))"
        ),
        settings="1 job at a time; `IMMEDIATE` transactions",
        after_kill="the task stays `RUNNING`",
        environment={"DJANGO_SETTINGS_MODULE": f"{APPS}.django_settings"},
    ),
    _rowcall("PostgreSQL"),
    Peer(
        name="procrastinate",
        service="PostgreSQL",
        packages=("procrastinate==3.10.0", "psycopg[binary]==3.3.9"),
        app="procrastinate_app",
        command=("procrastinate", f"--app={APPS}.procrastinate_app.app", "worker"),
        shown="procrastinate --app=app.app worker",
        jobs=1_200,
        slow_jobs=600,
        left="select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
        failed="select count(*) from procrastinate_jobs where status = 'failed'",
        bulk=True,
        history=History("procrastinate_jobs", "status = 'succeeded'", "id", ""),
        settings="1 job at a time; keeps finished jobs",
        after_kill="the job stays `doing`, until a periodic task of the app retries stalled jobs",
    ),
    Peer(
        name="pgqueuer",
        service="PostgreSQL",
        packages=("pgqueuer[asyncpg,cli]==1.6.0", "asyncpg==0.32.0", "typer==0.24.2"),
        app="pgqueuer_app",
        command=("pgq", "run", f"{APPS}.pgqueuer_app:main"),
        shown="pgq run app:main",
        jobs=6_000,
        slow_jobs=2_000,
        left="select count(*) from pgqueuer where status in ('queued', 'picked')",
        failed="select count(*) from pgqueuer_log where status in ('exception', 'canceled')",
        bulk=True,
        history=History("pgqueuer_log", "status = 'successful'", "id", ""),
        settings="groups of 10 async jobs; deletes finished jobs and keeps log rows",
        after_kill="the job runs again once its heartbeat is 30 s old",
    ),
    Peer(
        name="saq",
        service="PostgreSQL",
        packages=("saq[postgres]==0.26.4", "psycopg[binary]==3.3.9"),
        app="saq_app",
        command=("saq", f"{APPS}.saq_app.settings"),
        shown="saq app.settings",
        jobs=2_000,
        slow_jobs=2_000,
        left="select count(*) from saq_jobs where status in ('new', 'queued', 'active', 'deferred', 'aborting')",
        failed="select count(*) from saq_jobs where status in ('failed', 'aborted')",
        history=History("saq_jobs", "status = 'complete'", "key", "gen_random_uuid()::text"),
        settings="10 async jobs; keeps finished jobs for 10 minutes; `retries=1`",
        after_kill="every 60 s it ends jobs that are older than their timeout of 10 s",
    ),
    Peer(
        name="dbos",
        service="PostgreSQL",
        packages=("dbos==3.4.0", "psycopg[binary]==3.3.9"),
        app="dbos_app",
        command=("python", "-m", f"{APPS}.dbos_app"),
        shown="python app.py",
        jobs=1_200,
        slow_jobs=1_200,
        left="select count(*) from dbos.workflow_status where status in ('ENQUEUED', 'PENDING', 'DELAYED')",
        failed="select count(*) from dbos.workflow_status where status not in"
        " ('ENQUEUED', 'PENDING', 'DELAYED', 'SUCCESS')",
        history=History("dbos.workflow_status", "status = 'SUCCESS'", "workflow_uuid", "gen_random_uuid()::text"),
        settings="a queue without limits; keeps finished workflows",
        after_kill="pending workflows run again when the program starts",
    ),
    Peer(
        name="graphile-worker",
        service="PostgreSQL",
        packages=("graphile-worker@0.17.3",),
        app="graphile",
        command=("graphile-worker",),
        shown='npx graphile-worker -c "$URL"',
        jobs=4_000,
        slow_jobs=800,
        left=f"select count(*) from {GRAPHILE_JOBS} where attempts < max_attempts or locked_at is not null",
        failed=f"select count(*) from {GRAPHILE_JOBS} where attempts >= max_attempts and locked_at is null",
        bulk=True,
        settings="1 job at a time; deletes finished jobs",
        after_kill="the job runs again after 4 hours",
        npm=True,
    ),
    Peer(
        name="rq",
        service="Redis",
        packages=("rq==2.12.0", "redis==8.1.0"),
        app="rq_app",
        command=("rq", "worker"),
        shown="rq worker",
        jobs=400,
        slow_jobs=300,
        left="return redis.call('llen', 'rq:queue:default') + redis.call('zcard', 'rq:wip:default')"
        " + redis.call('llen', 'rq:queue:default:intermediate')",
        failed="return redis.call('zcard', 'rq:failed:default')",
        bulk=True,
        keeps="keeps finished jobs for 500 s, never as many",
        settings="a process for each job",
        after_kill="the job moves to the registry of failed jobs, at maintenance",
    ),
    Peer(
        name="celery",
        service="Redis",
        packages=("celery[redis]==5.7.0", "redis==8.1.0"),
        app="celery_app",
        command=("celery", f"--app={APPS}.celery_app", "worker"),
        shown="celery --app=app worker",
        jobs=5_000,
        slow_jobs=2_000,
        left="return redis.call('llen', 'celery') + redis.call('hlen', 'unacked')",
        settings="a process for each core; no result backend; acknowledges a job when it begins",
        after_kill="a job that has begun is gone; jobs that were fetched run again after an hour",
    ),
    Peer(
        name="dramatiq",
        service="Redis",
        packages=("dramatiq[redis,watch]==2.2.1", "redis==8.1.0"),
        app="dramatiq_app",
        command=("dramatiq", f"{APPS}.dramatiq_app"),
        shown="dramatiq app",
        jobs=8_000,
        slow_jobs=8_000,
        left="return redis.call('hlen', 'dramatiq:default.msgs') + redis.call('hlen', 'dramatiq:default.DQ.msgs')",
        failed="return redis.call('zcard', 'dramatiq:default.XQ')",
        settings="a process for each core, 8 threads each",
        after_kill="jobs of a worker without a heartbeat for 60 s run again, at random maintenance",
    ),
)
