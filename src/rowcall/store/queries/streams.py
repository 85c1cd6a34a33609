"""Streams and logs of jobs. The worker of an attempt numbers its values: one that is written twice is there once."""

from __future__ import annotations

from typing import NamedTuple

from rowcall.domain.stream import StreamRow, StreamStart
from rowcall.store.statement import Int, Json, Query, Text, row_as


class StreamedJob(NamedTuple):
    """The job whose stream is read: its task, and whether it has ended."""

    type: str
    has_ended: bool


class StoredValue(NamedTuple):
    """A value of a job: None if it is of another stream than the one that is read."""

    number: int
    part: int
    value: str | None


class NamedValue(NamedTuple):
    """A value of a job, with the stream that it is of."""

    number: int
    part: int
    name: str
    value: str


class StoredLines(NamedTuple):
    """What an attempt has logged."""

    attempt: int
    lines: str


# An attempt after one that failed or was cut off begins a new part; one after a sleep or a wait does not. The attempt
# itself may have ended in this transaction: it has the lease of its claim, and its row that lease and one more.
_LAST = "(select {} from <stream> where job_id = <bigint:1> order by number desc limit 1)"
_STREAM_START = f"""
    select coalesce({_LAST.format("number")}, 0), coalesce({_LAST.format("bytes")}, 0),
      (select count(*) + 1 from <attempt> where job_id = <bigint:1> and coalesce(lease, 0) < <bigint:2>
         and status <> <snoozed>
         and (status <> <released> or started_at is not null)),
      coalesce((select max(position) from <step> where job_id = <bigint:1>), 0)"""
STREAM_START = Query("stream_start", (Int, Int), row_as(StreamStart), text=_STREAM_START)
_APPEND = f"""
    insert into <stream> ({", ".join(StreamRow.__struct_fields__)})
    select <fields:bigint int int bigint text text> from <rows:1> where true on conflict (job_id, number) do nothing"""
APPEND = Query("append", (Json,), text=_APPEND)
_STREAMED_JOB = (
    "select <text_of:type>, case when status in <finished> then 1 else 0 end from <job> where id = <bigint:1>"
)
STREAMED_JOB = Query("streamed_job", (Int,), row_as(StreamedJob), text=_STREAMED_JOB)
_STREAM_VALUES = """
    select number, part, case when name = <text:3> then value end from <stream>
    where job_id = <bigint:1> and number > <int:2> order by number limit <int:4>"""
STREAM_VALUES = Query("stream_values", (Int, Int, Text, Int), row_as(StoredValue), text=_STREAM_VALUES)
# the last values of all streams, at most this many, and this many bytes
_LAST_VALUES = f"""
    select stream.number, stream.part, stream.name, stream.value
    from (select number, bytes from <stream> where job_id = <bigint:1> order by number desc limit <int:2>) as newest
    join <stream> as stream on stream.job_id = <bigint:1> and stream.number = newest.number
    where newest.bytes > {_LAST.format("bytes")} - <int:3>
    order by stream.number"""
LAST_VALUES = Query("last_values", (Int, Int, Int), row_as(NamedValue), text=_LAST_VALUES)

# ids and lines; a lease and an attempt
_WRITE_LOGS = """
    insert into <log> (job_id, lines, lease, attempt)
    select <fields:bigint json>, <bigint:2>, <int:3> from <rows:1> where true
    on conflict (job_id, lease) do update set lines = excluded.lines"""
WRITE_LOGS = Query("write_logs", (Json, Int, Int), text=_WRITE_LOGS)
_LOG_OF = "select attempt, lines from <log> where job_id = <bigint:1> order by lease"
LOG_OF = Query("log_of", (Int,), row_as(StoredLines), text=_LOG_OF)
