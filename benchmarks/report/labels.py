"""The label of each figure in the tables, in their order."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.experiments.dashboard import PAGES, ROUTES

_CALLER = {
    "bare_us": "bare INSERT and commit, µs",
    "enqueue_us": "`enqueue` and commit, µs",
    "inside_bare_us": "bare INSERT without commit, µs",
    "inside_enqueue_us": "`enqueue` without commit, µs",
    "inside_ratio": "`enqueue` without commit, times the bare INSERT",
}


def _caller(experiment: str, connections: Mapping[str, str]) -> dict[str, str]:
    return {
        f"{experiment}.{connection}_{figure}": f"{connection_label}, {figure_label}"
        for connection, connection_label in connections.items()
        for figure, figure_label in _CALLER.items()
    }


_OBSERVING = {
    "questions.stats_ms": "`stats` of 10,000,000 rows, ms",
    "questions.stuck_ms": "`stuck` of 10,000,000 rows, ms",
    "questions.retries_ms": "`retries` of 10,000,000 rows, ms",
    "questions.errors_ms": "`top_errors` of 10,000,000 rows, ms",
    "questions.failing_ms": "`failing` of 10,000,000 rows, ms",
    "questions.retention_ms": "`retention` of 10,000,000 rows, ms",
    "questions.attention_ms": "`attention` of 10,000,000 rows, ms",
    "questions.view_ms": "100 rows of the view `rowcall_jobs` by id, of 10,000,000 rows, ms",
    "questions.first_page_ms": "first page of `list`, slowest of all filters, ms",
    "questions.hundredth_page_ms": "hundredth page of `list`, slowest of all filters, ms",
    "dashboard.first_ms": "overview while the dashboard still counts, 10,000,000 rows, ms",
    "dashboard.page_ms": "page of the dashboard, the slowest, 10,000,000 rows, ms",
    "dashboard.route_ms": "route of its API, the slowest, 10,000,000 rows, ms",
    **{f"dashboard.{path}": f"`GET {path}`, ms" for path in (*PAGES, *ROUTES)},
    "prune.drain_alone": "drain next to 1,000,000 old jobs, jobs/s",
    "prune.drain": "drain while these are pruned, jobs/s",
    "prune.longest_enqueue_ms": "longest single `enqueue` next to both, ms",
    "prune.pruned_meanwhile": "jobs pruned during that drain",
    "prune.still_pruning": "whether the prune outlasted the drain",
    "bulk.drain_alone": "drain next to 1,000,000 jobs of tomorrow, jobs/s",
    "bulk.drain": "drain while these are changed by a filter, jobs/s",
    "bulk.longest_enqueue_ms": "longest single `enqueue` next to both, ms",
    "bulk.still_acting": "whether the actions outlasted the drain",
    "flows.plain": "plain drain, jobs/s",
    "flows.surrounded": "one resource, one middleware and one dependency, jobs/s",
    "flows.chains": "chains of 3, fixed, jobs/s",
    "flows.going_on": "chains of 3, each step written by the one before, jobs/s",
    "flows.fan_in": "fan-ins of 1,000, jobs/s",
    "flows.keyed": "`enqueue_many` of 1,000, each with a key, jobs/s",
    "steps.plain": "plain drain, jobs/s",
    "steps.steps": "jobs of ten durable steps, 100 at once, steps/s",
    "fairness.plain": "plain drain next to these, jobs/s",
    "fairness.fair": "fair jobs, 100,000 other values wait, jobs/s",
    "slowdowns.plain": "plain drain next to what follows, jobs/s",
    "slowdowns.results": "each job returns a result, jobs/s",
    "slowdowns.limited": "one at a time for each of 10,000 keys, jobs/s",
    "slowdowns.ordered": "in order, for each of 10,000 values, jobs/s",
    "slowdowns.last_attempts": "every tenth job with one attempt, jobs/s",
    "slowdowns.one_attempt": "every job with one attempt, jobs/s",
    "slowdowns.many_queues": "jobs of 1,000 queues, written one after the other, jobs/s",
    "slowdowns.queues_in_turn": "jobs of 1,000 queues, written in turns, jobs/s",
}

README_LABELS = {
    "default": "`rowcall work app:jobs`, as in the README",
    "silent": "without log lines: `--log-level warning`",
    "failures": "`--log-jobs failures`",
    "all": "a log line for each job: `--log-jobs all`",
    "all_json": "the same as JSON: `--log-jobs all --log-format json`",
}
_README = {f"readme.{figure}": f"drain, {label}, jobs/s" for figure, label in README_LABELS.items()}


SQLITE_LABELS = {
    **_README,
    "drain.ceiling": "drain, bare ceiling, jobs/s",
    "drain.async": "drain, Rowcall, async, jobs/s",
    "drain.sync": "drain, Rowcall, sync in threads, jobs/s",
    "drain.slow_share": "jobs of 5 ms, 100 at once, share of what the slots allow",
    "drain.huey_default": "drain, huey at its default durability, jobs/s",
    "drain.huey_fastest": "drain, huey at its fastest, jobs/s",
    "enqueue.bare_single": "bare autocommitted INSERT, rows/s",
    "enqueue.single": "single `enqueue`, jobs/s",
    "enqueue.gathered": "`aenqueue`, 100 tasks at once, jobs/s",
    "enqueue.bare_bulk": "bare bulk insert, 1,000 in a transaction, rows/s",
    "enqueue.bulk": "`enqueue_many` of 1,000, jobs/s",
    **_caller("caller", {"sqlite3": "sqlite3", "sqlalchemy": "SQLAlchemy Core on pysqlite"}),
    "backlog.empty": "drain, nothing else in the table, jobs/s",
    "backlog.full": "drain, 3 million other jobs in the table, jobs/s",
    "backlog.unknown": "drain, behind jobs of an unknown task, jobs/s",
    "pickup.p50_ms": "pick-up, p50, ms",
    "pickup.p99_ms": "pick-up, p99, ms",
    "pickup.most_ms": "pick-up, longest, ms",
    "delay.p50_ms": "lateness of delayed jobs, p50, ms",
    "delay.p99_ms": "lateness of delayed jobs, p99, ms",
    "delay.most_ms": "lateness of delayed jobs, longest, ms",
    "delay.least_ms": "lateness of delayed jobs, shortest, ms",
    "idle.quiet_percent": "idle worker, % of a core",
    "idle.with_commits_percent": "idle worker next to an app that commits, % of a core",
    "idle.commits_per_second": "commits per second of that app",
    "endurance.memory_early_mb": "resident memory after 50,000 jobs, MB",
    "endurance.memory_late_mb": "resident memory after 200,000 jobs, MB",
    "endurance.memory_end_mb": "resident memory after 500,000 jobs, MB",
    "endurance.wal_mb": "WAL file at its largest, MB",
    "crowd.p50_ms": "single `enqueue` in a crowd, p50, ms",
    "crowd.p99.9_ms": "single `enqueue` in a crowd, p99.9, ms",
    "crowd.most_ms": "single `enqueue` in a crowd, longest, ms",
    "crowd.errors": "errors in the crowd",
    "crowd.enqueues": "timed enqueues in the crowd",
    "crowd.others_enqueued": "enqueues by the other producers in that time",
    "crowd.left_waiting": "jobs still waiting at the end",
    **_OBSERVING,
}

_PRODUCERS = {
    "plain_trigger_off": "plain SQL, no worker, trigger off",
    "plain_no_worker": "plain SQL, no worker",
    "plain_elsewhere": "plain SQL, idle worker of another queue",
    "plain_served": "plain SQL, a worker runs the jobs as they arrive",
    "enqueue_trigger_off": "`enqueue`, no worker, trigger off",
    "enqueue_no_worker": "`enqueue`, no worker",
    "enqueue_elsewhere": "`enqueue`, idle worker of another queue",
    "enqueue_served": "`enqueue`, a worker runs the jobs as they arrive",
    "busy_trigger_off": "plain SQL, busy worker, trigger off",
    "busy_plain": "plain SQL, busy worker",
}

MYSQL_LABELS = {
    "mysql-drain.ceiling": "drain, bare loop of the same statements, jobs/s",
    "mysql-drain.async": "drain, Rowcall, jobs/s",
    "mysql-backlog.empty": "drain, nothing else in the table, jobs/s",
    "mysql-backlog.full": "drain, 3 million other jobs in the table, jobs/s",
    "mysql-pickup.p50_ms": "pick-up, p50, ms",
    "mysql-pickup.p99_ms": "pick-up, p99, ms",
    "mysql-pickup.most_ms": "pick-up, longest, ms",
}

POSTGRES_LABELS = {
    **{f"postgres-{name}": label for name, label in _README.items()},
    "postgres-drain.ceiling": "drain, bare ceiling, jobs/s",
    "postgres-drain.async": "drain, Rowcall, jobs/s",
    "postgres-drain.pgqueuer": "drain, PgQueuer, jobs/s",
    "postgres-drain.ceiling_of_two": "drain, bare ceiling on two connections at once, jobs/s",
    "postgres-drain.async_of_two": "drain, Rowcall, two processes, jobs/s",
    "postgres-drain.pgqueuer_of_two": "drain, PgQueuer, two processes, jobs/s",
    "postgres-drain.slow_share": "jobs of 5 ms, 100 at once, share of what the slots allow",
    "postgres-drain.graphile": "drain, graphile-worker, jobs/s",
    "postgres-drain.graphile_of_two": "drain, graphile-worker, two processes, jobs/s",
    "postgres-drain.procrastinate": "drain, procrastinate, jobs/s",
    "postgres-drain.saq": "drain, SAQ, jobs/s",
    "postgres-enqueue.bare_single": "bare autocommitted INSERT, rows/s",
    "postgres-enqueue.single": "single `enqueue`, jobs/s",
    "postgres-enqueue.gathered": "`aenqueue`, 100 tasks at once, jobs/s",
    "postgres-enqueue.bare_bulk": "bare bulk insert, 1,000 in a statement, rows/s",
    "postgres-enqueue.bulk": "`enqueue_many` of 1,000, jobs/s",
    **_caller(
        "postgres-caller", {"psycopg": "psycopg", "asyncpg": "asyncpg", "sqlalchemy": "SQLAlchemy Core on psycopg"}
    ),
    "postgres-backlog.empty": "drain, nothing else in the table, jobs/s",
    "postgres-backlog.full": "drain, 3 million other jobs in the table, jobs/s",
    "postgres-churn.first": "the first drains of a table, jobs/s",
    "postgres-churn.last": "its last drains, jobs/s",
    "postgres-churn.jobs": "jobs that had gone through it by then",
    "postgres-churn.slowest": "its slowest drain, jobs/s",
    "postgres-churn.with_reader_first": "the first tenth of a drain next to a reader that holds a snapshot, jobs/s",
    "postgres-churn.with_reader": "its last tenth, jobs/s",
    "postgres-churn.new_worker_with_reader": "then the drain of a new worker, next to the same reader, jobs/s",
    "postgres-churn.new_table": "drains of a new table next to its last ones, jobs/s",
    "postgres-churn.table_mb": "size of that table at the end, MB",
    "postgres-churn.indexes_mb": "size of its indexes at the end, MB",
    "postgres-pickup.p50_ms": "pick-up after `enqueue`, p50, ms",
    "postgres-pickup.p99_ms": "pick-up after `enqueue`, p99, ms",
    "postgres-pickup.most_ms": "pick-up after `enqueue`, longest, ms",
    "postgres-pickup.plain_p50_ms": "pick-up after a plain SQL insert, p50, ms",
    "postgres-pickup.plain_p99_ms": "pick-up after a plain SQL insert, p99, ms",
    "postgres-pickup.plain_most_ms": "pick-up after a plain SQL insert, longest, ms",
    "postgres-idle.quiet_percent": "idle worker, % of a core",
    "postgres-idle.statements_per_second": "idle worker, statements per second",
    **{
        f"postgres-producers.{case}_{figure}": f"eight producers, {case_label}{figure_label}"
        for case, case_label in _PRODUCERS.items()
        for figure, figure_label in {
            "per_second": ", jobs/s",
            "p99_ms": ", p99, ms",
            "ratio": ", of the rate with the trigger off",
        }.items()
    },
    **{f"postgres-{name}": label for name, label in _OBSERVING.items()},
}
