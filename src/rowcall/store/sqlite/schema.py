"""The tables. Names in angle brackets are filled in by `rowcall.store.sqlite.words.render`."""

from __future__ import annotations

import re
from typing import NamedTuple

from rowcall.domain.job import Status
from rowcall.domain.outcome import (
    BLOCKER_CANCELLED_CODE,
    BLOCKER_FAILED_CODE,
    CHAIN_COMPLETED_CODE,
    EXPIRED_CODE,
    LOST_CODE,
)
from rowcall.domain.payload import MISMATCH_CODE
from rowcall.store.counts.queries import MOST_ATTEMPTS_COUNTED
from rowcall.store.rendering import TABLES, literals
from rowcall.store.sqlite.words import LARGEST, LARGEST_SUMMED

LONGEST_STEP = 1_000_000  # more than one statement inserts


class Migration(NamedTuple):
    """`oldest` is the lowest version whose code still works on the tables as this leaves them."""

    version: int
    oldest: int
    name: str
    statements: tuple[str, ...]


VERSION_TABLE = """
create table if not exists <migration> (
  version integer primary key,
  name text not null,
  applied_at integer not null,
  oldest integer
)
"""

TABLE_EXISTS = "select 1 from sqlite_master where type = 'table' and name = '<migration>'"
VERSION_FOUND = "select coalesce(max(version), 0) from <migration>"
MISSING_TABLES = f"""
    select column1 from (values {", ".join(f"('<{table}>')" for table in TABLES)})
    where column1 not in (select name from sqlite_master where type = 'table')"""
OLDEST_CODE = "select max(coalesce(oldest, version)) from <migration> where version > $1"
RECORD_MIGRATION = "insert into <migration> (version, name, applied_at, oldest) values ($2, $3, <now>, $4)"

# Columns hold what they say. SQLite takes any value anywhere, and has STRICT tables only since 3.37.

_COLUMN = re.compile(r"\b(?!id integer)(\w+) (text|integer)( not null| primary key)?")


def typed(table: str) -> str:
    """Return a CREATE TABLE that refuses values of another type than its columns have."""
    head, parenthesis, columns = table.partition("(")
    return head + parenthesis + _COLUMN.sub(_checked, columns)


def _checked(found: re.Match[str]) -> str:
    column, kind, rest = found.groups()
    fits = f"typeof({column}) = '{kind}'"
    if kind == "integer" and not column.endswith(("_id", "lease")):
        fits += f" and {column} between -{LARGEST_SUMMED} and {LARGEST_SUMMED}"
    rule = f"{column} is null or ({fits})" if rest is None else fits
    return f"{found[0]} constraint {column}_is_{kind} check ({rule})"


def _spelled(column: str) -> str:
    """A rule for names by which rows are found: bytes that are not UTF-8 are read as U+FFFD, and never found again."""
    return f" constraint {column}_is_utf_8 check ({column} not glob '*[\ufffd]*')"


def _name_check(column: str) -> str:
    return (
        f"constraint {column}_is_text_without_nul"
        f" check (typeof({column}) = 'text' and length({column}) between 1 and 200 and instr({column}, char(0)) = 0)"
    )


def _whole_check(column: str, lowest: int = 0) -> str:
    return (
        f"constraint {column}_is_a_whole_number"
        f" check (typeof({column}) = 'integer' and {column} between {lowest} and {LARGEST})"
    )


def _optional(column: str, kind: str) -> str:
    return f"{column} {kind} constraint {column}_is_{kind} check ({column} is null or typeof({column}) = '{kind}')"


def _time_check(column: str) -> str:
    return (
        f"constraint {column}_is_milliseconds_since_1970"
        f" check ({column} is null or (typeof({column}) = 'integer' and {column} > 100000000000))"
    )


def _is_one_of(column: str, statuses: tuple[Status, ...]) -> str:
    """Spelled out: for a list of more than two, SQLite builds a table again for each row it checks."""
    return " or ".join(f"{column} = <{status}>" for status in statuses)


_S = Status
_BY_FREQUENCY = (_S.SUCCEEDED, _S.RUNNING, _S.PENDING, _S.SCHEDULED, _S.FAILED, _S.CANCELLED, _S.BLOCKED)

