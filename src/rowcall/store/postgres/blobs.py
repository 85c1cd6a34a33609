"""Texts about the table that holds the blobs."""

from __future__ import annotations

touch_blob = "update <blob> set touched_at = greatest(touched_at, <now>) where digest = $2::text returning digest"
put_blob = """
    insert into <blob> as blob (digest, data, touched_at)
    values ($2::text, decode($3::text, 'base64'), <now>)
    on conflict (digest) do update set touched_at = greatest(blob.touched_at, excluded.touched_at)"""
get_blob = "select data from <blob> where digest = $1::text"
old_blobs = """
    select digest from <blob>
    where digest > $3::text and touched_at < (select <now> - $2::float8 * interval '1 second')
    order by digest limit $4::int"""
# a locked row is checked again after the lock: one that was touched in between is not deleted
delete_blob = """
    delete from <blob>
    where digest = $2::text and touched_at < (select <now> - $3::float8 * interval '1 second')"""
