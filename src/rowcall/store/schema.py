"""The tables, indexes and views of every database, each listed once.

A table has a line for each column: its name, its kind and the rest of its definition. Each database has a type for each
kind. A kind with `?` is for columns that every claim and settle writes, or that only history has: SQLite has no check
there, because it would run each time; the code that reads these columns accepts any value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rowcall.base.times import time_of
from rowcall.domain.outcome import (
    BLOCKER_CANCELLED_CODE,
    BLOCKER_FAILED_CODE,
    CHAIN_COMPLETED_CODE,
    DEADLINE_CODE,
    EXPIRED_CODE,
    LOST_CODE,
)
from rowcall.domain.payload import MISMATCH_CODE, REFUSAL_CODES, UNFIT_CODES
from rowcall.domain.step import FOREVER_MS
from rowcall.store.additions import with_additions
from rowcall.store.rendering import literals

QUEUE_ID = "queue_id"
"""The setting that identifies the queue. What is encrypted is bound to it, and it moves with the tables."""
NAME_QUEUE = f"insert into <setting> (name, value) values ('{QUEUE_ID}', {{}})"
FIRST_TABLES = {
    "migration": """
  version int? primary key
  name text? not null
  applied_at time? not null
  oldest int?
  fingerprint text?
""",
    # Columns of a fixed size first: PostgreSQL loses no bytes to their alignment. The long ones last: SQLite reads the
    # others without them.
    "job": """
  id identity
  lease lease not null default 0
  run_at time not null default (<clock>)
  created_at time not null default (<clock>)
  expires_at time
  claimed_at time?
  started_at time?
  finished_at time?
  turn bigint
  chain_id bigint
  timeout seconds
  progress real?
  priority whole not null default 0
  attempt count not null default 0
  max_attempts limit not null default 5
  lost count not null default 0
  chain_index int
  weight limit
  order_blocks int
  status status not null default <scheduled>
  queue name not null default 'default'
  type name not null
  worker key?
  held text
  unfit name
  fair value
  retry text
  key text
  limits text
  ordered value
  target text
  trace_context text
  on_end json
  progress_message text?
  error_code text?
  error_detail text?
  traceback text?
  tags tags
  payload json not null default '{}'
  result json?
""",
    # Exactly the jobs that may be claimed now, in the order of claims: pending, not held, not claimed. Claims and ends
    # of attempts write it, and triggers do for all other changes. `type` also lists the versions of the task that have
    # refused the job. `expires_at` is that of jobs that never started.
    "ready": """
  queue key? not null
  type key? not null
  rank bigint? not null
  turn bigint? not null
  id bigint? not null
  since time? not null
  expires_at time?
  lease bigint? not null default 0
  attempt int? not null default 0
  primary key (queue, type, rank, turn, id)
""",
    # Who holds a job. A job with a row here is running, and its own row is not written until the attempt ends. `lease`
    # is one more than in the job's row, and `attempt` is the number of this attempt.
    "claim": """
  job_id job_key
  lease bigint not null
  holder bigint not null
  claimed_at time? not null
  started_at time?
  lease_until time?
  lease_ms bigint?
  heartbeat_at time?
  progress real?
  attempt int not null
  cancel flag? not null default 0
  worker key not null
  progress_message text?
""",
    # `lease` is that of the job after the attempt had ended
    "attempt": """
  id rowid
  job_id bigint? not null references <job> (id) on delete cascade
  attempt int? not null
  lease bigint?
  claimed_at time? not null
  started_at time?
  finished_at time?
  next_run_at time?
  status text? not null
  worker text?
  error_code text?
  error_detail text?
  traceback text?
""",
    "event": """
  id identity
  job_id bigint? not null references <job> (id) on delete cascade
  at time? not null
  event text? not null
  actor text?
  detail text?
""",
    # Durable steps, in the order of their calls. No foreign key: triggers delete them with their jobs.
    "step": """
  job_id bigint not null
  position int not null
  attempt int not null
  failures int not null default 0
  started_at moment not null
  due_at moment
  finished_at moment
  kind text not null constraint <prefix>step_kind_is_known check (kind in ('step', 'sleep', 'wait'))
  name text not null
  status text not null constraint <prefix>step_status_is_known check (status in ('waiting', 'finished', 'timed_out'))
  error_code text
  error_detail text
  result json
  primary key (job_id, position)