# One odd row must not stop the others: what plain SQL writes is either refused here or fails as a job of its own.
# Columns that every claim and settle writes have no check where reading can bear anything: it would be run each time.
_JOB = f"""
create table <job> (
  id integer primary key autoincrement
    constraint id_is_a_small_positive_number check (id > 0),
  type text not null {_name_check("type")},
  queue text not null default 'default' {_name_check("queue")},
  status text not null default <scheduled> constraint status_is_known check ({_is_one_of("status", _BY_FREQUENCY)}),
  priority integer not null default 0 constraint priority_is_a_whole_number check (typeof(priority) = 'integer'),
  attempt integer not null default 0 {_whole_check("attempt")},
  max_attempts integer not null default 5 {_whole_check("max_attempts", lowest=1)},
  lease integer not null default 0 {_whole_check("lease")},
  lost integer not null default 0 {_whole_check("lost")},
  {_optional("held", "text")},
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
  {_optional("retry", "text")},
  {_optional("key", "text")},
  {_optional("chain_id", "integer")},
  {_optional("chain_index", "integer")},
  {_optional("trace_context", "text")},
  progress real,
  progress_message text,
  tags text,
  error_code text,
  error_detail text,
  traceback text,
  payload text not null default '{{}}' constraint payload_is_text check (typeof(payload) = 'text'),
  result text,
  {_optional("turn", "integer")},
  {_optional("limits", "text")},
  {_optional("cancel_lease", "integer")},
  {_optional("held_until", "integer")}
)
"""

_ATTEMPT = """
create table <attempt> (
  id integer primary key,
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
  id integer primary key,
  job_id integer not null references <job> (id) on delete cascade,
  at integer not null,
  event text not null,
  actor text,
  detail text
)
"""

_WORKER = typed(f"""
create table <worker> (
  name text primary key{_spelled("name")},
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
""")

# The status of a tagged job is kept with its tags, so that a page of both is found by one index. The statements that
# change a status see to it: a trigger would cost each job a twentieth of its drain, tagged or not.
_JOB_TAG = typed("""
create table <job_tag> (
  tag text not null,
  job_id integer not null references <job> (id) on delete cascade,
  status text not null default '',
  primary key (tag, job_id)
) without rowid
""")

# what has ended, as it was written by those who ended it; folded into the two tables below
_TALLY = typed("""
create table <tally> (
  id integer primary key,
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
""")

_TOTAL = typed("""
create table <total> (
  status text not null,
  queue text not null,
  type text not null,
  error_code text not null,
  attempt integer not null,
  jobs integer not null,
  primary key (status, queue, type, error_code, attempt)
) without rowid
""")

_HISTORY = typed("""
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
""")

_SETTING = typed("create table <setting> (name text primary key, value text not null) without rowid")

# which jobs need which blob; and which blobs some job is about to need, in statements that may be committed one by one
_BLOB_REF = typed("""
create table <blob_ref> (
  digest text not null,
  job_id integer not null references <job> (id) on delete cascade,
  primary key (digest, job_id)
) without rowid
""")

_BLOB_PIN = typed("""
create table <blob_pin> (
  token text not null,
  digest text not null,
  reference text not null,
  primary key (token, digest)
) without rowid
""")

# A blocker is older than the jobs that wait for it, so there is no cycle. With `of_chain` it stands for the whole chain
# that it began.
_EDGE = typed("""
create table <edge> (
  blocker_id integer not null,
  of_chain integer not null default 0,
  job_id integer not null,
  position integer not null,
  on_failure text not null default 'fail',
  state text not null default 'open',
  resolved_at integer,
  primary key (blocker_id, of_chain, job_id),
  constraint a_blocker_comes_first check (blocker_id < job_id)
) without rowid
""")

# a job that runs under a limit; one of a worker counts until that worker has freed it or is gone
_SLOT = typed("""
create table <slot> (
  limit_key text not null,
  job_id integer not null,
  lease integer not null,
  worker text,
  primary key (limit_key, job_id, lease)
) without rowid
""")

