"""Everything that is measured, in the order of the tables."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.bench import Experiment
from benchmarks.experiments import (
    backlog,
    bulk,
    caller,
    churn,
    crowd,
    dashboard,
    delay,
    drain,
    endurance,
    enqueue,
    fairness,
    flows,
    idle,
    mysql,
    pickup,
    producers,
    prune,
    questions,
    readme,
    slowdowns,
    steps,
)

_README = Experiment("readme", "the README's command, without log lines, and with all", readme.measure)
_SLOWDOWNS = Experiment(
    "slowdowns", "results, limits, order, one attempt and many queues next to a plain drain", slowdowns.measure
)

_SQLITE = (
    _README,
    Experiment("drain", "drains: the bare ceiling, Rowcall, huey", drain.measure_sqlite),
    Experiment("enqueue", "enqueueing next to bare inserts", enqueue.measure),
    Experiment("caller", "enqueueing on the caller's connections: sqlite3, SQLAlchemy Core", caller.measure),
    Experiment("backlog", "drains from a large table", backlog.measure),
    Experiment("pickup", "pick-up by an idle worker", pickup.measure, "half"),
    Experiment("delay", "lateness of delayed jobs", delay.measure, "half"),
    Experiment("idle", "processor time of an idle worker", idle.measure_sqlite, "half"),
    Experiment("endurance", "memory and WAL in a long drain", endurance.measure, "half"),
    Experiment("crowd", "enqueueing in a crowd", crowd.measure, "half"),
    Experiment("flows", "chains, fan-in and keys next to a plain drain", flows.measure),
    Experiment("steps", "jobs of ten durable steps next to a plain drain", steps.measure),
    Experiment("fairness", "jobs in turns next to a plain drain", fairness.measure),
    _SLOWDOWNS,
    Experiment("bulk", "a drain next to actions on very many jobs", bulk.measure, "half"),
    Experiment("prune", "a drain next to a prune of very many jobs", prune.measure, "half"),
    Experiment("questions", "the five questions, asked of ten million rows", questions.measure, "one"),
    Experiment("dashboard", "the dashboard and its API, asked of ten million rows", dashboard.measure, "one"),
)

_POSTGRES = (
    _README,
    Experiment(
        "drain",
        "drains: the bare ceiling, Rowcall, graphile-worker, PgQueuer, procrastinate, SAQ",
        drain.measure_postgres,
    ),
    Experiment("enqueue", "enqueueing next to bare inserts", enqueue.measure),
    Experiment("caller", "enqueueing on the caller's connections: psycopg, asyncpg, SQLAlchemy Core", caller.measure),
    Experiment("backlog", "drains from a large table", backlog.measure_full),
    Experiment("pickup", "pick-up by an idle worker", pickup.measure_with_plain_sql, "half"),
    Experiment("idle", "processor time and statements of an idle worker", idle.measure_postgres, "half"),
    Experiment("producers", "the cost of notifications for eight producers", producers.measure, "half"),
    Experiment("flows", "chains, fan-in and keys next to a plain drain", flows.measure),
    Experiment("steps", "jobs of ten durable steps next to a plain drain", steps.measure),
    Experiment("fairness", "jobs in turns next to a plain drain", fairness.measure),
    _SLOWDOWNS,
    Experiment("bulk", "a drain next to actions on very many jobs", bulk.measure, "half"),
    Experiment("prune", "a drain next to a prune of very many jobs", prune.measure, "half"),
    Experiment("questions", "the five questions, asked of ten million rows", questions.measure, "one"),
    Experiment("dashboard", "the dashboard and its API, asked of ten million rows", dashboard.measure, "one"),
    Experiment("churn", "drains after many jobs have gone through the table", churn.measure, "half"),
)


_MYSQL = (
    Experiment("drain", "drains: a bare loop of the same statements, Rowcall", mysql.measure_drain),
    Experiment("backlog", "drains from a large table", backlog.measure_full),
    Experiment("pickup", "pick-up by an idle worker", pickup.measure, "half"),
)


def _on_postgres(one: Experiment) -> Experiment:
    return replace(one, name=f"postgres-{one.name}", title=f"PostgreSQL: {one.title}", kind="postgres")


def _on_mysql(one: Experiment) -> Experiment:
    return replace(one, name=f"mysql-{one.name}", title=f"MariaDB: {one.title}", kind="mysql")


EXPERIMENTS = (*_SQLITE, *map(_on_postgres, _POSTGRES), *map(_on_mysql, _MYSQL))