""",
    # signals that no wait has received yet
    "signal": """
  id rowid
  job_id bigint not null
  name text not null
  value json
""",
    "worker": """
  name spelled primary key
  host text not null
  pid int not null
  queues text not null
  concurrency int not null
  version text not null
  lease_ms number not null
  lock_path text
  started_at moment not null
  heartbeats number not null default 0
  heartbeat_at moment not null
  tasks text
""",
    # The status of a tagged job is kept with its tags, so that a page of both is found by one index.
    "job_tag": """
  tag text not null
  job_id bigint not null references <job> (id) on delete cascade
  status text not null default ''
  primary key (tag, job_id)
""",
    # attempts and jobs that ended, as the transactions that ended them counted; folded into the two tables below
    "tally": """
  id rowid
  at moment not null
  jobs number not null
  attempt int not null
  queue text not null
  type text not null
  outcome text
  status text
  error_code text not null
  waits text
  runs text
""",
    "total": """
  status text not null
  queue text not null
  type text not null
  error_code text not null
  attempt int not null
  jobs number not null
  primary key (status, queue, type, error_code, attempt)
""",
    "history": """
  id rowid
  at moment not null
  span_ms number not null
  jobs number not null
  queue text not null
  type text not null
  outcome text not null
  error_code text not null default ''
  waits text
  runs text
""",
    "setting": """
  name text primary key
  value text not null
""",
    # what the HTTP API remembers until a time: requests with an Idempotency-Key, and sessions that were ended
    "note": """
  until moment not null
  name key primary key
  value text not null
""",
    # Who waits for the end of a job, or, as job 0, for what happens to any job: its row lasts a minute, unless it is
    # renewed.
    "waiter": """
  job_id bigint not null
  until moment not null
  name key not null
  primary key (name, job_id)
""",
    # Written while someone reads events, by each transaction that ends attempts or unblocks jobs: a JSON array of the
    # ids and leases of these jobs. The ids of unblocked jobs are negative. On a server, a statement that deletes jobs
    # which have not ended writes a pair of the lowest id and the negated highest one, and a pair of the lowest and the
    # highest id of their events, both negated.
    "change": """
  id identity
  jobs text not null
""",
    # which jobs need which blob; and which blobs a job is about to need, in statements that may be committed one by one
    "blob_ref": """
  job_id bigint not null references <job> (id) on delete cascade
  digest key not null
  primary key (digest, job_id)
""",
    "blob_pin": """
  token key not null
  digest key not null
  reference text not null
  primary key (token, digest)
""",
    # A blocker is older than the jobs that wait for it, so there is no cycle. With `of_chain`, they wait for the whole
    # chain that it began. No foreign key: it would lock the blocker.
    "edge": """
  blocker_id bigint not null
  job_id bigint not null
  resolved_at moment
  position int not null
  of_chain flag not null default 0
  state text not null default 'open'
  on_failure text not null default 'fail'
  primary key (blocker_id, of_chain, job_id)
  constraint <prefix>a_blocker_comes_first check (blocker_id < job_id)
""",
    # a job that runs under a limit; with a worker, it counts until that worker has freed it or is gone
    "slot": """
  job_id bigint not null
  lease bigint not null
  limit_key key not null
  worker text
  primary key (limit_key, job_id, lease)
""",
    # starts under a rate limit, numbered in the order of their times
    "start": """
  number number not null
  at moment not null
  until moment not null
  limit_key key not null
  primary key (limit_key, number)
""",
    # when jobs that are held by a rate limit are to be checked again
    "opening": """
  limit_key key primary key
  opens_at moment not null
""",
    "quota": """
  name key primary key
  concurrency int
  rate int
  per_ms number
""",
    # The turn of the last job that was claimed in fair order. `scope` is a task, or empty for all jobs of the queue.
    "served": """
  queue key? not null
  scope key? not null
  rank bigint? not null
  turn bigint? not null
  primary key (queue, scope, rank)
""",
    "pause": """
  kind text not null constraint <prefix>kind_is_known check (kind = 'queue' or kind = 'task')
  name key not null
  actor text
  at moment not null
  primary key (kind, name)
