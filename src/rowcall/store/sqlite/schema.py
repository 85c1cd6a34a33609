"""The tables, version by version. Names in angle brackets are filled in by `render`."""

from __future__ import annotations

from typing import NamedTuple

from rowcall.store.records import MOST_ATTEMPTS_COUNTED
from rowcall.store.sqlite.blob_tables import BLOB_TABLES

# 'now' is stable within one statement; julianday is exact to 0.05 ms, so rounding gives the millisecond
CLOCK = "cast(round((julianday('now') - 2440587.5) * 86400000) as integer)"

TABLES = (
    "job",
    "attempt",
    "event",
    "worker",
    "job_tag",
    "migration",
    "tally",
    "total",
    "history",
    "setting",
    "blob_ref",
    "blob_pin",
)


def render(template: str, prefix: str) -> str:
    """The SQL with its tables' names and its clock: `<job>`, `<prefix>`, `<now>` (parameter 1, else the clock)."""
    for table in TABLES:
        template = template.replace(f"<{table}>", f"{prefix}{table}")
    return template.replace("<prefix>", prefix).replace("<now>", f"coalesce(?1, {CLOCK})").replace("<clock>", CLOCK)


class Migration(NamedTuple):
    version: int
    name: str
    statements: tuple[str, ...]


VERSION_TABLE = """
create table if not exists <migration> (
  version integer primary key,
  name text not null,
  applied_at integer not null
)
"""

# spelled out: for a list of more than two, SQLite builds a table anew for each row it checks
_STATUS_CHECK = " or ".join(
    f"status = '{status}'"
    for status in ("succeeded", "running", "pending", "scheduled", "failed", "cancelled", "blocked")
)


LARGEST = 2**62  # far from where adding one would make a float of it


def _name_check(column: str) -> str:
    return (
        f"constraint {column}_is_text_without_nul"
        f" check (typeof({column}) = 'text' and length({column}) between 1 and 200 and instr({column}, char(0)) = 0)"
    )


def _whole_check(column: str) -> str:
    return (
        f"constraint {column}_is_a_whole_number"
        f" check (typeof({column}) = 'integer' and {column} between 0 and {LARGEST})"
    )


def _optional_check(column: str, kind: str) -> str:
    return f"constraint {column}_is_{kind} check ({column} is null or typeof({column}) = '{kind}')"


def _time_check(column: str) -> str:
    return (
        f"constraint {column}_is_milliseconds_since_1970"
        f" check ({column} is null or (typeof({column}) = 'integer' and {column} > 100000000000))"
    )


# One odd row must not stop the others: what plain SQL writes is either refused here or fails as a job of its own.
# Columns that every claim and settle writes have no check where reading can bear anything: it would be run each time.
_JOB = f"""
create table <job> (
  id integer primary key autoincrement
    constraint id_is_a_small_positive_number check (id between 1 and {LARGEST}),
  type text not null {_name_check("type")},
  queue text not null default 'default' {_name_check("queue")},
  status text not null default 'scheduled' constraint status_is_known check ({_STATUS_CHECK}),
  priority integer not null default 0 constraint priority_is_a_whole_number check (typeof(priority) = 'integer'),
  attempt integer not null default 0 {_whole_check("attempt")},
  max_attempts integer not null default 5
    constraint max_attempts_is_a_whole_number
    check (typeof(max_attempts) = 'integer' and max_attempts between 1 and {LARGEST}),
  lease integer not null default 0 {_whole_check("lease")},
  lost integer not null default 0 {_whole_check("lost")},
  held text {_optional_check("held", "text")},
  run_at integer not null default (<clock>) {_time_check("run_at")},
  created_at integer not null default (<clock>) {_time_check("created_at")},
  expires_at integer {_time_check("expires_at")},
  claimed_at integer,
  started_at integer,
  finished_at integer,
  heartbeat_at integer,
  lease_until integer,
  lease_ms integer,
  worker text,
  timeout real
    constraint timeout_is_seconds
    check (timeout is null or (typeof(timeout) = 'real' and timeout between 1e-6 and 1e10)),
  retry text {_optional_check("retry", "text")},
  key text {_optional_check("key", "text")},
  chain_id integer {_optional_check("chain_id", "integer")},
  chain_index integer {_optional_check("chain_index", "integer")},
  trace_context text {_optional_check("trace_context", "text")},
  progress real,
  progress_message text,
  tags text,
  error_code text,
  error_detail text,
  traceback text,
  payload text not null default '{{}}' constraint payload_is_text check (typeof(payload) = 'text'),
  result text
)
"""

