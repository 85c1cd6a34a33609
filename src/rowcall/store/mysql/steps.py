"""Texts about durable steps."""

from __future__ import annotations

from rowcall.store.mysql.ends import FENCES

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
    where place = 1 + (select count(*) from <signal> where job_id = $1 and name = $2)"""
