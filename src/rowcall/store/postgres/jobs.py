"""Texts about jobs."""

from __future__ import annotations

from rowcall.store.postgres.words import time_of

LISTENING = "exists (select from <worker> where listening)"
_TO_QUEUE = "listening and (served is null or served ? $3::text)"
_ANY_EVENT_READER = "exists (select from <waiter> where job_id = 0)"
_LISTENING_TO_QUEUE = f"(exists (select from <worker> where {_TO_QUEUE}) or {_ANY_EVENT_READER})"

_INSERTED_COLUMNS = (
    "type, queue, payload, status, priority, max_attempts, run_at, created_at, timeout, retry, tags, expires_at,"
    " trace_context, on_end, target, limits, fair, weight, ordered, order_blocks"
)
_GIVEN = f"""
  (select now, coalesce({time_of("$7")}, now + $8::bigint * interval '1 millisecond') as run_at,
          coalesce({time_of("$12")}, now + $13::bigint * interval '1 millisecond') as expires_at
   from (select <now> as now) as clock) as given"""
_DUE = "case when given.run_at > given.now then <to:postpone> else <to:enqueue> end"

_STATEMENT_TIME = "date_trunc('milliseconds', statement_timestamp())"

schema_of_tables = """
    select quote_ident(nspname) from pg_namespace
    where oid = (select relnamespace from pg_class where oid = to_regclass(<named:job>))"""
identity = """
    select (date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint,
      (select oid::bigint from pg_database where datname = current_database()),
      coalesce(to_regclass(<named:job>)::oid::bigint, 0), 'text'::text, 7::int4, 0.5::float8"""

# enqueue
insert_plain = f"""
    insert into <job> (type, queue, payload, status, run_at, created_at, priority, max_attempts)
    values ($1::text, $2::text, $3::text::jsonb, <to:enqueue>, {_STATEMENT_TIME}, {_STATEMENT_TIME}, $4::int, $5::int)
    returning id, <ms:created_at>, {_LISTENING_TO_QUEUE.replace("$3", "$2")}"""
insert = f"""
    with inserted as (
      insert into <job> ({_INSERTED_COLUMNS})
      select $2::text, $3::text, case when $17::int = 1 then one.given -> 0 else one.given end, {_DUE}, $5::int,
             $6::int, given.run_at, given.now, $9::float8, $10::text, $11::text::jsonb, given.expires_at, $14::text,
             $15::text::jsonb, $16::text,
             case when $17::int = 1 then one.given ->> 1 end, case when $17::int = 1 then one.given ->> 2 end,
             case when $17::int = 1 then (one.given ->> 3)::int end, case when $17::int = 1 then one.given ->> 4 end,
             case when $17::int = 1 then (one.given ->> 5)::int end
      from {_GIVEN}, jsonb_array_elements($4::text::jsonb) with ordinality as one (given, position)
      returning id, status, run_at, created_at, expires_at)
    select string_agg(id::text, ',' order by id), min(status), <ms:min(run_at)>, <ms:min(created_at)>,
           <ms:min(expires_at)>, {_LISTENING_TO_QUEUE}
    from inserted"""

notify = f"""
    select pg_notify('<channel>', '')::text where {LISTENING}
    union all
    select pg_notify('<channel_of_ends>', '0')::text where {_ANY_EVENT_READER}"""
# In a separate transaction, which need not wait for the disk: a notification does not outlive the server anyway.
notify_alone = f"{notify} union all select set_config('synchronous_commit', 'off', true)"