_ATTEMPT = """
create table <attempt> (
  id integer primary key autoincrement,
  job_id integer not null references <job> (id) on delete cascade,
  attempt integer not null,
  status text not null,
  claimed_at integer not null,
  started_at integer,
  finished_at integer,
  worker text,
  error_code text,
  error_detail text,
  traceback text,
  next_run_at integer
)
"""

_EVENT = """
create table <event> (
  id integer primary key autoincrement,
  job_id integer not null references <job> (id) on delete cascade,
  at integer not null,
  event text not null,
  actor text,
  detail text
)
"""

_WORKER = """
create table <worker> (
  name text primary key,
  host text not null,
  pid integer not null,
  queues text not null,
  concurrency integer not null,
  version text not null,
  lease_ms integer not null,
  lock_path text,
  started_at integer not null,
  beat integer not null default 0,
  beat_at integer not null
) without rowid
"""

_JOB_TAG = """
create table <job_tag> (
  tag text not null,
  job_id integer not null references <job> (id) on delete cascade,
  primary key (tag, job_id)
) without rowid
"""

# Not a CHECK: older versions of SQLite refuse the whole file to connections that do not trust its schema, if one of
# those calls a function of JSON. A trigger is looked at when it fires.
_TAGS_CHECK = """
  select raise(abort, 'CHECK constraint failed: tags_are_a_json_array')
  where not (typeof(new.tags) = 'text' and json_valid(new.tags) and json_type(new.tags) = 'array');
"""

_TAGS_UPDATE_TRIGGER = f"""
create trigger <prefix>job_tags_changed before update of tags on <job> when new.tags is not null begin
  {_TAGS_CHECK}
end
"""

_TAG_TRIGGER = f"""
create trigger <prefix>job_tags after insert on <job> when new.tags is not null begin
  {_TAGS_CHECK}
  insert or ignore into <job_tag> (tag, job_id) select value, new.id from json_each(new.tags);
end
"""

# plain SQL may write history too: what has finished did so at some time
_FINISHED_TRIGGER = """
create trigger <prefix>job_finished_at after insert on <job>
when new.finished_at is null and (new.status = 'succeeded' or new.status = 'failed' or new.status = 'cancelled') begin
  update <job> set finished_at = created_at where id = new.id;
end
"""

# The job's row holds its latest attempt while claimed_at is set; the table holds those that something followed.
_ATTEMPTS = """
create view <prefix>attempts as
select id as seq, job_id, attempt, status, claimed_at, started_at, finished_at, worker,
       error_code, error_detail, traceback, next_run_at
from <attempt>
union all
select 9000000000000000000, id, attempt,
       case when status = 'failed' and error_code = 'WORKER:LOST' then 'lost' else status end,
       claimed_at, started_at, finished_at, worker, error_code, error_detail, traceback, null
from <job> where claimed_at is not null
"""

_TIMELINE = """
create view <prefix>timeline as
select id as job_id, created_at as at, 0 as seq, 0 as rank, 'ENQUEUED' as event, null as actor, null as detail
from <job>
union all
select job_id, claimed_at, seq, 1, 'CLAIMED', worker, 'attempt ' || attempt from <prefix>attempts
union all
select job_id, started_at, seq, 2, 'STARTED', worker, 'attempt ' || attempt
from <prefix>attempts where started_at is not null
union all
select id, heartbeat_at, 9000000000000000000, 3, 'HEARTBEAT', worker, null from <job> where heartbeat_at is not null
union all
select job_id, finished_at, seq, 4,
       case status when 'succeeded' then 'SUCCEEDED' when 'lost' then 'RECOVERED' when 'released' then 'RELEASED'
                   when 'snoozed' then 'SNOOZED' when 'cancelled' then 'CANCELLED' else 'FAILED' end,
       case when status = 'lost' then null else worker end,
       case when error_code is null then null
            else error_code || case when error_detail is null then '' else ': ' || error_detail end end
from <prefix>attempts where finished_at is not null and status <> 'running'
union all
select job_id, finished_at, seq, 5, 'RETRY_SCHEDULED', null,
       'for ' || strftime('%Y-%m-%d %H:%M:%f', next_run_at / 1000.0, 'unixepoch') || ' UTC'
from <prefix>attempts where status = 'failed' and next_run_at is not null
union all
select id, finished_at, 9000000000000000000, 5, 'FAILED', null, error_code
from <job> where status = 'failed' and error_code = 'WORKER:LOST' and claimed_at is not null
union all
select id, finished_at, 9000000000000000000, 5, 'EXPIRED', null, error_detail
from <job> where status = 'cancelled' and error_code = 'EXPIRED:NOT_STARTED'
union all
select job_id, at, 8000000000000000000 + id, 6, event, actor, detail from <event>
"""