""",
    "schedule": """
  name spelled primary key
  task text not null
  payload json not null default '{}'
  options json not null default '{}'
  cron text
  every_ms number
  zone text not null default 'UTC'
  catch_up text not null default 'one'
  paused flag not null default 0
  declared flag not null default 0
  actor text
  next_run_at moment
  last_run_at moment
  last_job_id bigint
  problem text
""",
}
TABLES = with_additions(FIRST_TABLES)

# What keeps later jobs of the same value from running, where `ordered` is not null.
HOLDS_ORDER = "ordered is not null and (status in <unfinished> or status = <failed> and order_blocks = 1)"

# Jobs that are neither ready nor claimed, and must start by a time.
EXPIRES_OUTSIDE = (
    "expires_at is not null and attempt = 0 and (status = <scheduled> or status = <blocked> or held is not null"
    " and status = <pending>)"
)

# Jobs that wait, or run, and must end by a time. Where others are blocking them, it has not begun.
HAS_DEADLINE = "deadline_at is not null and (status = <scheduled> or status = <pending>)"
LAST_DEADLINE_MS = 253_370_764_800_000
"""A time that can be moved by a few thousand years: what plain SQL has written may be later."""
NO_CLAIM = "not exists (select 1 from <claim> as claim where claim.job_id = job.id <as_written>)"

# A job that was blocked takes its turn after the jobs that were there before it was unblocked. Covered columns are
# there to be counted without a read of the rows.
INDEXES = (
    "create index <prefix>ready_turned on <ready> (queue, type, id) where turn <> id",
    "create index <prefix>ready_expiry on <ready> (expires_at) where expires_at is not null",
    "create index <prefix>claim_leased on <claim> (lease_until) where lease_until is not null",
    "create index <prefix>job_held on <job> (queue, type, id <covering:run_at, created_at, attempt>)"
    " where held is not null and status = <pending>",
    "create index <prefix>job_held_by on <job> (held, priority desc, coalesce(turn, id), id)"
    " where held is not null and status = <pending>",
    "create index <prefix>job_scheduled on <job> (queue, type, id <covering:run_at, created_at, attempt>)"
    " where status = <scheduled>",
    "create index <prefix>job_due on <job> (run_at) where status = <scheduled>",
    "create index <prefix>job_blocked on <job> (queue, type, id <covering:attempt>) where status = <blocked>",
    f"create index <prefix>job_expiry on <job> (expires_at) where {EXPIRES_OUTSIDE}",
    "create index <prefix>job_unclaimed on <job> (id) where status = <running>",
    "create index <prefix>job_finished on <job> (status, queue, type, id) where finished_at is not null",
    "create index <prefix>job_aged on <job> (status, queue, type, finished_at) where finished_at is not null",
    "create index <prefix>job_failed on <job> (coalesce(error_code, ''), finished_at, id) where status = <failed>",
    "create index <prefix>job_error on <job> (status, error_code, type, id) where error_code is not null",
    "create index <prefix>job_key on <job> (type, key, id) where key is not null",
    f"create index <prefix>job_ordered on <job> (ordered, id) where {HOLDS_ORDER}",
    "create index <prefix>job_fair on <job> (fair, queue, priority, turn)"
    " where fair is not null and status = <pending>",
    "create index <prefix>job_turn on <job> (queue, type, priority, turn)"
    " where fair is not null and status = <pending>",
    "create unique index <prefix>job_chain on <job> (chain_id, chain_index) where chain_id is not null",
    "create index <prefix>job_chain_head on <job> (id) where chain_index = 0",
    "create index <prefix>attempt_job on <attempt> (job_id, id)",
    "create index <prefix>event_job on <event> (job_id, id)",
    "create index <prefix>signal_job on <signal> (job_id, id)",
    "create index <prefix>job_tag_job on <job_tag> (job_id)",
    "create index <prefix>job_tag_status on <job_tag> (tag, status, job_id)",
    "create index <prefix>history_at on <history> (at)",
    "create index <prefix>blob_ref_job on <blob_ref> (job_id)",
    "create index <prefix>edge_by_job on <edge> (job_id, blocker_id, of_chain)",
    "create index <prefix>edge_open on <edge> (job_id) where state = 'open'",
    "create index <prefix>slot_by_job on <slot> (job_id)",
    "create index <prefix>start_until on <start> (until)",
    "create index <prefix>opening_at on <opening> (opens_at)",
    "create index <prefix>schedule_due on <schedule> (next_run_at) where paused = 0 and next_run_at is not null",
)

# What the view of jobs shows of a claim, instead of what is in the job's row.
_HAS_STEPS = "exists (select 1 from <step> where job_id = job.id <as_written>)"
_BY_CLAIM = {
    "status": "<running>",
    "lease": "claim.lease",
    "attempt": "claim.attempt",
    "worker": "claim.worker",
    # the clock may have been set back, or the job committed after the clock was read
    "claimed_at": "<greatest:claim.claimed_at, job.created_at>",
    "started_at": "case when claim.started_at is not null then <greatest:claim.started_at, job.created_at> end",
    # an attempt of a job with durable steps continues where the last one was
    **{
        column: f"case when claim.progress is not null then claim.{column} when {_HAS_STEPS} then job.{column} end"
        for column in ("progress", "progress_message")
    },
    **dict.fromkeys(("finished_at", "result", "error_code", "error_detail", "traceback"), "null"),
}
_FIRST_COLUMNS = [line.split()[0] for line in FIRST_TABLES["job"].strip().splitlines()]
_OF_CLAIM = ("holder", "heartbeat_at", "lease_until", "lease_ms")
_LATER_COLUMNS = [line.split()[0] for line in TABLES["job"].strip().splitlines()][len(_FIRST_COLUMNS) :]


def _shown(name: str) -> str:
    if name in _BY_CLAIM:
        return f"case when claim.job_id is null then job.{name} else {_BY_CLAIM[name]} end as {name}"
    return f"job.{name}"


# a server replaces a view only if its columns stay, and new ones come last
_JOBS = f"""
create view <prefix>jobs as
select {
    ", ".join(
        (
            *map(_shown, _FIRST_COLUMNS),
            *(f"claim.{name}" for name in _OF_CLAIM),
            *map(_shown, _LATER_COLUMNS),
        )
    )
}
from <job> as job left join <claim> as claim on claim.job_id = job.id
"""

# What follows the end of a job: `on_end` has an object for each status that is followed by a job. These are its fields.
NEXT_COLUMNS = "(type, queue, priority, max_attempts, status, run_at, created_at, trace_context, tags, payload)"

# The type of a ready row is a key: see `SEPARATOR` in `rowcall.store.queries.claims`.
READY_TYPE = (
    "case when {0}.unfit is null and <place_in:{0}.type, <separator>> = 0 then {0}.type"
    " else {0}.type || <separator> || coalesce({0}.unfit, '') end"
)
# `~` is the one way to turn an order round that no number is too large for
READY_COLUMNS = "(queue, type, rank, turn, id, since, expires_at, lease, attempt)"
READY_KEY = (
    f"queue = {{0}}.queue and type = {READY_TYPE} and rank = ~{{0}}.priority and turn = coalesce({{0}}.turn, {{0}}.id)"
)
READY_ROW = (
    f"{{0}}.queue, {READY_TYPE}, ~{{0}}.priority, coalesce({{0}}.turn, {{0}}.id), {{0}}.id,"
    " <greatest:{0}.run_at, {0}.created_at>, case when {0}.attempt = 0 then {0}.expires_at end, {0}.lease, {0}.attempt"
)

# The end of an attempt, and on a server the end of a wait for others, adds two to the lease and writes the ready row: a
# trigger that fires costs more. All other changes of a job, by plain SQL too, are left to triggers.
IS_NO_END = "new.lease <> old.lease + 2"
READY_CHANGES = (
    "id, status, held, unfit, queue, type, priority, turn, fair, run_at, created_at, expires_at, attempt, lease"
)

# The turn of a job that becomes ready: one after the last waiting job of the same value, but not before the next turn
# of the others. `{0}` is where the tables are. Where no others wait, the turn is the id, as
# that of other jobs.
HIGHEST_TURN = 2**60
_OF_VALUE = """{0}<job> as other <indexed:job_fair> where other.status = <pending> and other.fair = new.fair
        and other.queue = new.queue and other.priority = new.priority and other.id <> new.id
        and not exists (select 1 from {0}<claim> as claim where claim.job_id = other.id <as_written>) and other.turn"""
FAIR_TURN = f"""
    select case when value_turn is null or value_turn < base then base
                when coalesce(new.weight, 1) > (select count(*) from {_OF_VALUE} = value_turn)
                then value_turn else value_turn + 1 end
    from (
      select (select other.turn from {_OF_VALUE} < {HIGHEST_TURN} order by other.turn desc limit 1) as value_turn,
        case when new.fair like '[null,%' then last + 1 else coalesce(
          (select other.turn from {{0}}<job> as other <indexed:job_turn>
           where other.status = <pending> and other.fair is not null and other.queue = new.queue
             and other.type = new.type and other.priority = new.priority and other.id <> new.id
             and not exists (select 1 from {{0}}<claim> as claim where claim.job_id = other.id <as_written>)
             and other.turn > last and other.turn < {HIGHEST_TURN} order by other.turn limit 1),
          <greatest:last + 1, new.id>) end as base
      from (
        select coalesce(
          (select turn from {{0}}<served> where queue = new.queue and rank = ~new.priority
             and scope = case when new.fair like '[null,%' then '' else new.type end), 0) as last limit 1) as clock
      limit 1) as found"""
TURN_IS_OVER = """new.fair is not null and new.status = <pending> and new.held is null
    and (old.status <> <pending> and old.status <> <running> or new.priority <> old.priority or new.queue <> old.queue
         or new.type <> old.type or old.fair is null or new.fair <> old.fair)"""

# The job's row holds its latest ended attempt while claimed_at is set, and a claim the one that runs; the table holds
# earlier ones.
_ATTEMPTS = f"""
create view <prefix>attempts as
select id as seq, job_id, attempt, status, claimed_at, started_at, finished_at, worker,
       error_code, error_detail, traceback, next_run_at
