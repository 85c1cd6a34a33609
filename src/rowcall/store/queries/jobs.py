"""Jobs: enqueue, stage and inspect.

The contract
------------
* **Skipped.** Statements that stage or expire lock the rows that they return, and leave rows that another transaction
  has locked to it.
* **Cost.** Staging costs in proportion to the rows it touches, however many jobs wait, have finished or lie in the
  future.
"""

from __future__ import annotations

from typing import cast

from rowcall.base.times import EPOCH
from rowcall.domain.job import Attempt, Event
from rowcall.store.columns import job_from_row, secret_of, struct_from_row, text, time
from rowcall.store.new_job import Inserted
from rowcall.store.schema import READY_TYPE
from rowcall.store.statement import (
    Change,
    Float,
    Ids,
    Int,
    Json,
    Ms,
    Now,
    Query,
    Row,
    Text,
    number_from_row,
    text_from_row,
)

_FILE, _SERVER = ("sqlite",), ("postgres", "mysql")

_attempt = {
    "attempt": lambda value: value if isinstance(value, int) else 0,
    "status": lambda value: text(value) or "",
    "claimed_at": lambda value: time(value) or EPOCH,
    **dict.fromkeys(("started_at", "finished_at", "next_run_at"), time),
    **dict.fromkeys(("worker", "error_code", "error_detail", "traceback"), text),
}
attempt_from_row = struct_from_row(Attempt, Attempt.__struct_fields__, _attempt)


def event_from_row(row: Row) -> Event:
    at, event, actor, detail, secret = row
    return Event(
        at=time(at) or EPOCH,
        event=text(event) or "",
        actor=text(actor),
        detail=text(detail),
        **secret_of(event, secret),
    )


def inserted_from_row(row: Row) -> Inserted:
    job_id, status, run_at, created_at, expires_at = cast("tuple[int, str, int, int, int | None]", row)
    return Inserted(job_id, status, run_at, created_at, expires_at)


def any_listener(rows: list[Row]) -> bool:
    return bool(rows[0][-1])


# enqueue. Parameters: the fields of a new job (`fields_of`), with payloads as a JSON array; where the last parameter is
# 1, an array of arrays: the payload, and what is derived from it
_NEW_JOBS = (Now, Text, Text, Text, Int, Int, Ms, Int, Float, Text, Text, Ms, Int, Text, Text, Text, Int)
INSERT = Query("insert", _NEW_JOBS, notifies=any_listener)
INSERT_RETURNING = Query("insert_returning", _NEW_JOBS, inserted_from_row, only=_FILE)
# type, queue, payload, priority, attempts of one job that is due at once and has no other option: what most jobs are
INSERT_PLAIN = Query("insert_plain", (Text, Text, Text, Int, Int), notifies=any_listener)
LAST_INSERTED = Query("last_inserted", (), inserted_from_row, only=_FILE)
# after the first one, inserted jobs are not ready until the second one
BEGIN_BULK = Query("begin_bulk", only=_FILE)
MAKE_BULK_READY = Query("make_bulk_ready", only=_FILE)
END_BULK = Query("end_bulk", only=_FILE)

_STAGE = """
    update <job> as job set status = <to:stage> where id <in_rows>
      select id from <job> <indexed:job_due> where status = <scheduled> and run_at <= (select <now>)
      order by run_at limit <int:2> <for_update> <skip_locked> <end_rows>"""
STAGE = Change("stage", (Now, Int), text=_STAGE)

# the status that is kept with the tags of a job; PostgreSQL has a trigger for that
ANY_TAG = Query("any_tag", (), number_from_row, only=_FILE)
RETAG = Query("retag", (Ids,), only=_FILE)
RETAG_DUE = Query("retag_due", (Now, Int), only=_FILE)

# notifies idle workers when the transaction commits
NOTIFY = Query("notify", only=("postgres",))
# the same, in a separate transaction
NOTIFY_ALONE = Query("notify_alone", only=("postgres",))

# callers' connections
SCHEMA_OF_TABLES = Query("schema_of_tables", (), text_from_row, only=("postgres",))
# server, database and table, then 'text', 7 and 0.5 as the codecs of the connection return them; what is missing is 0
IDENTITY = Query("identity", only=_SERVER)

# inspect
GET = Query("get", (Int,), job_from_row, text="select <job_columns> from <prefix>jobs as job where id = <bigint:1>")
_TRACE_CONTEXT = "select coalesce(trace_context, '') from <job> where id = <bigint:1>"
TRACE_CONTEXT = Query("trace_context", (Int,), text_from_row, text=_TRACE_CONTEXT)
# the first job from an id on, and when it was created
_FIRST_FROM = "select id, <ms:created_at> from <job> where id >= <bigint:1> order by id limit 1"
FIRST_FROM = Query("first_from", (Int,), lambda row: cast("tuple[int, int]", row), text=_FIRST_FROM)
_ATTEMPTS = """
    select job_id, attempt, status, <ms_or_null:claimed_at>, <ms_or_null:started_at>, <ms_or_null:finished_at>,
           worker, error_code, error_detail, traceback, <ms_or_null:next_run_at>,
           (select <text_of:type> from <job> where id = <bigint:1>)
    from <prefix>attempts where job_id = <bigint:1> order by seq desc limit <bigint:2>"""
ATTEMPTS = Query("attempts", (Int, Int), attempt_from_row, text=_ATTEMPTS)  # the last first, up to a number
_TIMELINE = """
    select <ms_or_null:at>, event, actor, detail, secret
    from <prefix>timeline where job_id = <bigint:1> order by at desc, seq desc, rank desc limit <bigint:2>"""
TIMELINE = Query("timeline", (Int, Int), event_from_row, text=_TIMELINE)  # likewise
# the first scheduled jobs that are due: a worker makes them ready with its next claim, so a busy one leaves them
MOST_DUE = 2000
_FIRST_DUE = f"""(
      select queue, {READY_TYPE.format("job")} as type, ~priority as rank, coalesce(turn, id) as turn, id, held
      from <job> as job <indexed:job_due>
      where status = <scheduled> and run_at <= (select <now>) order by run_at limit {MOST_DUE}) as due
      where due.queue = <text:2> and due.held is null"""
# the keys of the ready and due jobs of a queue; it hops from one key of ready jobs to the next
_TYPES_IN_TURN = f"""
    with recursive found (type) as (
      select min(type) from <ready> where queue = <text:2>
      union all
      select (select min(type) from <ready> where queue = <text:2> and type > found.type)
      from found where found.type is not null)
    select <text_of:type> from found where type is not null
    union
    select <text_of:type> from {_FIRST_DUE}"""
TYPES_IN_TURN = Query("types_in_turn", (Now, Text), text_from_row, text=_TYPES_IN_TURN)
# of a queue and some keys, how many ready and due jobs come before a rank, turn and id, by priority: up to a number
_AHEAD = f"""
    select ~rank, count(*) from (
      select ready.rank from <texts:3> cross join <ready> as ready
      where ready.queue = <text:2> and ready.type = given.item
        and (ready.rank, ready.turn, ready.id) < (<bigint:4>, <bigint:5>, <bigint:6>)
      union all
      select due.rank from {_FIRST_DUE} and due.type <in_texts:3>
        and (due.rank, due.turn, due.id) < (<bigint:4>, <bigint:5>, <bigint:6>)
      limit <int:7>) as ahead
    group by rank order by rank"""
AHEAD = Query("ahead", (Now, Text, Json, Int, Int, Int, Int), lambda row: cast("tuple[int, int]", row), text=_AHEAD)
DELETE = Query("delete", (Ids,), text="delete from <job> where id <in_ids:1>")
