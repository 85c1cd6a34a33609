"""Texts about waiting for the end of jobs."""

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
remove_waiter = "delete from <waiter> where name = $1::text and job_id = any ($2::text::bigint[])"
prune_waiters = """
    delete from <waiter> where (name, job_id) in (
      select name, job_id from <waiter> where until < (select <now>) for update skip locked)
    returning job_id"""
# these run on a caller's connection, too, where every statement has to return rows
notify_waiters = """
    select pg_notify('<channel_of_ends>', job_id::text)::text from <waiter> where job_id = any ($1::text::bigint[])"""
notify_waiters_of_ended = """
    select pg_notify('<channel_of_ends>', job_id::text)::text from <waiter> as waiter
    where not exists (select from <job> where id = waiter.job_id and status not in <finished>)"""