from <attempt>
union all
select 9000000000000000000, id, attempt,
       case when status = <failed> and error_code = '{LOST_CODE}' then <lost> else status end,
       claimed_at, started_at, finished_at, worker, error_code, error_detail, traceback, null
from <prefix>jobs where claimed_at is not null
"""

_FOREVER = f"{time_of(FOREVER_MS):%Y-%m-%d %H:%M:%S}.000 UTC"
_ENDED_BY_OTHERS = literals(
    (BLOCKER_FAILED_CODE, BLOCKER_CANCELLED_CODE, CHAIN_COMPLETED_CODE, DEADLINE_CODE, *UNFIT_CODES)
)

# A retry may have come later than the end of the wait: the last of the edges says when that was. It is read by the ids
# of jobs only. So its conditions are written in a way that no partial index fits, and subqueries have fences: a server
# that found a table empty when it analyzed it would read all of it for each id.
_TIMELINE = f"""
create view <prefix>timeline as
select id as job_id, created_at as at, cast(0 as bigint) as seq, 0 as rank, 'ENQUEUED' as event, null as actor,
       null as detail, cast(null as text) as secret
from <job>
union all
select job_id, claimed_at, seq, 1, 'CLAIMED', worker, 'attempt ' || attempt, null from <prefix>attempts
union all
select job_id, started_at, seq, 2, 'STARTED', worker, 'attempt ' || attempt, null
from <prefix>attempts where started_at is not null
union all
select job_id, heartbeat_at, 9000000000000000000, 3, 'HEARTBEAT', worker, null, null
from <claim> where heartbeat_at is not null
union all
select id, coalesce(heartbeat_at, finished_at,
                    (select max(past.finished_at) from <attempt> as past where past.job_id = job.id)),
       9000000000000000000, 3, 'PROGRESS', worker,
       <rounded:progress * 100> || ' %' || coalesce(': ' || progress_message, ''), progress_message
