"""Which jobs need which blobs. A blob is stored before any row refers to it.

Statements return rows where they may run on a caller's connection.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from rowcall.store.statement import Float, Int, Json, Now, Query, Row, Text, number_from_row, row_as, text_from_row


class Pin(NamedTuple):
    """A blob that a job is about to refer to, or already does: `reference` is what its row would hold."""

    token: str
    digest: str
    reference: str


def bytes_from_row(row: Row) -> bytes:
    return cast("bytes", row[0])


# digests and ids; twice is once
_REFER_TO_BLOBS = """
    insert into <blob_ref> (digest, job_id) select <fields:text bigint> from <rows:1> where true
    on conflict do nothing returning job_id"""
REFER_TO_BLOBS = Query("refer_to_blobs", (Json,), text=_REFER_TO_BLOBS)
# one plain statement: it may be the first in the caller's transaction, or a transaction on its own
_PIN_BLOBS = """
    insert into <blob_pin> (token, digest, reference) select <text:1>, <fields:text text> from <rows:2>
    returning digest"""
PIN_BLOBS = Query("pin_blobs", (Text, Json), text=_PIN_BLOBS)
UNPIN_BLOBS = Query("unpin_blobs", (Text,), text="delete from <blob_pin> where token = <text:1> returning digest")
_BLOB_PINS = "select token, digest, reference from <blob_pin> where digest <in_texts:1>"
BLOB_PINS = Query("blob_pins", (Json,), row_as(Pin), text=_BLOB_PINS)
# reads the whole table: rarely needed
_JOBS_REFERRING = "select id from <job> where payload = <json:1> or result = <json:1>"
JOBS_REFERRING = Query("jobs_referring", (Text,), number_from_row, text=_JOBS_REFERRING)
# a SQLite connection without foreign keys leaves the references of the jobs that it deletes
_UNREFERRED_BLOBS = """
    select given.item from <texts:1> where not exists (
      select 1 from <blob_ref> as ref where ref.digest = given.item
        and exists (select 1 from <job> where id = ref.job_id))"""
UNREFERRED_BLOBS = Query("unreferred_blobs", (Json,), text_from_row, text=_UNREFERRED_BLOBS)

# the table of blobs on a server
TOUCH_BLOB = Query("touch_blob", (Now, Text), only=("postgres", "mysql"))
PUT_BLOB = Query("put_blob", (Now, Text, Text), only=("postgres", "mysql"))
GET_BLOB = Query("get_blob", (Text,), bytes_from_row, only=("postgres", "mysql"))
OLD_BLOBS = Query("old_blobs", (Now, Float, Text, Int), text_from_row, only=("postgres", "mysql"))
DELETE_BLOB = Query("delete_blob", (Now, Text, Float), only=("postgres", "mysql"))
