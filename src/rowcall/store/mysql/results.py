"""Texts about waiting for the end of jobs, and for what happens to any job."""

from __future__ import annotations

from rowcall.store.mysql.words import given

ends = """
    select given.id, 1 from <ids:1> left join <job> as job on job.id = given.id
    where job.id is null or job.status in <finished>"""
register_waiter = """
    insert into <waiter> (name, job_id, until)
    select $2, given.id, <now> + interval 60 second from <ids:3>
    on duplicate key update until = values(until)"""
renew_waiter = (
    "update <waiter> set until = <now> + interval 60 second where name = $2 and job_id in $3",
    "select job_id from <waiter> where name = $2 and job_id in $3",
)
prune_waiters = "delete from <waiter> where until < <now>"
notify_waiters = """
    insert into <change> (jobs) select jobs from (
      select json_arrayagg(json_array(given.id, job.lease)) as jobs
      from <ids:1> join <job> as job on job.id = abs(given.id)
      where exists (select 1 from <waiter> where job_id = 0)) as changed
    where jobs is not null"""
# what a transaction that is open now may still write has lower ids: readers keep the ids that they skipped
_WRITING = "information_schema.innodb_trx where trx_id < 281474976710656"  # MySQL numbers readers from there
event_heads = f"""
    select <ms:<now>>, exists (select 1 from <waiter> where name = $2 and job_id = 0),
      coalesce((select max(id) from <job>), 0), coalesce((select max(id) from <event>), 0),
      coalesce((select max(id) from <change>), 0),
      coalesce((select min(cast(trx_id as signed)) from {_WRITING} and trx_id > 0), 0),
      coalesce((select max(cast(trx_id as signed)) from {_WRITING}), 0) + 1"""
_RANGE = "given.source = {} and id between given.low and given.high"
late_rows = f"""
    select * from (
      select given.source, id, cast(id as char) as about
      from {given("source int, low bigint, high bigint", 1)} join <job> on {_RANGE.format(0)}
      union all
      select given.source, id, cast(job_id as char)
      from {given("source int, low bigint, high bigint", 1)} join <event> on {_RANGE.format(1)}
      union all
      select given.source, id, jobs
      from {given("source int, low bigint, high bigint", 1)} join <change> on {_RANGE.format(2)}) as late
    order by 1, 2 limit $2"""
timelines_of = """
    select job.id, job.queue, job.type, coalesce(attempt.lease, job.lease), job.status in <finished>,
      <ms:line.at>, line.seq, line.`rank`, line.event, line.actor, line.detail, line.secret
    from <prefix>timeline as line join <job> as job on job.id = line.job_id
      left join <attempt> as attempt on attempt.id = line.seq
    where line.job_id in $1 order by line.at, job.id, line.seq, line.`rank`"""
