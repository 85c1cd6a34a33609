"""What the database itself records: triggers copy every claim and change of a job into tables that outlive pruning.

They write in the transaction that makes the change, so that what a worker believes does not count.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rowcall.store.mysql.words import milliseconds_of
from tests.crash.storm.terms import FOLLOW_UP
from tests.observe.plain_sql import PlainDatabase


class Change(NamedTuple):
    """An insert, update or delete of a job, as the view of jobs shows it: a claim is an update.

    Of one job they are in the order in which they were committed.
    """

    seq: int
    op: str
    job_id: int
    type: str
    key: str | None
    old_status: str | None
    status: str | None
    old_attempt: int
    attempt: int
    max_attempts: int
    old_lease: int
    lease: int
    old_lost: int
    lost: int
    worker: str | None
    error_code: str | None
    chain_id: int | None
    chain_index: int | None
    run_at: int
    created_at: int
    began: int = 0
    """When its transaction began. Counts changes on SQLite, where transactions come one after another."""
    at: int = 0


class Edge(NamedTuple):
    blocker_id: int
    of_chain: int
    job_id: int
    on_failure: str


class Start(NamedTuple):
    limit_key: str
    at: int
    units: int = 1


class Effect(NamedTuple):
    """A row that a handler wrote in the transaction in which it completed its job."""

    job_id: int
    lease: int


class Follow(NamedTuple):
    """A job that follows the end of another one."""

    job_id: int
    followed: int
    event: str


class Attempt(NamedTuple):
    job_id: int
    attempt: int
    status: str
    worker: str | None
    started: int


TABLES = """
create table storm_change ({seq}, op text, job_id bigint, type text, key text, old_status text, status text,
  old_attempt bigint, attempt bigint, max_attempts bigint, old_lease bigint, lease bigint, old_lost bigint, lost bigint,
  worker text, error_code text, chain_id bigint, chain_index bigint, run_at bigint, created_at bigint,
  began bigint, at bigint);
