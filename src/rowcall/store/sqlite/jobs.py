"""Texts about jobs."""

from __future__ import annotations

from rowcall.store.schema import READY_COLUMNS, READY_ROW
from rowcall.store.sqlite.schema import BULK_AFTER

insert_plain = """
    insert into <job> (type, queue, payload, status, priority, max_attempts, run_at, created_at)
    values ($1, $2, $3, <to:enqueue>, $4, $5, <clock>, <clock>)
    returning id, created_at"""
insert = """
    insert into <job> (type, queue, payload, status, priority, max_attempts, run_at, created_at,
                       timeout, retry, tags, expires_at, trace_context, on_end, target, limits, fair, weight, ordered,
                       order_blocks)
    select $2, $3, case when $17 then json_extract(value, '$[0]') else value end,
           case when coalesce($7, <now> + $8) > <now> then <to:postpone> else <to:enqueue> end, $5, $6,
           coalesce($7, <now> + $8), <now>, $9, $10, $11, coalesce($12, <now> + $13), $14, $15, $16,
           case when $17 then json_extract(value, '$[1]') end,
           case when $17 then json_extract(value, '$[2]') end,
           case when $17 then json_extract(value, '$[3]') end,
           case when $17 then json_extract(value, '$[4]') end,
           case when $17 then json_extract(value, '$[5]') end
    from json_each($4)"""
# see the trigger that looks for this row
begin_bulk = f"""
    insert into <setting> (name, value)
    select '{BULK_AFTER}', coalesce((select seq from sqlite_sequence where name = '<job>' collate nocase), 0)"""
# a trigger of the app may have inserted others, or made some ready
make_bulk_ready = f"""
    insert or ignore into <ready> {READY_COLUMNS} select {READY_ROW.format("job")} from <job> as job
    where id > (select cast(value as integer) from <setting> where name = '{BULK_AFTER}')
      and status = <pending> and held is null"""
end_bulk = f"delete from <setting> where name = '{BULK_AFTER}'"
insert_returning = f"{insert} returning id, status, run_at, created_at, expires_at"
last_inserted = "select id, status, run_at, created_at, expires_at from <job> where id = last_insert_rowid()"

any_tag = "select exists (select 1 from <job_tag>)"
# it returns rows, as a statement on a caller's connection has to
retag = """
    update <job_tag> set status = (select status from <job> where id = job_id)
    where job_id in (select value from json_each($1)) returning job_id"""
retag_due = """
    update <job_tag> set status = <to:stage> where job_id in (
      select id from <job> indexed by <prefix>job_due where status = <scheduled> and run_at <= <now>
      order by run_at limit $2)"""