# starts under a limit of rate, numbered in the order of their times
_START = typed("""
create table <start> (
  limit_key text not null,
  number integer not null,
  at integer not null,
  until integer not null,
  primary key (limit_key, number)
) without rowid
""")

# when jobs that are held by a limit of rate are to be looked at again
_OPENING = typed("create table <opening> (limit_key text primary key, opens_at integer not null) without rowid")

_QUOTA = typed("""
create table <quota> (
  name text primary key,
  concurrency integer,
  rate integer,
  per_ms integer
) without rowid
""")

_PAUSE = typed("""
create table <pause> (
  kind text not null constraint kind_is_known check (kind = 'queue' or kind = 'task'),
  name text not null,
  actor text,
  at integer not null,
  primary key (kind, name)
) without rowid
""")

_SCHEDULE = typed(f"""
create table <schedule> (
  name text primary key{_spelled("name")},
  task text not null,
  payload text not null default '{{}}',
  options text not null default '{{}}',
  cron text,
  every_ms integer,
  zone text not null default 'UTC',
  catch_up text not null default 'one',
  paused integer not null default 0,
  actor text,
  next_run_at integer,
  last_run_at integer,
  last_job_id integer,
  problem text
) without rowid
""")

INDEXES = (
    # A job that was blocked takes its turn after those that were there before it was unblocked. What comes after the
    # id is there to be counted without a look at the rows.
    "create index <prefix>job_ready on <job>"
    " (queue, type, priority desc, coalesce(turn, id), id, run_at, created_at, attempt, turn)"
    " where status = <pending> and held is null",
    "create index <prefix>job_turned on <job> (queue, type, id)"
    " where status = <pending> and held is null and turn is not null",
    "create index <prefix>job_held on <job> (queue, type, id, run_at, created_at, attempt)"
    " where status = <pending> and held is not null",
    "create index <prefix>job_held_by on <job> (held, priority desc, coalesce(turn, id), id)"
    " where status = <pending> and held is not null",
    "create index <prefix>job_mismatched on <job> (id) where status = <pending> and held = 'mismatch'",
    "create index <prefix>job_scheduled on <job> (queue, type, id, run_at, created_at, attempt)"
    " where status = <scheduled>",
    "create index <prefix>job_due on <job> (run_at) where status = <scheduled>",
    "create index <prefix>job_blocked on <job> (queue, type, id, attempt) where status = <blocked>",
    "create index <prefix>job_expiry on <job> (expires_at)"
    " where expires_at is not null and attempt = 0 and status in <waiting>",
    "create index <prefix>job_owned on <job> (worker, id) where status = <running>",
    "create index <prefix>job_leased on <job> (lease_until) where status = <running> and lease_until is not null",
    "create index <prefix>job_finished on <job> (status, queue, type, id) where finished_at is not null",
    "create index <prefix>job_aged on <job> (status, queue, type, finished_at) where finished_at is not null",
    "create index <prefix>job_failed on <job> (coalesce(error_code, ''), finished_at, id) where status = <failed>",
    "create index <prefix>job_key on <job> (type, key, id) where key is not null",
    "create unique index <prefix>job_chain on <job> (chain_id, chain_index) where chain_id is not null",
    "create index <prefix>job_chain_head on <job> (id) where chain_index = 0",
    "create index <prefix>attempt_job on <attempt> (job_id, id)",
    "create index <prefix>event_job on <event> (job_id, id)",
    "create index <prefix>job_tag_job on <job_tag> (job_id)",
    "create index <prefix>job_tag_status on <job_tag> (tag, status, job_id)",
    "create index <prefix>history_at on <history> (at)",
    "create index <prefix>blob_ref_job on <blob_ref> (job_id)",
    "create index <prefix>edge_by_job on <edge> (job_id, position)",
    "create index <prefix>edge_open on <edge> (job_id) where state = 'open'",
    "create index <prefix>slot_by_job on <slot> (job_id)",
    "create index <prefix>start_until on <start> (until)",
    "create index <prefix>opening_at on <opening> (opens_at)",
    "create index <prefix>schedule_due on <schedule> (next_run_at) where paused = 0 and next_run_at is not null",
)

