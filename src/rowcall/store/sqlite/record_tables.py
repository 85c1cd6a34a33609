"""Counts, history and settings: their tables, and what keeps them true. `render` fills in names in angle brackets."""

from __future__ import annotations

from rowcall.store.records import MOST_ATTEMPTS_COUNTED
from rowcall.store.sqlite.typed import LARGEST, check_of, typed
from rowcall.store.sqlite.views import TIMELINE_WITH_PROGRESS

LONGEST_STEP = 1_000_000  # more than one statement inserts

# Not a CHECK: older versions of SQLite refuse the whole file to connections that do not trust its schema, if one of
# those calls a function of JSON. A trigger is looked at when it fires.
TAGS_CHECK = """
  select raise(abort, 'CHECK constraint failed: tags_are_a_json_array')
  where not (typeof(new.tags) = 'text' and json_valid(new.tags) and json_type(new.tags) = 'array');
"""

# The status of a tagged job stands with its tags, so that a page of both is found by one index. The statements that
# change a status see to it: a trigger would cost each job a twentieth of its drain, tagged or not.
_TAG_AND_STATUS_TRIGGER = f"""
create trigger <prefix>job_tags after insert on <job> when new.tags is not null begin
  {TAGS_CHECK}
  insert or ignore into <job_tag> (tag, job_id, status) select value, new.id, new.status from json_each(new.tags);
end
"""

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

_IS_FINISHED = "({0}.status = 'succeeded' or {0}.status = 'failed' or {0}.status = 'cancelled')"


# never more than the column takes: plain SQL may have written the highest number
SUM_OF_JOBS = "max(-9007199254740992, min(9007199254740992, jobs + excluded.jobs))"


def _count(row: str, jobs: int) -> str:
    """One job more or fewer in the totals: SQLite has one writer, so nobody waits for that row."""
    return f"""
  insert into <total> (status, queue, type, error_code, attempt, jobs)
  select {row}.status, {row}.queue, {row}.type, coalesce(cast({row}.error_code as text), ''),
         min({row}.attempt, {MOST_ATTEMPTS_COUNTED}), {jobs}
  where {_IS_FINISHED.format(row)}
  on conflict (status, queue, type, error_code, attempt) do update set jobs = {SUM_OF_JOBS};
"""


ID_CHECK = "'CHECK constraint failed: id_is_a_small_positive_number'"

# Plain SQL may write history too: what has finished did so at some time, and counts. It may also give an id, and the
# next ones are counted from there: one near the highest would leave none to come. One trigger for both, as each costs
# every insert; within a statement SQLite shows the last id before it.
_FINISHED_AND_COUNTED_TRIGGER = f"""
create trigger <prefix>job_finished_at after insert on <job>
when {_IS_FINISHED.format("new")} or new.id > {LARGEST} begin
  select raise(abort, {ID_CHECK}) where new.id > {LARGEST}
    and new.id - coalesce((select seq from sqlite_sequence where name = '<job>' collate nocase), 0) > {LONGEST_STEP};
  update <job> set finished_at = created_at
  where id = new.id and finished_at is null and {_IS_FINISHED.format("new")};
  {_count("new", 1)}
end
"""

_ID_TRIGGER = f"""
create trigger <prefix>job_id before update of id on <job> when new.id > {LARGEST} begin
  select raise(abort, {ID_CHECK});
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
select status, queue, type, coalesce(cast(error_code as text), ''), min(attempt, {MOST_ATTEMPTS_COUNTED}), count(*)
from <job> where finished_at is not null and status in ('succeeded', 'failed', 'cancelled') group by 1, 2, 3, 4, 5
"""

STATEMENTS = (
    _TALLY,
    _TOTAL,
    _HISTORY,
    "create index <prefix>history_at on <history> (at)",
    _SETTING,
    "drop index <prefix>job_ready",
    # what comes after the id is there to be counted without a look at the rows
    "create index <prefix>job_ready on <job> (queue, type, priority desc, id, run_at, created_at, attempt)"
    " where status = 'pending' and held is null",
    "drop index <prefix>job_held",
    "create index <prefix>job_held on <job> (queue, type, id, run_at, created_at, attempt)"
    " where status = 'pending' and held is not null",
    "create index <prefix>job_scheduled on <job> (queue, type, id, run_at, created_at, attempt)"
    " where status = 'scheduled'",
    "drop index <prefix>job_blocked",
    "create index <prefix>job_blocked on <job> (queue, type, id, attempt) where status = 'blocked'",
    "drop index <prefix>job_finished",
    "create index <prefix>job_finished on <job> (status, queue, type, id) where finished_at is not null",
    "create index <prefix>job_aged on <job> (status, queue, type, finished_at) where finished_at is not null",
    "create index <prefix>job_failed on <job> (coalesce(error_code, ''), finished_at, id) where status = 'failed'",
    "drop trigger <prefix>job_finished_at",
    _FINISHED_AND_COUNTED_TRIGGER,
    _ID_TRIGGER,
    _DELETED_TRIGGER,
    _BELONGINGS_TRIGGER,
    COUNT_ALL,
    f"alter table <job_tag> add column status text not null default '' {check_of('status', 'text')}",
    "update <job_tag> set status = (select status from <job> where id = job_id)",
    "create index <prefix>job_tag_status on <job_tag> (tag, status, job_id)",
    "drop trigger <prefix>job_tags",
    _TAG_AND_STATUS_TRIGGER,
    "drop view <prefix>timeline",
    TIMELINE_WITH_PROGRESS,
)
