"""The targets, and how each is computed from the figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.statistics import Spread, spread

Measured = Mapping[str, Sequence[float]]
"""All figures of a run: for each name, one number for each round."""

Unit = Literal["of", "×", "ms", "%", "MB", ""]


@dataclass(frozen=True)
class Target:
    what: str
    measure: str
    limit: float
    unit: Unit
    figures: tuple[str, ...]
    values: Callable[[Measured], list[float]]
    at_least: bool = True

    def spread(self, measured: Measured) -> Spread | None:
        """Return the spread over the rounds, or None if it was not measured."""
        if not all(measured.get(name) for name in self.figures):
            return None
        return spread(self.values(measured))

    def reached(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def score(self, value: float) -> float:
        """Return the value as a multiple of the target: 1 is just reached."""
        if self.at_least:
            return value / self.limit
        return self.limit / value if value > 0 else float("inf")


def ratio(
    what: str, measure: str, limit: float, unit: Unit, figure: str, base: str, *, at_least: bool = True
) -> Target:
    """Figure over base, round by round: both were taken one after the other."""

    def values(measured: Measured) -> list[float]:
        return [one / other for one, other in zip(measured[figure], measured[base], strict=True)]

    return Target(what, measure, limit, unit, (figure, base), values, at_least)


def at_most(what: str, measure: str, limit: float, unit: Unit, figure: str) -> Target:
    return Target(what, measure, limit, unit, (figure,), lambda measured: list(measured[figure]), at_least=False)


def caller(connection: str, figures: str) -> Target:
    """The time of a transaction that enqueues over that of one with a bare INSERT."""
    return ratio(
        f"`enqueue` and commit on the caller's connection, {connection}",
        "times a bare INSERT and commit",
        1.7,
        "×",
        f"{figures}_enqueue_us",
        f"{figures}_bare_us",
        at_least=False,
    )


def growth(what: str, measure: str, limit: float, early: str, late: str) -> Target:
    def values(measured: Measured) -> list[float]:
        return [after - before for before, after in zip(measured[early], measured[late], strict=True)]

    return Target(what, measure, limit, "MB", (early, late), values, at_least=False)


def never(what: str, measure: str, figure: str) -> Target:
    """Not once in all rounds together."""
    return Target(what, measure, 0, "", (figure,), lambda measured: [sum(measured[figure])], at_least=False)


QUESTIONS = ("stats", "stuck", "retries", "errors", "failing", "retention")


def observing(prefix: str) -> tuple[Target, ...]:
    """Return the targets of counts, history and retention on a database."""
    asked = "{} of 10,000,000 rows"
    pages = "a page of `list`, for each filter alone and with each status, of 10,000,000 rows"
    prune = "a prune of 1,000,000 jobs next to a drain"
    bulk = "actions on 1,000,000 jobs next to a drain"
    return (
        *(
            at_most(asked.format(f"`{question}`"), "at the slowest", 1000, "ms", f"{prefix}questions.{question}_ms")
            for question in QUESTIONS
        ),
        at_most(asked.format("`attention`"), "at the slowest", 300, "ms", f"{prefix}questions.attention_ms"),
        at_most(
            "100 rows of the view `rowcall_jobs` by id, of 10,000,000 rows",
            "at the slowest",
            1000,
            "ms",
            f"{prefix}questions.view_ms",
        ),
        at_most(pages, "the first", 50, "ms", f"{prefix}questions.first_page_ms"),
        at_most(pages, "the hundredth", 50, "ms", f"{prefix}questions.hundredth_page_ms"),
        at_most("a page of the dashboard, of 10,000,000 rows", "the slowest", 200, "ms", f"{prefix}dashboard.page_ms"),
        at_most("a GET route of its API, of 10,000,000 rows", "the slowest", 200, "ms", f"{prefix}dashboard.route_ms"),
        ratio(prune, "of the drain alone", 0.75, "of", f"{prefix}prune.drain", f"{prefix}prune.drain_alone"),
        at_most(prune, "longest `enqueue`", 100, "ms", f"{prefix}prune.longest_enqueue_ms"),
        ratio(bulk, "of the drain alone", 0.75, "of", f"{prefix}bulk.drain", f"{prefix}bulk.drain_alone"),
        at_most(bulk, "longest `enqueue`", 100, "ms", f"{prefix}bulk.longest_enqueue_ms"),
    )


def reading(prefix: str) -> tuple[Target, ...]:
    """Return the targets of what users get, who start a worker as the README says."""
    silent = "of the same without log lines"
    return tuple(
        ratio(f"drain by {command}", silent, limit, "of", f"{prefix}readme.{figure}", f"{prefix}readme.silent")
        for figure, command, limit in (
            ("default", "`rowcall work app:jobs`, as in the README", 0.9),
            ("all", "`rowcall work app:jobs --log-jobs all`", 0.85),
            ("all_json", "`rowcall work app:jobs --log-jobs all --log-format json`", 0.85),
        )
    )


def stepping(prefix: str, limit: float) -> Target:
    """Steps per second over plain jobs per second: 5,000 next to 45,000 on a file, 2,000 next to 22,000 on a server."""
    figures = f"{prefix}steps.steps", f"{prefix}steps.plain"
    return ratio("steps of jobs of ten durable steps", "of the jobs of a plain drain", limit, "of", *figures)


def flowing(prefix: str, one_attempt: float) -> tuple[Target, ...]:
    """Return the targets of chains, keys, limits, queues and single attempts on a database."""
    plain = "of the plain drain"
    of_plain = {
        "chains": "drain of chains of 3, fixed from the beginning",
        "going_on": "drain of chains of 3, each step written by the one before",
        "fan_in": "drain of fan-ins of 1,000",
        "keyed": "`enqueue_many` of 1,000, each with a key",
    }
    return (
        *(
            ratio(what, plain, 0.3, "of", f"{prefix}flows.{figure}", f"{prefix}flows.plain")
            for figure, what in of_plain.items()
        ),
        ratio(
            "drain with one resource, one middleware and one dependency",
            plain,
            0.6,
            "of",
            f"{prefix}flows.surrounded",
            f"{prefix}flows.plain",
        ),
        ratio(
            "drain of fair jobs, 100,000 other values wait",
            plain,
            0.5,
            "of",
            f"{prefix}fairness.fair",
            f"{prefix}fairness.plain",
        ),
        *(
            ratio(what, plain, limit, "of", f"{prefix}slowdowns.{figure}", f"{prefix}slowdowns.plain")
            for figure, what, limit in (
                ("limited", "drain under a limit of one at a time for each of 10,000 keys", 0.3),
                ("ordered", "drain of jobs in order, for each of 10,000 values", 0.3),
                ("one_attempt", "drain of jobs with `max_attempts=1`", one_attempt),
                ("many_queues", "drain of 1,000 queues, written one after the other", 0.6),
                ("queues_in_turn", "drain of 1,000 queues, written in turns", 0.45),
            )
        ),
    )


_ASYNC = "drain of no-op async jobs"
_SYNC = "drain of no-op sync jobs in threads"
_FULL = "drain with 1,000,000 finished, 1,000,000 future high-priority and 1,000,000 waiting jobs"
_UNKNOWN = "drain behind 200,000 waiting jobs of a task this worker does not know"
_PICK_UP = "pick-up by an idle worker in another process"
_MEMORY = "worker's resident memory after 200,000 jobs"
_CROWD = "single `enqueue` next to two draining workers and three other producers"
_ONE = "drain of no-op async jobs, one process"
_TWO = "drain of no-op async jobs, two processes"
_CHURN = "drain after 2,000,000 jobs have gone through the same table"
_PLAIN = "pick-up after a plain SQL insert"
_SLOW = "async jobs of 5 ms, 100 at once"


def slow(figure: str) -> Target:
    return Target(
        _SLOW,
        "of the 20,000 per second that 100 slots allow",
        0.85,
        "of",
        (figure,),
        lambda measured: [*measured[figure]],
    )


SQLITE_TARGETS = (
    *reading(""),
    ratio(_ASYNC, "of the bare ceiling", 0.5, "of", "drain.async", "drain.ceiling"),
    ratio(_ASYNC, "times huey at its default durability", 18, "×", "drain.async", "drain.huey_default"),
    ratio(_ASYNC, "times huey at its fastest", 5, "×", "drain.async", "drain.huey_fastest"),
    ratio(_SYNC, "of the bare ceiling", 0.45, "of", "drain.sync", "drain.ceiling"),
    slow("drain.slow_share"),
    ratio("single `enqueue`", "of a bare INSERT", 0.75, "of", "enqueue.single", "enqueue.bare_single"),
    ratio("`aenqueue`, 100 tasks at once", "times single `enqueue`", 5, "×", "enqueue.gathered", "enqueue.single"),
    ratio("`enqueue_many` of 1,000", "of the bare bulk insert", 0.5, "of", "enqueue.bulk", "enqueue.bare_bulk"),
    caller("sqlite3", "caller.sqlite3"),
    caller("SQLAlchemy Core", "caller.sqlalchemy"),
    ratio(_FULL, "of the drain on an empty table", 0.9, "of", "backlog.full", "backlog.empty"),
    ratio(_UNKNOWN, "of the drain on an empty table", 0.8, "of", "backlog.unknown", "backlog.empty"),
    at_most(_PICK_UP, "at p50", 2.5, "ms", "pickup.p50_ms"),
    at_most(_PICK_UP, "at p99", 5, "ms", "pickup.p99_ms"),
    at_most("lateness of delayed jobs", "at p99", 10, "ms", "delay.p99_ms"),
    at_most("an idle worker", "of a core", 0.3, "%", "idle.quiet_percent"),
    at_most(
        "an idle worker next to 200 unrelated commits per second", "of a core", 3, "%", "idle.with_commits_percent"
    ),
    at_most(_MEMORY, "in all", 50, "MB", "endurance.memory_late_mb"),
    growth(
        _MEMORY, "more than after 50,000 jobs", 2, early="endurance.memory_early_mb", late="endurance.memory_late_mb"
    ),
    at_most(_CROWD, "at p99.9", 100, "ms", "crowd.p99.9_ms"),
    never(_CROWD, "errors", "crowd.errors"),
    at_most("WAL file during a drain of 500,000", "at its largest", 64, "MB", "endurance.wal_mb"),
    *observing(""),
    *flowing("", one_attempt=0.9),
    stepping("", 0.11),
)

MYSQL_TARGETS = (
    ratio(_ONE, "of a bare loop of the same statements", 0.5, "of", "mysql-drain.async", "mysql-drain.ceiling"),
    ratio(_FULL, "of the drain on an empty table", 0.9, "of", "mysql-backlog.full", "mysql-backlog.empty"),
    at_most(_PICK_UP, "at p50", 3.5, "ms", "mysql-pickup.p50_ms"),
    at_most(_PICK_UP, "at p99", 7, "ms", "mysql-pickup.p99_ms"),
)

POSTGRES_TARGETS = (
    *reading("postgres-"),
    ratio(_ONE, "of the bare ceiling", 0.8, "of", "postgres-drain.async", "postgres-drain.ceiling"),
    ratio(_ONE, "times graphile-worker", 1.1, "×", "postgres-drain.async", "postgres-drain.graphile"),
    ratio(_ONE, "times PgQueuer", 1, "×", "postgres-drain.async", "postgres-drain.pgqueuer"),
    ratio(_ONE, "times procrastinate", 20, "×", "postgres-drain.async", "postgres-drain.procrastinate"),
    ratio(_ONE, "times SAQ", 20, "×", "postgres-drain.async", "postgres-drain.saq"),
    ratio(
        _TWO,
        "of the bare ceiling on two connections at once",
        0.85,
        "of",
        "postgres-drain.async_of_two",
        "postgres-drain.ceiling_of_two",
    ),
    ratio(
        _TWO,
        "times graphile-worker with two processes",
        1,
        "×",
        "postgres-drain.async_of_two",
        "postgres-drain.graphile_of_two",
    ),
    slow("postgres-drain.slow_share"),
    ratio(
        _TWO,
        "times PgQueuer with two processes",
        1,
        "×",
        "postgres-drain.async_of_two",
        "postgres-drain.pgqueuer_of_two",
    ),
    ratio(
        "single `enqueue`", "of a bare INSERT", 0.75, "of", "postgres-enqueue.single", "postgres-enqueue.bare_single"
    ),
    ratio(
        "`enqueue_many` of 1,000",
        "of the bare bulk insert",
        0.35,
        "of",
        "postgres-enqueue.bulk",
        "postgres-enqueue.bare_bulk",
    ),
    caller("psycopg", "postgres-caller.psycopg"),
    caller("asyncpg", "postgres-caller.asyncpg"),
    caller("SQLAlchemy Core", "postgres-caller.sqlalchemy"),
    ratio(_FULL, "of the drain on an empty table", 0.9, "of", "postgres-backlog.full", "postgres-backlog.empty"),
    ratio(_CHURN, "of the first", 0.8, "of", "postgres-churn.last", "postgres-churn.first"),
    ratio(_CHURN, "of a new table next to it", 0.8, "of", "postgres-churn.last", "postgres-churn.new_table"),
    ratio(
        "the end of a drain of 2,000,000 next to a reader that holds a snapshot",
        "of its beginning",
        0.8,
        "of",
        "postgres-churn.with_reader",
        "postgres-churn.with_reader_first",
    ),
    at_most(_PICK_UP, "at p50", 3.5, "ms", "postgres-pickup.p50_ms"),
    at_most(_PICK_UP, "at p99", 7, "ms", "postgres-pickup.p99_ms"),
    at_most(_PLAIN, "at p50", 4, "ms", "postgres-pickup.plain_p50_ms"),
    at_most(_PLAIN, "at p99", 20, "ms", "postgres-pickup.plain_p99_ms"),
    at_most("an idle worker", "of a core", 0.5, "%", "postgres-idle.quiet_percent"),
    at_most("an idle worker", "statements per second", 1, "", "postgres-idle.statements_per_second"),
    *observing("postgres-"),
    *flowing("postgres-", one_attempt=0.85),
    stepping("postgres-", 0.09),
)