from <prefix>jobs as job where progress is not null and (
  heartbeat_at is not null or finished_at is not null
  or exists (select 1 from <attempt> where job_id = job.id <as_written>))
union all
select job_id, finished_at, seq, 4,
       case status when <succeeded> then 'SUCCEEDED' when <lost> then 'RECOVERED' when <released> then 'RELEASED'
                   when <snoozed> then 'SNOOZED' when <cancelled> then 'CANCELLED' else 'FAILED' end,
       case when status = <lost> then null else worker end,
       case when status = <snoozed> then 'until ' || replace(<shown:next_run_at>, '{_FOREVER}', 'it is signalled')
            else error_code || coalesce(': ' || error_detail, '') end,
       case when status <> <snoozed> then error_detail end
from <prefix>attempts where finished_at is not null and status <> <running>
union all
select job_id, finished_at, seq, 5, 'RETRY_SCHEDULED', null, 'for ' || <shown:next_run_at>, null
from <prefix>attempts where status = <failed> and next_run_at is not null
union all
select id, finished_at, 9000000000000000000, 5, 'FAILED', null, error_code, null
from <job> where <by_id:status> = <failed> and coalesce(error_code, '') = '{LOST_CODE}' and claimed_at is not null
union all
select job_id, coalesce(finished_at, started_at), 9000000000000000000, 3,
       case when status = 'timed_out' then 'WAIT_TIMED_OUT'
            when status = 'abandoned' then 'WAIT_ABANDONED' when kind = 'sleep' then 'SLEEPING'
            when kind = 'call' then case status when 'waiting' then 'CALLED' when 'finished' then 'CALL_SUCCEEDED'
                                                when <failed> then 'CALL_FAILED' else 'CALL_CANCELLED' end
            when kind = 'wait' then case when status = 'finished' then 'SIGNAL_RECEIVED' else 'WAITING' end
            when status = 'finished' then 'STEP_FINISHED' else 'STEP_FAILED' end,
       null, case when kind = 'sleep' then 'until ' || <shown:due_at>
                  when kind = 'call' then name || ' (job ' || child_id || coalesce('): ' || error_code, ')')
                  else name || coalesce(': ' || error_code || coalesce(': ' || error_detail, ''), '') end,
       case when kind not in ('sleep', 'call') then error_detail end
