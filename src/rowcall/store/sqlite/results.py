"""Texts about waiting for the end of jobs, and for what happens to any job."""

from __future__ import annotations

ends = """
    select given.value, 1 from json_each($1) as given
    where not exists (select 1 from <job> where id = given.value and status not in <finished>)"""
register_waiter = """
    insert into <waiter> (name, job_id, until) select $2, given.value, <now> + 60000 from json_each($3) as given
    where true on conflict (name, job_id) do update set until = excluded.until"""
renew_waiter = """
    update <waiter> set until = <now> + 60000 where name = $2 and job_id in (select value from json_each($3))
    returning job_id"""
prune_waiters = "delete from <waiter> where until < <now> returning job_id"
# it returns rows, as a statement on a caller's connection has to
notify_waiters = """
    insert into <change> (jobs) select jobs from (
      select json_group_array(json_array(given.value, job.lease)) as jobs, count(*) as number
      from json_each($1) as given cross join <job> as job on job.id = abs(given.value)
      where exists (select 1 from <waiter> where job_id = 0))
    where number > 0 returning id"""

event_heads = """
    select <now>, reader.name is not null,
      coalesce((select max(id) from <job>), 0), coalesce((select max(id) from <event>), 0),
      coalesce((select max(id) from <change>), 0), 0, 0, coalesce(reader.deleted_job, 0),
      coalesce(reader.deleted_event, 0)
    from (select 1) left join <waiter> as reader on reader.name = $2 and reader.job_id = 0"""
# one at a time: for a list of ids, SQLite reads the whole view
timeline_of_one = """
    select job.id, job.queue, job.type, coalesce(attempt.lease, job.lease), job.status in <finished>, line.at, line.seq,
      line.rank, line.event, line.actor, line.detail, line.secret
    from <prefix>timeline as line cross join <job> as job left join <attempt> as attempt on attempt.id = line.seq
    where line.job_id = $1 and job.id = $1 order by line.at, line.seq, line.rank"""