create table storm_edge (blocker_id bigint, of_chain bigint, job_id bigint, on_failure text);
create table storm_start (limit_key text, at bigint, units bigint);
create table storm_effect (job_id bigint, lease bigint);
create table storm_follow (job_id bigint, followed bigint, event text);
create table storm_order (job_id bigint)
"""

_COLUMNS = ", ".join(Change._fields[1:])
_INSERTED = """'insert', new.id, new.type, new.key, null, new.status, 0, new.attempt, new.max_attempts, 0, new.lease,
  0, new.lost, new.worker, new.error_code, new.chain_id, new.chain_index, {run_at}, {created_at},
  {began}, {at}"""
_UPDATED = """'update', new.id, new.type, new.key, old.status, new.status, old.attempt, new.attempt, new.max_attempts,
  old.lease, new.lease, old.lost, new.lost, new.worker, new.error_code, new.chain_id, new.chain_index,
  {run_at}, {created_at}, {began}, {at}"""
_DELETED = """'delete', old.id, old.type, old.key, old.status, null, old.attempt, old.attempt, old.max_attempts,
  old.lease, old.lease, old.lost, old.lost, old.worker, old.error_code, old.chain_id, old.chain_index, 0, 0, 0, 0"""
_CLAIMED = """select 'update', job.id, job.type, job.key, job.status, 'running', job.attempt, new.attempt,
  job.max_attempts, job.lease, new.lease, job.lost, job.lost, new.worker, null, job.chain_id, job.chain_index,
  {run_at}, {created_at}, {began}, {at} from rowcall_job as job where job.id = new.job_id"""
_FOLLOW = f"insert into storm_follow select new.id, {{}} where new.type = '{FOLLOW_UP}';"
_EDGE = "insert into storm_edge values (new.blocker_id, new.of_chain, new.job_id, new.on_failure);"
# what an attempt used in addition has a number below 0
_START = "insert into storm_start select new.limit_key, {}, coalesce(new.units, 1) where new.number > 0;"
_OF_JOB = {name: f"job.{name}" for name in ("run_at", "created_at")}
_RECORD = f"insert into storm_change ({_COLUMNS}) {{}} ;"
_IS_NEWS = " or ".join(
    f"new.{column} is distinct from old.{column}" for column in ("status", "attempt", "lease", "chain_id", "key")
)


def _sqlite() -> list[str]:
    changes = "(select coalesce(max(seq), 0) from storm_change)"
    times = {**{name: f"new.{name}" for name in _OF_JOB}, "began": changes, "at": changes}

    def trigger(event: str, table: str, body: str) -> str:
        name = f"storm_{table}_{event.split()[0]}"
        return f"create trigger {name} after {event} on rowcall_{table} begin {body} end"

    followed = _FOLLOW.format("json_extract(new.payload, '$.job.id'), json_extract(new.payload, '$.job.event')")
    changed = f"select {_UPDATED.format(**times)} where {_IS_NEWS.replace('is distinct from', 'is not')}"
    return [
        *TABLES.format(seq="seq integer primary key autoincrement").split(";\n"),
        trigger("insert", "job", _RECORD.format(f"values ({_INSERTED.format(**times)})") + followed),
        trigger("update", "job", _RECORD.format(changed)),
        trigger("delete", "job", _RECORD.format(f"values ({_DELETED})")),
        trigger("insert", "claim", _RECORD.format(_CLAIMED.format(**{**times, **_OF_JOB}))),
        trigger("insert", "edge", _EDGE),
        trigger("insert", "start", _START.format("new.at")),
    ]


def _postgres() -> list[str]:
    milliseconds = "(extract(epoch from {0}) * 1000)::bigint"
    times = {name: milliseconds.format(f"new.{name}") for name in _OF_JOB}
    of_job = {name: milliseconds.format(column) for name, column in _OF_JOB.items()}
    times["began"] = milliseconds.format("transaction_timestamp()")
    times["at"] = milliseconds.format("clock_timestamp()")
    at = milliseconds.format("new.at")
    followed = _FOLLOW.format("(new.payload #>> '{job,id}')::bigint, new.payload #>> '{job,event}'")

    def trigger(event: str, table: str, body: str, when: str = "true") -> list[str]:
        name = f"storm_{table}_{event}"
        return [
            # the function that enqueues follow-ups has another search path
            f"create function {name}() returns trigger language plpgsql set search_path from current"
            f" as $$ begin {body} return null; end $$",
            f"create trigger {name} after {event} on rowcall_{table} for each row when ({when})"
            f" execute function {name}()",
        ]

    return [
        *TABLES.format(seq="seq bigint generated always as identity primary key").split(";\n"),
        *trigger("insert", "job", _RECORD.format(f"values ({_INSERTED.format(**times)})") + followed),
        *trigger("update", "job", _RECORD.format(f"values ({_UPDATED.format(**times)})"), _IS_NEWS),
        *trigger("delete", "job", _RECORD.format(f"values ({_DELETED})")),
        *trigger("insert", "claim", _RECORD.format(_CLAIMED.format(**{**times, **of_job}))),
        *trigger("insert", "edge", _EDGE),
        *trigger("insert", "start", _START.format(at)),
    ]


def _mysql() -> list[str]:
    """Here nothing says when a transaction began, so all of them began early."""
    times = {name: milliseconds_of(f"new.{name}") for name in _OF_JOB} | {"began": "1", "at": "1"}
    of_job = {name: milliseconds_of(column) for name, column in _OF_JOB.items()}

    def trigger(event: str, table: str, body: str, when: str = "true") -> str:
        name = f"storm_{table}_{event}"
        body = f"if {when} then {body.replace(' where new.', ' from dual where new.')} end if;"
        return f"create trigger {name} after {event} on rowcall_{table} for each row begin {body} end"

    followed = _FOLLOW.format("json_value(new.payload, '$.job.id'), json_value(new.payload, '$.job.event')")
    is_news = re.sub(r"(new\.\w+) is distinct from", r"not \1 <=>", _IS_NEWS)
    return [
        *TABLES.format(seq="seq bigint auto_increment primary key").split(";\n"),
        trigger("insert", "job", _RECORD.format(f"values ({_INSERTED.format(**times)})") + followed),
        trigger("update", "job", _RECORD.format(f"values ({_UPDATED.format(**times)})"), is_news),
        trigger("delete", "job", _RECORD.format(f"values ({_DELETED})")),
        trigger("insert", "claim", _RECORD.format(_CLAIMED.format(**{**times, **of_job}))),
        trigger("insert", "edge", _EDGE),
        trigger("insert", "start", _START.format(milliseconds_of("new.at"))),
    ]


_STATEMENTS = {"sqlite": _sqlite, "postgresql": _postgres, "mysql": _mysql}


def install(database: PlainDatabase) -> None:
    """Once the tables of the queue are there."""
    for statement in _STATEMENTS[database.url.partition(":")[0]]():
        database.ask(statement)


def changes_in(database: PlainDatabase) -> list[Change]:
    claims: dict[int, Change] = {}
    changes = []
    for row in database.ask(f"select seq, {_COLUMNS} from storm_change order by seq"):
        change = Change(*row)
        if change.status == "running":
            claims[change.job_id] = change
        elif change.job_id in claims:
            change = _of_claimed(change, claims[change.job_id])
            if change.status != "running":
                del claims[change.job_id]
        changes.append(change)
    return changes


def _of_claimed(change: Change, claim: Change) -> Change:
    """Return a change of a claimed job: its row has not changed since before the claim."""
    if change.op == "update" and change.lease == change.old_lease:
        change = change._replace(status="running", attempt=claim.attempt, lease=claim.lease)
    return change._replace(old_status="running", old_attempt=claim.attempt, old_lease=claim.lease)


def edges_in(database: PlainDatabase) -> list[Edge]:
    return [Edge(*row) for row in database.ask("select blocker_id, of_chain, job_id, on_failure from storm_edge")]


def starts_in(database: PlainDatabase) -> list[Start]:
    return [Start(*row) for row in database.ask("select limit_key, at, units from storm_start")]


def effects_in(database: PlainDatabase) -> list[Effect]:
    return [Effect(*row) for row in database.ask("select job_id, lease from storm_effect")]


def follows_in(database: PlainDatabase) -> list[Follow]:
    return [Follow(*row) for row in database.ask("select job_id, followed, event from storm_follow")]


def attempts_in(database: PlainDatabase) -> list[Attempt]:
    """Return the attempts in the queue's own history, oldest first, of jobs that still exist."""
    started = "case when started_at is null then 0 else 1 end"
    return [
        Attempt(*row)
        for row in database.ask(
            f"select job_id, attempt, status, worker, {started} from rowcall_attempts order by job_id, seq"
        )
    ]
