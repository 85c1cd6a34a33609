"""Texts about what people do to jobs and queues."""

from __future__ import annotations

from rowcall.store.mysql.words import COLLATION, MOST_COUNT, given, time_of
from rowcall.store.queries.control import REASON

interrupted = f"""
    select given.job_id, given.lease, live.job_id is not null, {REASON.replace("job.id", "live.job_id")}, null
    from {given("job_id bigint, lease bigint, holder bigint", 2)} left join (
      <claim> as live join <job> as job on job.id = live.job_id and job.lease = live.lease - 1
        and job.status not in <finished>
    ) on live.job_id = given.job_id and live.lease = given.lease and live.holder = given.holder
    where live.job_id is null or live.cancel <> 0
    union all select 0, 0, 1, null, name from <setting> where value = '' and name like 'stack:%'
    union all
    select 0, 0, 1, null, 'limit:' || <ms:changed_at> || ':' || name from <quota> where changed_at is not null
    union all
    select 0, 0, 1, null, 'limit:' || <ms:until> || ':' || limit_key from <limit_hold> where until > <now>
    union all
    select 0, 0, 1, null, 'limit:' || <ms:open_until> || ':' || limit_key from <breaker> where open_until > <now>"""
_GIVEN = f"""nullif(json_unquote(json_extract($2, concat('$."', job.id, '"[{{}}]'))) collate {COLLATION}, 'null')"""
_RUN_AT = f"coalesce({time_of(_GIVEN.format(1))}, <now>)"
rerun = f"""
    update json_table(json_keys($2), '$[*]' columns (id bigint path '$')) as listed
      straight_join <job> as job on job.id = listed.id
    set job.lease = <next:job.lease>,
      job.run_at = {_RUN_AT},
      job.max_attempts = least(job.max_attempts + {_GIVEN.format(0)}, {MOST_COUNT}),
      job.claimed_at = null, job.started_at = null, job.finished_at = null, job.expires_at = null,
      job.deadline_at = null, job.lost = 0,
      job.held = null, job.unfit = null, job.result = null, job.error_code = null, job.error_detail = null,
      job.traceback = null,
      job.progress = case when job.status <> <succeeded> then job.progress end,
      job.progress_message = case when job.status <> <succeeded> then job.progress_message end,
      job.status = case when {_RUN_AT} > <now> then <to:reschedule> else <to:rerun> end"""
obstacles = """
    select job.id, 'key', (
      select max(same.id) from <job> as same where same.type = job.type and same.`key` = job.`key`
        and same.id <> job.id and same.status in <unfinished>) as other
    from <job> as job where job.id in $1 and job.`key` is not null having other is not null
    union all
    select job.id, 'chain', (
      select min(step.id) from <job> as step
      where step.chain_id = job.chain_id and step.chain_index > job.chain_index
        and not (step.attempt = 0 and step.status in (<blocked>, <failed>, <cancelled>))) as other
    from <job> as job where job.id in $1 and job.chain_id is not null having other is not null"""
# each of them commits
restart_ids = tuple(f"alter table <{table}> auto_increment = 1" for table in ("job", "event", "change", "batch"))
reschedule = (
    """
    update <job> as job join (
      select now, coalesce(<time:3>, now + <interval:4>) as due from (select <now> as now) as clock) as chosen
    set job.deadline_at = case when job.lease <> 0 then job.deadline_at else least(job.deadline_at, <time:5>)
          + interval timestampdiff(microsecond, job.run_at, chosen.due) microsecond end,
      job.run_at = chosen.due, job.held = null, job.unfit = null,
      job.status = case when job.status = <blocked> then job.status
                        when chosen.due > chosen.now then <to:reschedule> else <to:stage> end
    where job.id in $2""",
    "select id, <ms:run_at> from <job> where id in $2",
)
pause = (
    """
    insert into <pause> (kind, name, actor, at) values ($2, $3, $4, <now>)
    on duplicate key update kind = values(kind)""",
    "select kind, name, actor, <ms:at> from <pause> where kind = $2 and name = $3",
)
drop_old_references = """
    delete ref from <blob_ref> as ref where job_id in $1
      and not exists (select 1 from <job> as job where job.id = ref.job_id
                      and (instr(job.payload, ref.digest) or instr(coalesce(job.result, ''), ref.digest)))
      and not exists (select 1 from <step> as step where step.job_id = ref.job_id and instr(step.result, ref.digest))
      and not exists (select 1 from <signal> as sent where sent.job_id = ref.job_id
                      and instr(sent.value, ref.digest))"""
