"""Flows and control: edges, limits, pauses, schedules. Names in angle brackets are filled in by `render`."""

from __future__ import annotations

from rowcall.store.postgres.record_tables import counted
from rowcall.store.postgres.views import TIMELINE_WITH_FLOWS

# A blocker is older than what waits for it, so there can be no circle. With `of_chain` it stands for the whole chain
# that it began. No foreign key: it would lock the blocker. `unsure` is an edge that was written without a look at what
# others were about to commit: a sweep has that look.
_EDGE = """
create table <edge> (
  blocker_id bigint not null,
  job_id bigint not null,
  resolved_at <prefix>moment_type,
  place integer not null,
  of_chain smallint not null default 0,
  unsure smallint not null default 0,
  state text not null default 'open',
  on_failure text not null default 'fail',
  primary key (blocker_id, of_chain, job_id),
  constraint <prefix>a_blocker_comes_first check (blocker_id < job_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)
"""

# a job that runs under a limit; one of a worker counts until that worker has freed it or is gone
_SLOT = """
create table <slot> (
  job_id bigint not null,
  lease bigint not null,
  limit_key text collate "C" not null,
  worker text,
  primary key (limit_key, job_id, lease)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)
"""

# starts under a limit of rate, numbered in the order of their times
_START = """
create table <start> (
  number <prefix>number_type not null,
  at <prefix>moment_type not null,
  until <prefix>moment_type not null,
  limit_key text collate "C" not null,
  primary key (limit_key, number)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)
"""

# when those that are held by a limit of rate may be looked at again
_GATE = """
create table <gate> (
  limit_key text collate "C" primary key,
  opens_at <prefix>moment_type not null
) with (fillfactor = 50)
"""

_QUOTA = """
create table <quota> (
  name text collate "C" primary key,
  concurrency integer,
  rate integer,
  per_ms <prefix>number_type,
  changed_at <prefix>moment_type not null
)
"""

_PAUSE = """
create table <pause> (
  kind text not null constraint <prefix>kind_is_known check (kind in ('queue', 'task')),
  name text collate "C" not null,
  actor text,
  at <prefix>moment_type not null,
  primary key (kind, name)
)
"""

_SCHEDULE = """
create table <schedule> (
  name text collate "C" primary key,
  task text not null,
  payload jsonb not null default '{}',
  options jsonb not null default '{}',
  cron text,
  every_ms <prefix>number_type,
  zone text not null default 'UTC',
  catch_up text not null default 'one',
  paused smallint not null default 0,
  actor text,
  changed_at <prefix>moment_type not null,
  next_run_at <prefix>moment_type,
  last_run_at <prefix>moment_type,
  last_job_id bigint,
  problem text
) with (fillfactor = 50)
"""

# Who wants to be told of the end of a job: its row lasts a minute, unless it says so again. It is not logged, so that a
# wait costs no write to the disk; after a crash of the server they look by themselves until they say so again.
_WAITER = """
create unlogged table <waiter> (
  job_id bigint not null,
  until <prefix>moment_type not null,
  name text collate "C" not null,
  primary key (name, job_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500)
"""

_DELETED_FUNCTION = f"""
create or replace function <prefix>count_deleted() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $body$
begin
  {counted("deleted", "-")}
  if exists (select from <schema>.<edge>) then
    delete from <schema>.<edge> where job_id operator(pg_catalog.=) any (array(select id from deleted));
  end if;
  if exists (select from <schema>.<slot>) then
    delete from <schema>.<slot>
    where worker is null and job_id operator(pg_catalog.=) any (array(select id from deleted));
  end if;
  return null;
end
$body$
"""

_EMPTIED_FUNCTION = """
create or replace function <prefix>count_none() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $body$
begin
  lock table <schema>.<tally>, <schema>.<total> in share row exclusive mode;  -- whoever folds now comes first
  delete from <schema>.<total>;
  delete from <schema>.<tally> where outcome is null;
  update <schema>.<tally> set status = null where status is not null;
  delete from <schema>.<edge>;
  delete from <schema>.<slot> where worker is null;
  return null;
end
$body$
"""

STATEMENTS = (
    "alter table <job> add column turn bigint",
    "alter table <job> add column limits text",
    "alter table <job> add column cancel_lease bigint",
    "alter table <job> add column held_until <prefix>moment_type",
    _EDGE,
    # If all edges had one blocker, or one job, when they were analyzed, any index looks as good as any other, and a
    # wrong one is gone through whole for each edge.
    "alter table <edge> alter column blocker_id set (n_distinct = -0.5), alter column job_id set (n_distinct = -0.5)",
    "create index <prefix>edge_by_job on <edge> (job_id, blocker_id, of_chain)",
    "create index <prefix>edge_open on <edge> (job_id) where state = 'open'",
    "create index <prefix>edge_unsure on <edge> (blocker_id) where unsure <> 0",
    _SLOT,
    "create index <prefix>slot_by_job on <slot> (job_id)",
    _START,
    "create index <prefix>start_until on <start> (until)",
    _GATE,
    "create index <prefix>gate_opens on <gate> (opens_at)",
    _QUOTA,
    _PAUSE,
    _SCHEDULE,
    "create index <prefix>schedule_due on <schedule> (next_run_at) where paused = 0 and next_run_at is not null",
    _WAITER,
    "create index <prefix>waiter_by_job on <waiter> (job_id)",
    "drop index <prefix>job_ready",
    # a job that was blocked takes its turn after those that were there before it was unblocked
    "create index <prefix>job_ready on <job> (queue, type, priority desc, coalesce(turn, id), id)"
    " include (run_at, created_at, attempt, turn) where status = 'pending' and held is null",
    "create index <prefix>job_turned on <job> (queue, type, id)"
    " where status = 'pending' and held is null and turn is not null",
    "create index <prefix>job_held_by on <job> (held, priority desc, coalesce(turn, id), id)"
    " where status = 'pending' and held is not null",
    "create index <prefix>job_mismatched on <job> (id) where status = 'pending' and held = 'mismatch'",
    # until now nothing gave a meaning to what plain SQL may have put there
    "update <job> set chain_id = null, chain_index = null where chain_id is not null or chain_index is not null",
    "update <job> set key = null where octet_length(key) > 1800",
    "create index <prefix>job_key on <job> (type, key, id) where key is not null",
    "create unique index <prefix>job_chain on <job> (chain_id, chain_index) where chain_id is not null",
    "create index <prefix>job_chain_head on <job> (id) where chain_index = 0",
    _DELETED_FUNCTION,
    _EMPTIED_FUNCTION,
    "drop view <prefix>timeline",
    TIMELINE_WITH_FLOWS,
)