# Not a CHECK: older versions of SQLite refuse the whole file to connections that do not trust its schema, if one of
# those calls a function of JSON. A trigger is looked at when it fires.
_TAGS_CHECK = """
  select raise(abort, 'CHECK constraint failed: tags_are_a_json_array')
  where not (typeof(new.tags) = 'text' and json_valid(new.tags) and json_type(new.tags) = 'array');
"""

_TAG_TRIGGER = f"""
create trigger <prefix>job_tags after insert on <job> when new.tags is not null begin
  {_TAGS_CHECK}
  insert or ignore into <job_tag> (tag, job_id, status) select value, new.id, new.status from json_each(new.tags);
end
"""

_TAGS_UPDATE_TRIGGER = f"""
create trigger <prefix>job_tags_changed before update of tags on <job> when new.tags is not null begin
  {_TAGS_CHECK}
end
"""

_NEW_IS_FINISHED = f"({_is_one_of('new.status', (_S.SUCCEEDED, _S.FAILED, _S.CANCELLED))})"
_OLD_IS_FINISHED = _NEW_IS_FINISHED.replace("new.", "old.")

# never more than the column takes: plain SQL may have written the highest number
SUM_OF_JOBS = f"max(-{LARGEST_SUMMED}, min({LARGEST_SUMMED}, jobs + excluded.jobs))"


def _count(row: str, jobs: int, condition: str) -> str:
    """One job more or fewer in the totals: SQLite has one writer, so no transaction waits for that row."""
    return f"""
  insert into <total> (status, queue, type, error_code, attempt, jobs)
  select {row}.status, {row}.queue, {row}.type, coalesce(cast({row}.error_code as text), ''),
         min({row}.attempt, {MOST_ATTEMPTS_COUNTED}), {jobs}
  where {condition}
  on conflict (status, queue, type, error_code, attempt) do update set jobs = {SUM_OF_JOBS};
"""


_ID_CHECK = "'CHECK constraint failed: id_is_a_small_positive_number'"

# Plain SQL may write history too: what has finished did so at some time, and counts. It may also give an id, and the
# next ones are counted from there: one near the highest would leave none to come. One trigger for both, as each costs
# every insert; within a statement SQLite shows the last id before it.
_INSERTED_TRIGGER = f"""
create trigger <prefix>job_finished_at after insert on <job>
when {_NEW_IS_FINISHED} or new.id > {LARGEST} begin
  select raise(abort, {_ID_CHECK}) where new.id > {LARGEST}
    and new.id - coalesce((select seq from sqlite_sequence where name = '<job>' collate nocase), 0) > {LONGEST_STEP};
  update <job> set finished_at = created_at
  where id = new.id and finished_at is null and {_NEW_IS_FINISHED};
  {_count("new", 1, _NEW_IS_FINISHED)}
end
"""

_ID_TRIGGER = f"""
create trigger <prefix>job_id before update of id on <job> when new.id > {LARGEST} begin
  select raise(abort, {_ID_CHECK});
end
"""

_DELETED_TRIGGER = f"""
create trigger <prefix>job_deleted after delete on <job> when {_OLD_IS_FINISHED} begin
  {_count("old", -1, _OLD_IS_FINISHED)}
end
"""

# connections that do not keep foreign keys would leave these behind
_BELONGINGS_TRIGGER = """
create trigger <prefix>job_belongings after delete on <job> begin
  delete from <attempt> where job_id = old.id;
  delete from <event> where job_id = old.id;
  delete from <job_tag> where job_id = old.id;
  delete from <edge> where job_id = old.id;
  delete from <slot> where job_id = old.id and worker is null;
end
"""

# The job's row holds its latest attempt while claimed_at is set; the table holds those that something followed.
_ATTEMPTS = f"""
create view <prefix>attempts as
select id as seq, job_id, attempt, status, claimed_at, started_at, finished_at, worker,
       error_code, error_detail, traceback, next_run_at
from <attempt>
union all
select 9000000000000000000, id, attempt,
       case when status = <failed> and error_code = '{LOST_CODE}' then 'lost' else status end,
       claimed_at, started_at, finished_at, worker, error_code, error_detail, traceback, null
from <job> where claimed_at is not null
"""

