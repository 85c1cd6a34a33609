"""Durable steps and signals."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from rowcall.base.times import time_of, time_or_none
from rowcall.domain.payload import value_from_row
from rowcall.domain.step import OpenWait, RecordedStep, StepKind, StepRow, StepStatus
from rowcall.store.queries.claims import Fence
from rowcall.store.statement import (
    Ids,
    Int,
    Json,
    Ms,
    Now,
    Packed,
    Query,
    Row,
    Text,
    always_notify,
    number_from_row,
    row_as,
)


class Signal(NamedTuple):
    """A signal that no wait has received yet."""

    id: int
    job_id: int
    name: str
    value: str | None


def recorded_from_row(row: Row) -> RecordedStep:
    position, kind, name, status, attempt, failures, started_ms, due_ms, finished_ms, code, detail, *texts = cast(
        "tuple[int, str, str, str, int, int, int, int | None, int | None, str | None, str | None, Any, Any, Any]", row
    )
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
    )


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


_STEPS = """
    select position, kind, name, status, failures, <ms:due_at>, <ms:due_at> - <ms:(select <now>)>, <text_of:result>
    from <step> where job_id = <bigint:2> order by position"""
STEPS = Query("steps", (Now, Int), row_as(StepRow), text=_STEPS)
# a sleep ends when its time has come: no attempt writes that
_SLEPT = "kind = 'sleep' and due_at <= (select <now>)"
_SHOW_STEPS = f"""
    select position, kind, name, case when {_SLEPT} then 'finished' else status end, attempt, failures, <ms:started_at>,
           <ms:due_at>, case when {_SLEPT} then <ms:due_at> else <ms:finished_at> end, error_code, error_detail,
           <text_of:result>, <text_of:question>, expects
    from <step> where job_id = <bigint:2> order by position desc limit <bigint:3>"""
SHOW_STEPS = Query("show_steps", (Now, Int, Int), recorded_from_row, text=_SHOW_STEPS)  # the last first
# Of fences, those whose claims are current. The lock of a claim lets other steps of its attempt pass, and nothing that
# ends the attempt: on the caller's connection it lasts as long as that transaction
CURRENT = Packed("current", (Json,), Fence)
_FIELDS = (
    "job_id bigint, position int, attempt int, failures int, started_at time, due_at time, finished_at time, kind text,"
    " name text, status text, error_code text, error_detail text, result jsonb"
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
    limit 1 offset (select count(*) from <signal> where job_id = <bigint:1> and name = <text:2>)"""
NEXT_WAIT = Query("next_wait", (Int, Text), wait_from_row, text=_NEXT_WAIT)
# a wait of a job that has not ended, without an answer that a worker is to receive
_IS_OPEN = """and job.status in <unfinished> and (step.due_at is null or step.due_at > (select <now>))
      and not exists (select 1 from <signal> as signal where signal.job_id = step.job_id and signal.name = step.name)"""
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

DELETE_STEPS = Query("delete_steps", (Ids,), text="delete from <step> where job_id <in_ids:1>")
_FORGET_STEPS = "delete from <step> where job_id = <bigint:1> and position >= <int:2> returning position"
FORGET_STEPS = Query("forget_steps", (Int, Int), text=_FORGET_STEPS)
DELETE_SIGNALS_OF = Query("delete_signals_of", (Ids,), text="delete from <signal> where job_id <in_ids:1>")

_SIGNALS = "select id, job_id, name, <text_of:value> from <signal> where job_id <in_ids:1> order by id"
SIGNALS = Query("signals", (Ids,), row_as(Signal), text=_SIGNALS)
DELETE_SIGNALS = Query("delete_signals", (Ids,), text="delete from <signal> where id <in_ids:1>")
_SEND_SIGNAL = "insert into <signal> (job_id, name, value) values (<bigint:1>, <text:2>, <json:3>) returning id"
SEND_SIGNAL = Query("send_signal", (Int, Text, Text), text=_SEND_SIGNAL)
# of jobs that were rescheduled: a sleep, and the pause before a step is tried again, do not last longer than that
_END_SLEEPS = """
    update <step> as step set due_at = job.run_at from <job> as job
    where step.job_id <in_ids:1> and job.id = step.job_id and step.kind <> 'wait' and step.status = 'waiting'
      and step.due_at > job.run_at"""
END_SLEEPS = Query("end_sleeps", (Ids,), text=_END_SLEEPS)
# jobs that wait for a signal which is there run now. Jobs that wait for a retry do not: another step has failed
_WAKE = """
    update <job> as job set run_at = <least:job.run_at, moment.now> from (select <now> as now) as moment
    where id <in_ids:2> and <by_id:job.status> = <scheduled>
      and coalesce((select status from <attempt> where job_id = job.id order by id desc limit 1), '') <> <failed>
      and exists (
        select 1 from <step> as step join <signal> as signal on signal.job_id = step.job_id and signal.name = step.name
        where step.job_id = job.id and step.kind = 'wait' and step.status = 'waiting')"""
WAKE = Query("wake", (Now, Ids), notifies=always_notify, text=_WAKE)
