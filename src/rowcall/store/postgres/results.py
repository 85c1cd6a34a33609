"""Texts about waiting for the end of jobs, and for what happens to any job."""

from __future__ import annotations

# xmax names the transaction that changed the row, and may not have committed yet, or that only locked it
ends = """
    select given.id, (found.id is null or found.status in <finished>)::int
    from unnest($1::text::bigint[]) as given (id)
    left join lateral (
      select id, status, xmax::text as changed_by from <job> as job where job.id = given.id) as found on true
    where found.id is null or found.status in <finished> or found.changed_by <> '0'"""
# a waiter that is alive registers again three times in that time
register_waiter = """
    insert into <waiter> (name, job_id, until)
    select $2::text, given.id, <now> + interval '60 seconds' from unnest($3::text::bigint[]) as given (id)
    on conflict (name, job_id) do update set until = excluded.until"""
renew_waiter = """
    update <waiter> set until = <now> + interval '60 seconds'
    where name = $2::text and job_id = any ($3::text::bigint[]) returning job_id"""
prune_waiters = """
    delete from <waiter> where (name, job_id) in (
      select name, job_id from <waiter> where until < (select <now>) for update skip locked)
    returning job_id"""
# these run on a caller's connection, too, where every statement has to return rows
notify_waiters = """
    with recorded as (
      insert into <change> (jobs) select jobs from (
        select jsonb_agg(jsonb_build_array(given.id, job.lease))::text as jobs
        from unnest($1::text::bigint[]) as given (id) join <job> as job on job.id = abs(given.id)
        where exists (select from <waiter> where job_id = 0)) as changed
      where jobs is not null)
    select pg_notify('<channel_of_ends>', job_id::text)::text from <waiter>
    where job_id = any (array_append($1::text::bigint[], 0::bigint))"""

notify_readers = """
    select pg_notify('<channel_of_ends>', job_id::text)::text from <waiter> where job_id = any ($1::text::bigint[])"""

event_heads = """
    select <ms:(select <now>)>, exists (select from <waiter> where name = $2::text and job_id = 0),
      coalesce((select max(id) from <job>), 0), coalesce((select max(id) from <event>), 0),
      coalesce((select max(id) from <change>), 0),
      pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint"""
late_rows = """
    with given (source, low, high) as (
      select (item ->> 0)::int, (item ->> 1)::bigint, (item ->> 2)::bigint
      from jsonb_array_elements($1::text::jsonb) as item)
    select given.source, found.id, found.about from given cross join lateral (
      select id, id::text as about from <job> where given.source = 0 and id between low and high
      union all
      select id, job_id::text from <event> where given.source = 1 and id between low and high
      union all
      select id, jobs from <change> where given.source = 2 and id between low and high) as found
    order by 1, 2 limit $2::int"""
timelines_of = """
    select job.id, job.queue::text, job.type::text,
      coalesce((select lease from <attempt> where id = line.seq and job_id = job.id), job.lease),
      job.status in <finished>, <ms_or_null:line.at>, line.seq, line.rank, line.event, line.actor, line.detail,
      line.secret
    from unnest($1::text::bigint[]) as given (id)
      cross join lateral (select id, queue, type, lease, status from <job> where id = given.id offset 0) as job
      cross join lateral (select * from <prefix>timeline where job_id = given.id offset 0) as line
    order by line.at, job.id, line.seq, line.rank"""
