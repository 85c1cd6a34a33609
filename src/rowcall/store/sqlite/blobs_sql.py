"""Statements about the blobs that jobs need; the blobs themselves are not in the file."""

from __future__ import annotations

from rowcall.store.sqlite.words import render


class BlobsSql:
    """The statements, rendered for one prefix."""

    def __init__(self, prefix: str) -> None:
        for name, template in statements().items():
            setattr(self, name, render(template, prefix))

    refer_to_blobs = """
        insert or ignore into <blob_ref> (digest, job_id)
        select json_extract(value, '$[0]'), json_extract(value, '$[1]') from json_each(?1)"""
    pin_blobs = """
        insert into <blob_pin> (token, digest, reference)
        select ?1, json_extract(value, '$[0]'), json_extract(value, '$[1]') from json_each(?2)"""
    unpin_blobs = "delete from <blob_pin> where token = ?1"
    blob_pins = """
        select token, digest, reference from <blob_pin> where digest in (select value from json_each(?1))"""
    jobs_referring = "select id from <job> where payload = ?1 or result = ?1"
    # a connection without foreign keys leaves the references of jobs that it deletes
    unreferred_blobs = """
        select given.value from json_each(?1) as given where not exists (
          select 1 from <blob_ref> as ref where ref.digest = given.value
            and exists (select 1 from <job> where id = ref.job_id))"""


def statements() -> dict[str, str]:
    """The fixed statements, as templates."""
    return {name: text for name, text in vars(BlobsSql).items() if isinstance(text, str) and not name.startswith("_")}
