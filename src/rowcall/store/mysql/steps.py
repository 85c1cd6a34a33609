"""Texts about durable steps."""

from __future__ import annotations

from rowcall.domain.blobs import BLOB_KEY
from rowcall.store.mysql.claims import OF_READY
from rowcall.store.mysql.ends import FENCES

free_waiting = f"""
    select id from <job> where id in $1 and (status in (<blocked>, <scheduled>)
                                             or status = <pending> and held is not null)
    union all
    select * from (
      select job.id from <job> as job straight_join <ready> as ready on {OF_READY}
      where job.id in $1 and job.status = <pending> and job.held is null for update skip locked) as free"""
_ENDED = """<job> as child straight_join <step> as step
      on step.job_id = child.parent_id and step.position = child.parent_step and step.child_id = child.id"""
_IS_ENDED = "child.id in $1 and child.status in <finished> and step.status = 'waiting'"
end_calls = (
    f"""
    select step.job_id, step.child_id, coalesce(instr(child.result, '{BLOB_KEY}') > 0, false), step.first_at is not null
    from {_ENDED} where {_IS_ENDED} order by step.job_id, step.position for update""",
    f"""
    update {_ENDED} set step.finished_at = child.finished_at, step.result = child.result,
      step.error_code = child.error_code, step.error_detail = child.error_detail,
      step.status = case child.status when <succeeded> then 'finished' else child.status end
    where {_IS_ENDED}""",
)
keep_results = """
    insert into <blob_ref> (job_id, digest)
    select child.parent_id, ref.digest from <job> as child join <blob_ref> as ref on ref.job_id = child.id
    where child.id in $1 and instr(child.result, ref.digest) > 0
    on duplicate key update digest = values(digest)"""
current = f"""
    select claim.job_id, claim.lease, claim.holder from {FENCES} order by claim.job_id lock in share mode"""
end_sleeps = """
    update <step> as step join <job> as job on job.id = step.job_id set step.due_at = job.run_at
    where step.job_id in $1 and step.kind <> 'wait' and step.status = 'waiting' and step.due_at > job.run_at"""
next_wait = """
    select job_id, type, queue, position, name, started_at, due_at, question, expects from (
      select step.job_id, job.type, job.queue, step.position, step.name, <ms:step.started_at> as started_at,
             <ms:step.due_at> as due_at, step.question, step.expects,
             row_number() over (order by step.position) as place
      from <step> as step join <job> as job on job.id = step.job_id
      where step.kind = 'wait' and step.status = 'waiting' and step.job_id = $1 and step.name = $2) as waits
    where place = 1 + (select count(*) from <signal> where job_id = $1 and name = $2 and received_by is null)"""
