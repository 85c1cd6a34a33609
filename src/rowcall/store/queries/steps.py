"""Durable steps and signals."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from rowcall.base.times import time_of, time_or_none
from rowcall.domain.blobs import BLOB_KEY
from rowcall.domain.payload import value_from_row
from rowcall.domain.step import OpenWait, RecordedStep, StepKind, StepRow, StepStatus
from rowcall.store.queries.claims import Fence
from rowcall.store.statement import Ids, Int, Json, Ms, Now, Packed, Query, Row, Text, number_from_row, row_as

_SERVER = ("postgres", "mysql")


class Signal(NamedTuple):
    """A signal that no wait has received yet."""

    id: int
    job_id: int
    name: str
    value: str | None
    key: str | None


class ParentCheck(NamedTuple):
    """A parent that may have to be woken, and a child whose end is not in its step yet."""

    id: int
    job_id: int
    child_id: int | None


class LostChild(NamedTuple):
    """A child that is to be cancelled. `cancel`: whether its attempt has a request, -1 if none runs."""

    id: int
    parent_id: int
    cancel: int


class OpenChildren(NamedTuple):
    """A parent, the first of its children that have not ended, and how many of them there are."""

    parent_id: int
    child_id: int
    number: int


class Ancestor(NamedTuple):
    """The parent of a job, and the value by which the job is in order."""

    parent_id: int | None
    ordered: str | None


class EndedCall(NamedTuple):
    """A step whose child has ended. `refers`: whether the result is stored outside of its row. `in_first`: whether it
    is part of a `ctx.first`.
    """

    job_id: int
    child_id: int
    refers: bool
    in_first: bool


class CalledJob(NamedTuple):
    """A job that a step has enqueued. `name` is its task."""

    parent_id: int
    child_id: int
    name: str


def recorded_from_row(row: Row) -> RecordedStep:
    position, kind, name, status, attempt, failures, started_ms, due_ms, finished_ms, code, detail, *more = cast(
        "tuple[int, str, str, str, int, int, int, int | None, int | None, str | None, str | None, Any, Any, Any, Any]",
        row,
    )
    *texts, child_id = more
    result, question, expects = map(value_from_row, texts)
    return RecordedStep(
        position=position,
        kind=StepKind(kind),
        name=name,
        status=StepStatus(status),
        attempt=attempt,
        failures=failures,
        started_at=time_of(started_ms),
        due_at=time_or_none(due_ms),
        finished_at=time_or_none(finished_ms),
        error_code=code,
        error_detail=detail,
        result=result,
        question=question if isinstance(question, dict) else None,
        expects=expects if isinstance(expects, dict) else None,
        child_id=child_id,
    )


def step_of_job_from_row(row: Row) -> tuple[int, StepRow]:
    job_id, *fields = cast("tuple[Any, ...]", row)
    return job_id, StepRow(*fields)


def wait_from_row(row: Row) -> OpenWait:
    job_id, task, queue, position, name, asked_ms, due_ms, *texts = cast(
        "tuple[int, str, str, int, str, int, int | None, Any, Any]", row
    )
    question, expects = map(value_from_row, texts)
    return OpenWait(
        job_id=job_id,
        type=task,
        queue=queue,
        position=position,
        name=name,
        asked_at=time_of(asked_ms),
        due_at=time_or_none(due_ms),
        question=question if isinstance(question, dict) else None,
        expects=expects if isinstance(expects, dict) else None,
    )


_STEP = """position, kind, name, status, failures, <ms:due_at>, <ms:due_at> - <ms:(select <now>)>, <text_of:result>,
           child_id, error_code, error_detail"""
_STEPS = f"select {_STEP} from <step> where job_id = <bigint:2> order by position"
STEPS = Query("steps", (Now, Int), row_as(StepRow), text=_STEPS)
_STEPS_OF = f"select job_id, {_STEP} from <step> where job_id <in_ids:2> order by job_id, position"
STEPS_OF = Query("steps_of", (Now, Ids), step_of_job_from_row, text=_STEPS_OF)
# a sleep ends when its time has come: no attempt writes that
_SLEPT = "kind = 'sleep' and status = 'waiting' and due_at <= (select <now>)"
_SHOW_STEPS = f"""
    select position, kind, name, case when {_SLEPT} then 'finished' else status end, attempt, failures, <ms:started_at>,
           <ms:due_at>, case when {_SLEPT} then <ms:due_at> else <ms:finished_at> end, error_code, error_detail,
           <text_of:result>, <text_of:question>, expects, child_id
    from <step> where job_id = <bigint:2> order by position desc limit <bigint:3>"""
SHOW_STEPS = Query("show_steps", (Now, Int, Int), recorded_from_row, text=_SHOW_STEPS)  # the last first
# Of fences, those whose claims are current. The lock of a claim lets other steps of its attempt pass, and nothing that
# ends the attempt: on the caller's connection it lasts as long as that transaction
CURRENT = Packed("current", (Json,), Fence)
_FIELDS = (
    "job_id bigint, position int, attempt int, failures int, started_at time, due_at time, finished_at time, kind text,"
    " name text, status text, error_code text, error_detail text, result jsonb, child_id bigint, first_at int"
)
_NAMES, _KINDS = zip(*(field.split() for field in _FIELDS.split(", ")), strict=True)
_CHANGED = ", ".join(f"{name} = excluded.{name}" for name in _NAMES if name not in ("job_id", "position", "started_at"))
# rows of these fields, of locked jobs
_WRITE_STEPS = f"""
    insert into <step> ({", ".join(_NAMES)}) select <fields:{" ".join(_KINDS)}> from <rows:1> where true
    on conflict (job_id, position) do update set {_CHANGED}"""
WRITE_STEPS = Query("write_steps", (Json,), text=_WRITE_STEPS)

# what a wait asks; other steps do not pay for these columns
_ASK = "update <step> set question = <json:3>, expects = <text:4> where job_id = <bigint:1> and position = <int:2>"
ASK = Query("ask", (Int, Int, Text, Text), text=_ASK)
_FIELDS_OF_WAIT = """step.job_id, job.type, job.queue, step.position, step.name, <ms:step.started_at>,
           <ms:step.due_at>, <text_of:step.question>, step.expects"""
_WAITING = """
    from <step> as step cross join <job> as job
    where job.id = step.job_id and step.kind = 'wait' and step.status = 'waiting'"""
# the wait of a job that the next signal of a name would end: earlier ones are for the waits before it
_NEXT_WAIT = f"""
    select {_FIELDS_OF_WAIT} {_WAITING} and step.job_id = <bigint:1> and step.name = <text:2> order by step.position
    limit 1 offset (
      select count(*) from <signal> where job_id = <bigint:1> and name = <text:2> and received_by is null)"""
NEXT_WAIT = Query("next_wait", (Int, Text), wait_from_row, text=_NEXT_WAIT)
# a wait of a job that has not ended, without an answer that a worker is to receive
_IS_OPEN = """and job.status in <unfinished> and (step.due_at is null or step.due_at > (select <now>))
      and not exists (select 1 from <signal> as signal where signal.job_id = step.job_id and signal.name = step.name
                      and signal.received_by is null)"""
_OPEN_WAITS_OF = f"""
    select {_FIELDS_OF_WAIT} {_WAITING} and step.job_id = <bigint:2> {_IS_OPEN} order by step.position limit <int:3>"""
OPEN_WAITS_OF = Query("open_waits_of", (Now, Int, Int), wait_from_row, text=_OPEN_WAITS_OF)
# the longest first, after one that was asked at a time; `{}` says whether they ask people
_OPEN_WAITS = f"""
    select {_FIELDS_OF_WAIT} {_WAITING} and step.question is {{}}
      and (step.started_at, step.job_id, step.position) > (<time:2>, <bigint:3>, <int:4>) {_IS_OPEN}
    order by step.started_at, step.job_id, step.position limit <int:5>"""
ASKING = Query("asking", (Now, Ms, Int, Int, Int), wait_from_row, text=_OPEN_WAITS.format("not null"))
AWAITING = Query("awaiting", (Now, Ms, Int, Int, Int), wait_from_row, text=_OPEN_WAITS.format("null"))
_COUNT_ASKING = f"""
    select count(*) from (select 1 {_WAITING} and step.question is not null {_IS_OPEN} limit <int:2>) as counted"""
COUNT_ASKING = Query("count_asking", (Now, Int), number_from_row, text=_COUNT_ASKING)

# a part of a `ctx.first`, or that itself: job, position, status, the value of a signal
_END_STEP = """
    update <step> set status = <text:4>, finished_at = <now>, result = coalesce(<json:5>, result)
    where job_id = <bigint:2> and position = <int:3> and status = 'waiting'"""
END_STEP = Query("end_step", (Now, Int, Int, Text, Text), text=_END_STEP)
_CHILDREN_OF = """
    select job_id, child_id, name from <step> where job_id <in_ids:1> and child_id is not null
    order by job_id, position limit <int:2>"""
CHILDREN_OF = Query("children_of", (Ids, Int), row_as(CalledJob), text=_CHILDREN_OF)

# calls whose children have not succeeded, of jobs that run again: unless the handler continued after that, or another
# part of the same `ctx.first` was over, too
_FAILED_CALLS = """
    select job_id, position, coalesce(first_at, position) from <step> as step
    where job_id <in_ids:1> and kind = 'call' and status in (<failed>, <cancelled>)
      and not exists (select 1 from <step> as other where other.job_id = step.job_id and other.first_at = step.first_at
                      and other.status in ('finished', 'timed_out'))
      and not exists (select 1 from <step> as later where later.job_id = step.job_id and later.position > step.position
                      and later.started_at > step.finished_at)"""
FAILED_CALLS = Query("failed_calls", (Ids,), text=_FAILED_CALLS)
# a call, or a `ctx.first` with all of its parts
_FORGET_STEP = "delete from <step> where job_id = <bigint:1> and (position in (<int:2>, <int:3>) or first_at = <int:3>)"
FORGET_STEP = Query("forget_step", (Int, Int, Int), text=_FORGET_STEP)
# what some jobs wait for: jobs, steps of chains, children
_AWAITED_BY = """
    select blocker_id from <edge> where job_id <in_ids:1> and state = 'open'
    union select job.id from <edge> as edge join <job> as job on job.chain_id = edge.blocker_id
      where edge.job_id <in_ids:1> and edge.state = 'open' and edge.of_chain <> 0
    union select child_id from <step> where job_id <in_ids:1> and status = 'waiting' and child_id is not null"""
AWAITED_BY = Query("awaited_by", (Ids,), number_from_row, text=_AWAITED_BY)
_PARENT_OF = "select parent_id, ordered from <job> where id = <bigint:1>"
PARENT_OF = Query("parent_of", (Int,), row_as(Ancestor), text=_PARENT_OF)
DELETE_STEPS = Query("delete_steps", (Ids,), text="delete from <step> where job_id <in_ids:1>")
# a `ctx.first` of them needs all of its parts: they are waited for again
_FORGET_STEPS = """
    delete from <step> where job_id = <bigint:1> and (position >= <int:2> or first_at >= <int:2>) returning position"""
FORGET_STEPS = Query("forget_steps", (Int, Int), number_from_row, text=_FORGET_STEPS)
DELETE_SIGNALS_OF = Query("delete_signals_of", (Ids,), text="delete from <signal> where job_id <in_ids:1>")

_SIGNALS = """
    select id, job_id, name, <text_of:value>, key from <signal> where job_id <in_ids:1> and received_by is null
    order by id"""
SIGNALS = Query("signals", (Ids,), row_as(Signal), text=_SIGNALS)
DELETE_SIGNALS = Query("delete_signals", (Ids,), text="delete from <signal> where id <in_ids:1>")
_RECEIVE_SIGNALS = "update <signal> set received_by = <int:2>, value = null where id <in_ids:1>"
RECEIVE_SIGNALS = Query("receive_signals", (Ids, Int), text=_RECEIVE_SIGNALS)
# what the steps of jobs have received, which are deleted: all of them, or those at some positions
_FORGET_RECEIVED = "delete from <signal> where job_id <in_ids:1> and received_by is not null"
FORGET_RECEIVED = Query("forget_received", (Ids,), text=_FORGET_RECEIVED)
_FORGET_RECEIVED_BY = "delete from <signal> where job_id = <bigint:1> and received_by <in_ids:2>"
FORGET_RECEIVED_BY = Query("forget_received_by", (Int, Ids), text=_FORGET_RECEIVED_BY)
_SEND_SIGNAL = """
    insert into <signal> (job_id, name, value, key) values (<bigint:1>, <text:2>, <json:3>, <text:4>) returning id"""
SEND_SIGNAL = Query("send_signal", (Int, Text, Text, Text), number_from_row, text=_SEND_SIGNAL)
_WAS_SENT = "select id from <signal> where job_id = <bigint:1> and name = <text:2> and key = <text:3>"
WAS_SENT = Query("was_sent", (Int, Text, Text), number_from_row, text=_WAS_SENT)
# of jobs that were rescheduled: a sleep, and the pause before a step is tried again, do not last longer than that
_END_SLEEPS = """
    update <step> as step set due_at = job.run_at from <job> as job
    where step.job_id <in_ids:1> and job.id = step.job_id and step.kind <> 'wait' and step.status = 'waiting'
      and step.due_at > job.run_at"""
END_SLEEPS = Query("end_sleeps", (Ids,), text=_END_SLEEPS)
# Jobs that wait for a signal which is there run now; with 1, jobs too whose waits and calls are all over; with 2, jobs
# too of which a call in a `ctx.first` is over. Jobs that wait for a retry do not: another step has failed. The last
# steps come first, which are the last ones to end. Signals come before steps: a parent may have thousands of calls.
_STILL_WAITS = """(
        select 1 from <step> as step where step.job_id = job.id and step.status = 'waiting'
          and step.kind in ('wait', 'call', 'first') and step.first_at is null order by step.position desc limit 1)"""
_FIRST_IS_OVER = """exists (
        select 1 from <step> as first join <step> as step
          on step.job_id = first.job_id and step.first_at = first.position
        where first.job_id = job.id and first.kind = 'first' and first.status = 'waiting'
          and step.status not in ('waiting', 'abandoned'))"""
_WAKE = f"""
    update <job> as job set run_at = <least:job.run_at, moment.now> from (select <now> as now) as moment
    where id <in_ids:2> and <by_id:job.status> = <scheduled>
      and coalesce((select status from <attempt> where job_id = job.id order by id desc limit 1), '') <> <failed>
      and (<int:3> >= 1 and {_STILL_WAITS} is null or <int:3> = 2 and {_FIRST_IS_OVER} or exists (
        select 1 from <signal> as signal cross join <step> as step
        where signal.job_id = job.id and signal.received_by is null and step.job_id = job.id
          and step.name = signal.name and step.kind = 'wait' and step.status = 'waiting'))
    returning id"""
WAKE = Query("wake", (Now, Ids, Int), number_from_row, notifies=bool, text=_WAKE)

# Jobs that have ended: the end is written into the steps that wait for them. Returns their parents. In RETURNING of a
# table without rowids, SQLite 3.40 takes `first_at is not null` for true.
_END_CALLS = f"""
    update <step> as step set status = case child.ended when <succeeded> then 'finished' else child.ended end,
      finished_at = child.ended_at, result = child.returned, error_code = child.code, error_detail = child.detail
    from (
      select id, parent_id, parent_step, status as ended, finished_at as ended_at, result as returned,
             error_code as code, error_detail as detail
      from <job> where id <in_ids:1> and <by_id:status> in <finished> <as_written>
    ) as child
    where step.job_id = child.parent_id and step.position = child.parent_step and step.child_id = child.id
      and step.status = 'waiting'
    returning job_id, child_id, coalesce(<text_of:result> like '%{BLOB_KEY}%', false), coalesce(first_at, 0) > 0"""
END_CALLS = Query("end_calls", (Ids,), row_as(EndedCall), text=_END_CALLS)
# of jobs that have ended: their parents need what their results refer to
_KEEP_RESULTS = """
    insert into <blob_ref> (job_id, digest)
    select child.parent_id, ref.digest from <job> as child join <blob_ref> as ref on ref.job_id = child.id
    where child.id <in_ids:1> and <text_of:child.result> like '%' || ref.digest || '%'
    on conflict do nothing returning job_id"""
KEEP_RESULTS = Query("keep_results", (Ids,), text=_KEEP_RESULTS)
# of parents: children that are cancelled with them, or whose steps wait no more: another wait of a `ctx.first` was over
# first, or the step was deleted
_LOST_CHILDREN = """
    select child.id, child.parent_id,
      coalesce((select claim.cancel from <claim> as claim where claim.job_id = child.id), -1)
    from <job> as child
    where child.parent_id <in_ids:1> and child.status in <unfinished> and child.detached is null
      and (exists (select 1 from <job> as parent
                   where parent.id = child.parent_id and parent.status = <cancelled> <as_written>)
        or not exists (select 1 from <step> as step where step.job_id = child.parent_id
                       and step.position = child.parent_step and step.child_id = child.id
                       and step.status <> 'abandoned' <as_written>))
    order by child.id limit <int:2>"""
LOST_CHILDREN = Query("lost_children", (Ids, Int), row_as(LostChild), text=_LOST_CHILDREN)
# of parents: how many of their children have not ended, and are cancelled with them; and the first of these
_OPEN_CHILDREN = """
    select parent_id, min(id), count(*) from <job>
    where parent_id <in_ids:1> and status in <unfinished> and detached is null group by parent_id"""
OPEN_CHILDREN = Query("open_children", (Ids,), row_as(OpenChildren), text=_OPEN_CHILDREN)
# locked jobs without a claim that wait, and that no other transaction is about to claim
FREE_WAITING = Query("free_waiting", (Ids,), number_from_row)
# jobs that have ended, whose parents are to be checked
_CHECK_PARENTS_OF = """
    insert into <parent_check> (job_id, child_id) select parent_id, id from <job>
    where id <in_ids:1> and parent_id is not null returning id"""
CHECK_PARENTS_OF = Query("check_parents_of", (Ids,), notifies=bool, text=_CHECK_PARENTS_OF, only=_SERVER)
_CHECK_PARENTS = "insert into <parent_check> (job_id) select given.id from <ids:1> returning id"
CHECK_PARENTS = Query("check_parents", (Ids,), notifies=bool, text=_CHECK_PARENTS)
_PARENTS_TO_CHECK = "select id, job_id, child_id from <parent_check> order by id limit <int:1>"
PARENTS_TO_CHECK = Query("parents_to_check", (Int,), row_as(ParentCheck), text=_PARENTS_TO_CHECK)
_PARENTS_CHECKED = "delete from <parent_check> where id <in_ids:1>"
PARENTS_CHECKED = Query("parents_checked", (Ids,), text=_PARENTS_CHECKED)
