"""The tables for large payloads. Names in angle brackets are filled in by `rowcall.store.sqlite.schema.render`."""

from __future__ import annotations

from rowcall.store.sqlite.typed import typed

# which jobs need which blob; and which blobs some job is about to need, in statements that may be committed one by one
_BLOB_REF = typed("""
create table <blob_ref> (
  digest text not null,
  job_id integer not null references <job> (id) on delete cascade,
  primary key (digest, job_id)
) without rowid
""")

_BLOB_PIN = typed("""
create table <blob_pin> (
  token text not null,
  digest text not null,
  reference text not null,
  primary key (token, digest)
) without rowid
""")

BLOB_TABLES = (_BLOB_REF, "create index <prefix>blob_ref_job on <blob_ref> (job_id)", _BLOB_PIN)
