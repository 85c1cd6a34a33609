"""Flows and control: edges, limits, pauses, schedules. Names in angle brackets are filled in by `render`."""

from __future__ import annotations

from rowcall.store.sqlite.typed import spelled, typed
from rowcall.store.sqlite.views import TIMELINE_WITH_FLOWS

# A blocker is older than what waits for it, so there can be no circle. With `of_chain` it stands for the whole chain
# that it began. `unsure` is of use where two can write at once.
_EDGE = typed("""
create table <edge> (
  blocker_id integer not null,
  of_chain integer not null default 0,
  job_id integer not null,
  place integer not null,
  on_failure text not null default 'fail',
  state text not null default 'open',
  resolved_at integer,
  unsure integer not null default 0,
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

# when those that are held by a limit of rate may be looked at again
_GATE = typed("create table <gate> (limit_key text primary key, opens_at integer not null) without rowid")

_QUOTA = typed("""
create table <quota> (
  name text primary key,
  concurrency integer,
  rate integer,
  per_ms integer,
  changed_at integer not null
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
  name text primary key{spelled("name")},
  task text not null,
  payload text not null default '{{}}',
  options text not null default '{{}}',
  cron text,
  every_ms integer,
  zone text not null default 'UTC',
  catch_up text not null default 'one',
  paused integer not null default 0,
  actor text,
  changed_at integer not null,
  next_run_at integer,
  last_run_at integer,
  last_job_id integer,
  problem text
) without rowid
""")

_FLOW_BELONGINGS_TRIGGER = """
create trigger <prefix>job_belongings after delete on <job> begin
  delete from <attempt> where job_id = old.id;
  delete from <event> where job_id = old.id;
  delete from <job_tag> where job_id = old.id;
  delete from <edge> where job_id = old.id;
  delete from <slot> where job_id = old.id and worker is null;
end
"""


def _new_column(column: str, kind: str) -> str:
    return (
        f"alter table <job> add column {column} {kind}"
        f" constraint {column}_is_{kind} check ({column} is null or typeof({column}) = '{kind}')"
    )


STATEMENTS = (
    _new_column("turn", "integer"),
    _new_column("limits", "text"),
    _new_column("cancel_lease", "integer"),
    _new_column("held_until", "integer"),
    _EDGE,
    "create index <prefix>edge_by_job on <edge> (job_id, place)",
    "create index <prefix>edge_open on <edge> (job_id) where state = 'open'",
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
    "drop index <prefix>job_ready",
    # a job that was blocked takes its turn after those that were there before it was unblocked
    "create index <prefix>job_ready on <job>"
    " (queue, type, priority desc, coalesce(turn, id), id, run_at, created_at, attempt, turn)"
    " where status = 'pending' and held is null",
    "create index <prefix>job_turned on <job> (queue, type, id)"
    " where status = 'pending' and held is null and turn is not null",
    "create index <prefix>job_held_by on <job> (held, priority desc, coalesce(turn, id), id)"
    " where status = 'pending' and held is not null",
    "create index <prefix>job_mismatched on <job> (id) where status = 'pending' and held = 'mismatch'",
    # until now nothing gave a meaning to what plain SQL may have put there
    "update <job> set chain_id = null, chain_index = null where chain_id is not null or chain_index is not null",
    "update <job> set key = null where length(cast(key as blob)) > 1800",
    "create index <prefix>job_key on <job> (type, key, id) where key is not null",
    "create unique index <prefix>job_chain on <job> (chain_id, chain_index) where chain_id is not null",
    "create index <prefix>job_chain_head on <job> (id) where chain_index = 0",
    "drop trigger <prefix>job_belongings",
    _FLOW_BELONGINGS_TRIGGER,
    "drop view <prefix>timeline",
    TIMELINE_WITH_FLOWS,
)