_ENDED_BY_OTHERS = literals((BLOCKER_FAILED_CODE, BLOCKER_CANCELLED_CODE, CHAIN_COMPLETED_CODE, MISMATCH_CODE))


def _shown(time: str) -> str:
    return f"strftime('%Y-%m-%d %H:%M:%f', {time} / 1000.0, 'unixepoch') || ' UTC'"


# a retry may have come later than what ended the wait: the last of the edges says when that was
_TIMELINE = f"""
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
select id, heartbeat_at, 9000000000000000000, 3, 'PROGRESS', worker,
       cast(round(progress * 100) as integer) || ' %' || coalesce(': ' || progress_message, '')
from <job> where progress is not null and heartbeat_at is not null
union all
select job_id, finished_at, seq, 4,
       case status when <succeeded> then 'SUCCEEDED' when 'lost' then 'RECOVERED' when 'released' then 'RELEASED'
                   when 'snoozed' then 'SNOOZED' when <cancelled> then 'CANCELLED' else 'FAILED' end,
       case when status = 'lost' then null else worker end,
       case when status = 'snoozed' then 'until ' || {_shown("next_run_at")}
            else error_code || coalesce(': ' || error_detail, '') end
from <prefix>attempts where finished_at is not null and status <> <running>
union all
select job_id, finished_at, seq, 5, 'RETRY_SCHEDULED', null, 'for ' || {_shown("next_run_at")}
from <prefix>attempts where status = <failed> and next_run_at is not null
union all
select id, finished_at, 9000000000000000000, 5, 'FAILED', null, error_code
from <job> where status = <failed> and error_code = '{LOST_CODE}' and claimed_at is not null
union all
select id, finished_at, 9000000000000000000, 5, 'EXPIRED', null, error_detail
from <job> where status = <cancelled> and error_code = '{EXPIRED_CODE}'
union all
select job_id, at, 8000000000000000000 + id, 6, event, actor, detail from <event>
union all
select id, created_at, 0, 1, 'BLOCKED', null,
       'by ' || (select count(*) from <edge> as edge where edge.job_id = job.id)
from <job> as job where exists (select 1 from <edge> as edge where edge.job_id = job.id)
union all
select id, (select max(resolved_at) from <edge> as edge where edge.job_id = job.id), 0, 2, 'UNBLOCKED', null, null
from <job> as job where status <> <blocked> and exists (select 1 from <edge> as edge where edge.job_id = job.id)
  and not exists (select 1 from <edge> as edge where edge.job_id = job.id and edge.state in ('open', 'failed'))
union all
select id, finished_at, 9000000000000000000, 5, case status when <failed> then 'FAILED' else 'CANCELLED' end, null,
       error_code || coalesce(': ' || error_detail, '')
from <job> where finished_at is not null and claimed_at is null and error_code in {_ENDED_BY_OTHERS}
union all
select id, max(run_at, created_at), 9000000000000000000, 7, 'HELD', null, 'by limit ' || substr(held, 7)
from <job> where status = <pending> and held like 'limit:%'
union all
select id, (select max(finished_at) from <attempt> as attempt where attempt.job_id = job.id), 9000000000000000000, 7,
       'HELD', null, 'until a worker comes that the arguments fit, at the latest until ' || {_shown("held_until")}
from <job> as job where status = <pending> and held = 'mismatch'
"""

MIGRATIONS = (
    Migration(
        1,
        1,
        "the tables of the first release",
        (
            *(_JOB, _ATTEMPT, _EVENT, _WORKER, _JOB_TAG),
            *(_TALLY, _TOTAL, _HISTORY, _SETTING),
            *(_BLOB_REF, _BLOB_PIN),
            *(_EDGE, _SLOT, _START, _OPENING, _QUOTA, _PAUSE, _SCHEDULE),
            *INDEXES,
            *(_TAG_TRIGGER, _TAGS_UPDATE_TRIGGER, _INSERTED_TRIGGER, _ID_TRIGGER, _DELETED_TRIGGER),
            *(_BELONGINGS_TRIGGER, _ATTEMPTS, _TIMELINE),
        ),
    ),
)
NEWEST_VERSION = MIGRATIONS[-1].version
