"""Texts about the table that holds the blobs."""

from __future__ import annotations

from rowcall.store.mysql.words import given

_OLD = "touched_at < <now> - interval {} * 1000000 microsecond"
touch_blob = (
    "select digest from <blob> where digest = $2 for update",
    "update <blob> set touched_at = greatest(touched_at, <now>) where digest = $2",
)
put_blob = """
    insert into <blob> (digest, data, touched_at) values ($2, from_base64($3), <now>)
    on duplicate key update touched_at = greatest(touched_at, values(touched_at))"""
get_blob = "select data from <blob> where digest = $1"
old_blobs = f"select digest from <blob> where digest > $3 and {_OLD.format('$2')} order by digest limit $4"
delete_blob = f"delete from <blob> where digest = $2 and {_OLD.format('$3')}"
refer_to_blobs = f"""
    insert into <blob_ref> (digest, job_id) select digest, job_id from {given("digest text, job_id bigint", 1)}
    on duplicate key update job_id = values(job_id)"""
