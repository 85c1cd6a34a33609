"""The tables for large payloads. Names in angle brackets are filled in by `rowcall.store.postgres.schema.render`."""

from __future__ import annotations

_BLOB = """
create table <blob> (
  touched_at <prefix>moment_type not null,
  size bigint not null,
  digest text collate "C" primary key,
  data bytea not null
)
"""

# which jobs need which blob; and which blobs some job is about to need, in statements that may be committed one by one
_BLOB_REF = """
create table <blob_ref> (
  job_id bigint not null references <job> (id) on delete cascade,
  digest text collate "C" not null,
  primary key (digest, job_id)
)
"""

_BLOB_PIN = """
create table <blob_pin> (
  token text collate "C" not null,
  digest text collate "C" not null,
  reference text not null,
  primary key (token, digest)
)
"""

BLOB_TABLES = (_BLOB, _BLOB_REF, "create index <prefix>blob_ref_job on <blob_ref> (job_id)", _BLOB_PIN)