_SNOOZED_UNTIL = (
    "case when status = 'snoozed' then"
    " 'until ' || strftime('%Y-%m-%d %H:%M:%f', next_run_at / 1000.0, 'unixepoch') || ' UTC' when error_code is null"
)
_TIMELINE_WITH_PROGRESS = f"""{_TIMELINE.rstrip().replace("case when error_code is null", _SNOOZED_UNTIL)}
union all
select id, heartbeat_at, 9000000000000000000, 3, 'PROGRESS', worker,
       cast(round(progress * 100) as integer) || ' %' || coalesce(': ' || progress_message, '')
from <job> where progress is not null and heartbeat_at is not null
"""

# The status of a tagged job stands with its tags, so that a page of both is found by one index. The statements that
# change a status see to it: a trigger would cost each job a twentieth of its drain, tagged or not.
_TAG_AND_STATUS_TRIGGER = f"""
create trigger <prefix>job_tags after insert on <job> when new.tags is not null begin
  {_TAGS_CHECK}
  insert or ignore into <job_tag> (tag, job_id, status) select value, new.id, new.status from json_each(new.tags);
end
"""

# what has ended, as it was written by those who ended it; folded into the two tables below
_TALLY = """
create table <tally> (
  id integer primary key autoincrement,
  at integer not null,
  queue text not null,
  type text not null,
  outcome text,
  status text,
  error_code text not null,
  attempt integer not null,
  jobs integer not null,
  waits text,
  runs text
)
"""

_TOTAL = """
create table <total> (
  status text not null,
  queue text not null,
  type text not null,
  error_code text not null,
  attempt integer not null,
  jobs integer not null,
  primary key (status, queue, type, error_code, attempt)
) without rowid
"""

_HISTORY = """
create table <history> (
  id integer primary key,
  at integer not null,
  span_ms integer not null,
  queue text not null,
  type text not null,
  outcome text not null,
  jobs integer not null,
  waits text,
  runs text
)
"""

_SETTING = "create table <setting> (name text primary key, value text not null) without rowid"

_IS_FINISHED = "({0}.status = 'succeeded' or {0}.status = 'failed' or {0}.status = 'cancelled')"


def _count(row: str, jobs: int) -> str:
    """One job more or fewer in the totals: SQLite has one writer, so nobody waits for that row."""
    return f"""
  insert into <total> (status, queue, type, error_code, attempt, jobs)
  values ({row}.status, {row}.queue, {row}.type, coalesce({row}.error_code, ''),
          min({row}.attempt, {MOST_ATTEMPTS_COUNTED}), {jobs})
  on conflict (status, queue, type, error_code, attempt) do update set jobs = jobs + excluded.jobs;
"""


# plain SQL may write history too: what has finished did so at some time, and counts
_FINISHED_AND_COUNTED_TRIGGER = f"""
create trigger <prefix>job_finished_at after insert on <job> when {_IS_FINISHED.format("new")} begin
  update <job> set finished_at = created_at where id = new.id and finished_at is null;
  {_count("new", 1)}
end
"""

_DELETED_TRIGGER = f"""
create trigger <prefix>job_deleted after delete on <job> when {_IS_FINISHED.format("old")} begin
  {_count("old", -1)}
end
"""

