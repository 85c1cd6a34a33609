"""Statements about the blobs that jobs need, and about the table that holds them."""

from __future__ import annotations

from rowcall.store.postgres.words import render


class BlobsSql:
    """The statements, rendered for one prefix."""

    def __init__(self, prefix: str) -> None:
        for name, template in statements().items():
            setattr(self, name, render(template, prefix))

    # these run on lent connections, too: there every statement has to give rows
    refer_to_blobs = """
        insert into <blob_ref> (digest, job_id)
        select value ->> 0, (value ->> 1)::bigint from jsonb_array_elements($1::text::jsonb)
        on conflict do nothing returning job_id"""
    pin_blobs = """
        insert into <blob_pin> (token, digest, reference)
        select $1::text, value ->> 0, value ->> 1 from jsonb_array_elements($2::text::jsonb)
        returning digest"""
    unpin_blobs = "delete from <blob_pin> where token = $1::text returning digest"

    blob_pins = """
        select token, digest, reference from <blob_pin>
        where digest = any(array(select jsonb_array_elements_text($1::text::jsonb)))"""
    jobs_referring = "select id from <job> where payload = $1::text::jsonb or result = $1::text::jsonb"
    unreferred_blobs = """
        select given.digest from jsonb_array_elements_text($1::text::jsonb) as given (digest)
        where not exists (select from <blob_ref> as ref where ref.digest = given.digest)"""

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
    # looked at again if it was locked: of one that was touched meanwhile, this finds nothing to delete
    delete_blob = """
        delete from <blob>
        where digest = $2::text and touched_at < (select <now> - $3::float8 * interval '1 second')"""


def statements() -> dict[str, str]:
    """The fixed statements, as templates."""
    return {name: text for name, text in vars(BlobsSql).items() if isinstance(text, str) and not name.startswith("_")}