from <step> where kind not in ('first', 'patch')
union all
select id, finished_at, 9000000000000000000, 5, 'EXPIRED', null, error_detail, null
from <job> where <by_id:status> = <cancelled> and coalesce(error_code, '') = '{EXPIRED_CODE}'
union all
select job_id, at, 8000000000000000000 + <least:id, 1000000000000000000>, 6, event, actor, detail, null from <event>
union all
select id, created_at, 0, 1, 'BLOCKED', null,
       'blockers: ' || (select count(*) from <edge> as edge where edge.job_id = job.id), null
from <job> as job where exists (select 1 from <edge> as edge where edge.job_id = job.id <as_written>)
union all
select id, (select max(resolved_at) from <edge> as edge where edge.job_id = job.id), 0, 2, 'UNBLOCKED', null, null, null
from <job> as job
where status <> <blocked> and exists (select 1 from <edge> as edge where edge.job_id = job.id <as_written>)
  and not exists (select 1 from <edge> as edge where edge.job_id = job.id
                  and (edge.state in ('open', <failed>) or edge.resolved_at > job.finished_at) <as_written>)
union all
select id, finished_at, 9000000000000000000, 5, case status when <failed> then 'FAILED' else 'CANCELLED' end, null,
       error_code || coalesce(': ' || error_detail, ''), error_detail
from <job>
where case when finished_at is not null and claimed_at is null then 1 else 0 end = 1
  and coalesce(error_code, '') in {_ENDED_BY_OTHERS}
union all
select id, <greatest:run_at, created_at>, 9000000000000000000, 7, 'HELD', null,
       case when held like 'order:%' then 'behind an earlier job of ' else 'by limit ' end || substr(held, 7), null
from <job> where <by_id:status> = <pending> and (coalesce(held, '') like 'limit:%' or coalesce(held, '') like 'order:%')
union all
select id, (select max(finished_at) from <attempt> as attempt where attempt.job_id = job.id), 9000000000000000000, 7,
       'HELD', null, case error_code when '{MISMATCH_CODE}' then 'until a worker comes that the arguments fit'
                     else 'until a worker comes that the recorded steps fit' end, null
from <prefix>jobs as job where status = <pending> and unfit is not null and error_code in {literals(REFUSAL_CODES)}
"""

VIEWS = (_JOBS, _ATTEMPTS, _TIMELINE)


def definitions(columns: str, define: Callable[[str, str, str], str]) -> Iterator[str]:
    """Yield the parts of a CREATE TABLE; `define` makes a column of its name, its kind and the rest."""
    for line in columns.strip().splitlines():
        name, kind, *rest = line.split(maxsplit=2)
        yield line.strip() if name in ("primary", "constraint") else define(name, kind, " ".join(rest))


def create_table(table: str, columns: str, define: Callable[[str, str, str], str], options: str = "") -> str:
    parts = ",\n  ".join(definitions(columns, define))
    return f"create table <{table}> (\n  {parts}\n) {options}"