# connections that do not keep foreign keys would leave these behind
_BELONGINGS_TRIGGER = """
create trigger <prefix>job_belongings after delete on <job> begin
  delete from <attempt> where job_id = old.id;
  delete from <event> where job_id = old.id;
  delete from <job_tag> where job_id = old.id;
end
"""

COUNT_ALL = f"""
insert into <total> (status, queue, type, error_code, attempt, jobs)
select status, queue, type, coalesce(error_code, ''), min(attempt, {MOST_ATTEMPTS_COUNTED}), count(*)
from <job> where finished_at is not null and status in ('succeeded', 'failed', 'cancelled') group by 1, 2, 3, 4, 5
"""

MIGRATIONS = (
    Migration(
        1,
        "jobs, attempts, events, workers",
        (
            _JOB,
            "create index <prefix>job_ready on <job> (queue, type, priority desc, id)"
            " where status = 'pending' and held is null",
            "create index <prefix>job_held on <job> (id) where status = 'pending' and held is not null",
            "create index <prefix>job_blocked on <job> (id) where status = 'blocked'",
            "create index <prefix>job_due on <job> (run_at) where status = 'scheduled'",
            "create index <prefix>job_expiry on <job> (expires_at)"
            " where expires_at is not null and attempt = 0 and status in ('blocked', 'scheduled', 'pending')",
            "create index <prefix>job_owned on <job> (worker, id) where status = 'running'",
            "create index <prefix>job_leased on <job> (lease_until)"
            " where status = 'running' and lease_until is not null",
            "create index <prefix>job_finished on <job> (status, id) where finished_at is not null",
            _ATTEMPT,
            "create index <prefix>attempt_job on <attempt> (job_id, id)",
            _EVENT,
            "create index <prefix>event_job on <event> (job_id, id)",
            _WORKER,
            _JOB_TAG,
            "create index <prefix>job_tag_job on <job_tag> (job_id)",
            _TAG_TRIGGER,
            _TAGS_UPDATE_TRIGGER,
            _FINISHED_TRIGGER,
            _ATTEMPTS,
            _TIMELINE,
        ),
    ),
    # from here on a migration can say how old the code may be that still works on it (null: none but its own)
    Migration(2, "versions side by side", ("alter table <migration> add column oldest integer",)),
    Migration(
        3,
        "counts, history, retention",
        (
            _TALLY,
            _TOTAL,
            _HISTORY,
            "create index <prefix>history_at on <history> (at)",
            _SETTING,
            "drop index <prefix>job_ready",
            # what comes after the id is there to be counted without a look at the rows
            "create index <prefix>job_ready on <job> (queue, type, priority desc, id, run_at, attempt)"
            " where status = 'pending' and held is null",
            "drop index <prefix>job_held",
            "create index <prefix>job_held on <job> (queue, type, id, run_at, attempt)"
            " where status = 'pending' and held is not null",
            "create index <prefix>job_scheduled on <job> (queue, type, id, run_at, attempt) where status = 'scheduled'",
            "drop index <prefix>job_blocked",
            "create index <prefix>job_blocked on <job> (queue, type, id, run_at, attempt) where status = 'blocked'",
            "drop index <prefix>job_finished",
            "create index <prefix>job_finished on <job> (status, queue, type, id) where finished_at is not null",
            "create index <prefix>job_aged on <job> (status, queue, type, finished_at) where finished_at is not null",
            "create index <prefix>job_failed on <job> (coalesce(error_code, ''), finished_at, id)"
            " where status = 'failed'",
            "drop trigger <prefix>job_finished_at",
            _FINISHED_AND_COUNTED_TRIGGER,
            _DELETED_TRIGGER,
            _BELONGINGS_TRIGGER,
            COUNT_ALL,
            "alter table <job_tag> add column status text not null default ''",
            "update <job_tag> set status = (select status from <job> where id = job_id)",
            "create index <prefix>job_tag_status on <job_tag> (tag, status, job_id)",
            "drop trigger <prefix>job_tags",
            _TAG_AND_STATUS_TRIGGER,
            "drop view <prefix>timeline",
            _TIMELINE_WITH_PROGRESS,
        ),
    ),
    Migration(4, "large payloads by reference", BLOB_TABLES),
)

NEWEST_VERSION = MIGRATIONS[-1].version
