"""The tables, version by version. Names in angle brackets are filled in by `render`."""

from __future__ import annotations

from typing import NamedTuple

from rowcall.store.sqlite import flow_tables, record_tables, views
from rowcall.store.sqlite.blob_tables import BLOB_TABLES
from rowcall.store.sqlite.record_tables import TAGS_CHECK
from rowcall.store.sqlite.typed import LARGEST, spelled, typed

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
    "edge",
    "slot",
    "start",
    "gate",
    "quota",
    "pause",
    "schedule",
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
    constraint id_is_a_small_positive_number check (id > 0),
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
  name text primary key{spelled("name")},
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

_JOB_TAG = typed("""
create table <job_tag> (
  tag text not null,
  job_id integer not null references <job> (id) on delete cascade,
  primary key (tag, job_id)
) without rowid
""")

_TAGS_UPDATE_TRIGGER = f"""
create trigger <prefix>job_tags_changed before update of tags on <job> when new.tags is not null begin
  {TAGS_CHECK}
end
"""

_TAG_TRIGGER = f"""
create trigger <prefix>job_tags after insert on <job> when new.tags is not null begin
  {TAGS_CHECK}
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
            views.ATTEMPTS,
            views.TIMELINE,
        ),
    ),
    # from here on a migration can say how old the code may be that still works on it (null: none but its own)
    Migration(2, "versions side by side", ("alter table <migration> add column oldest integer",)),
    Migration(
        3,
        "counts, history, retention",
        record_tables.STATEMENTS,
    ),
    Migration(4, "large payloads by reference", BLOB_TABLES),
    Migration(5, "flows and control", flow_tables.STATEMENTS),
)

NEWEST_VERSION = MIGRATIONS[-1].version
