"""Texts about durable steps."""

from __future__ import annotations

from rowcall.store.postgres.ends import FENCES
from rowcall.store.queries.claims import OF_JOB

free_waiting = f"""
    select id from <job> where id <in_ids:1> and (status || '' in (<blocked>, <scheduled>)
                                                  or status || '' = <pending> and held is not null)
    union all
    select job.id from <job> as job cross join lateral (
      select 1 from <ready> as ready where {OF_JOB} for update skip locked) as ready
    where job.id <in_ids:1> and job.status || '' = <pending> and job.held is null"""
current = f"""
    select mine.* from {FENCES} cross join lateral (
      select job_id, lease, holder from <claim> as claim where claim.job_id = given.job_id
        and claim.lease = given.lease and claim.holder = given.holder for share) as mine"""
