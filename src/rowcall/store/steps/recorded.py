"""Record durable steps, fenced by the leases of their attempts; send signals and receive them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

import msgspec

from rowcall.base.times import milliseconds_of
from rowcall.domain.errors import InvalidOption, LeaseLost, WrongState
from rowcall.domain.failure import Scrub
from rowcall.domain.job import FINISHED, WAITING, Status
from rowcall.domain.step import (
    NAMELESS,
    OpenWait,
    OpenWaits,
    RecordedStep,
    StepKind,
    StepRow,
    StepStatus,
    StepWritten,
)
from rowcall.store.blobs.references import refer_to
from rowcall.store.dialect import Dialect
from rowcall.store.jobs.inspect import get, lock
from rowcall.store.new_step import StepWrite
from rowcall.store.queries import steps as queries
from rowcall.store.queries.control import RECORD_EVENTS
from rowcall.store.queries.counts import NOW
from rowcall.store.queries.steps import Signal
from rowcall.store.statement import Plan


class Woken(IntEnum):
    """What may have ended the wait of a job."""

    BY_SIGNAL = 0
    BY_CALL = 1
    """A signal, or the last of its calls."""
    BY_FIRST = 2
    """All of these, or a call that is part of a `ctx.first`."""


Answer = StepWritten | Exception
MOST_NAMED = 20


def read(dialect: Dialect, job_id: int) -> Plan[list[StepRow]]:
    return (yield from dialect.ask(queries.STEPS, job_id))


def read_of(dialect: Dialect, job_ids: Sequence[int]) -> Plan[dict[int, list[StepRow]]]:
    """Return the steps of those of the jobs that have any."""
    steps: dict[int, list[StepRow]] = {}
    for job_id, step in (yield from dialect.ask(queries.STEPS_OF, sorted(job_ids))):
        steps.setdefault(job_id, []).append(step)
    return steps


def show(dialect: Dialect, job_id: int, limit: int) -> Plan[list[RecordedStep]]:
    """Return the last steps, in their order."""
    job = yield from get(dialect, job_id)
    found = (yield from dialect.ask(queries.SHOW_STEPS, job_id, limit))[::-1]
    return [msgspec.structs.replace(step, type=job.type) for step in found]


Enqueued = Callable[[Dialect, Sequence[StepWrite]], Plan[list[int | Exception]]]
"""Enqueues the children of steps; returns their ids, or why nothing was written of one."""


def record(dialect: Dialect, writes: Sequence[StepWrite], enqueue: Enqueued | None = None) -> Plan[list[Answer]]:
    """Write steps of running attempts. A wait receives the first signal of its name that no other has received.

    Return for each how it was written, or `LeaseLost` if its attempt is not current: then nothing is written about it.
    `enqueue` is needed for calls.
    """
    fences = {(one.job_id, one.lease, one.holder) for one in writes}
    live = set((yield from dialect.ask(queries.CURRENT, sorted(fences))))
    ours = [one for one in writes if (one.job_id, one.lease, one.holder) in live]
    if not ours:
        return [LeaseLost(one.job_id) for one in writes]
    calls = [one for one in ours if one.child is not None]
    refused: dict[int, Exception] = {}
    children: dict[int, int] = {}
    if calls and enqueue is not None:  # before any step is written: children may wait for locks
        for call, child in zip(calls, (yield from enqueue(dialect, calls)), strict=True):
            if isinstance(child, int):
                children[id(call)] = child
            else:
                refused[id(call)] = child
        ours = [one for one in ours if id(one) not in refused]
        if not ours:
            return [refused.get(id(one)) or LeaseLost(one.job_id) for one in writes]
    (at_ms,) = yield from dialect.ask(NOW)
    signals = yield from _receive(dialect, [one for one in ours if one.kind is StepKind.WAIT and not one.first_at])
    written = {id(one): _written(one, signals, at_ms) for one in ours}
    for key, child_id in children.items():
        written[key] = msgspec.structs.replace(written[key], child_id=child_id)
    yield from dialect.ask(queries.WRITE_STEPS, [_row(one, written[id(one)], at_ms) for one in ours])
    for one in ours:
        if (one.question, one.expects) != (None, None):
            yield from dialect.ask(queries.ASK, one.job_id, one.position, one.question, one.expects)
    for race in ours:
        if race.kind is StepKind.FIRST:
            written[id(race)] = yield from _first(dialect, race)
    yield from refer_to(dialect, [one.result for one in ours], [one.job_id for one in ours])
    return [written.get(id(one)) or refused.get(id(one)) or LeaseLost(one.job_id) for one in writes]


def record_one(dialect: Dialect, write: StepWrite) -> Plan[StepWritten]:
    """`record`, for one step; raise `LeaseLost`."""
    (answer,) = yield from record(dialect, [write])
    if isinstance(answer, Exception):
        raise answer
    return answer


def _receive(dialect: Dialect, waits: Sequence[StepWrite]) -> Plan[dict[tuple[int, int], str | None]]:
    """Return the values of signals by the job and the position of the wait that receives them; delete these signals."""
    if not waits:
        return {}
    signals = yield from dialect.ask(queries.SIGNALS, sorted({wait.job_id for wait in waits}))
    received: dict[tuple[int, int], str | None] = {}
    used: dict[int, tuple[Signal, int]] = {}
    for wait in sorted(waits, key=lambda wait: wait.position):
        for signal in signals:
            if signal.id not in used and (signal.job_id, signal.name) == (wait.job_id, wait.name):
                used[signal.id] = signal, wait.position
                received[wait.job_id, wait.position] = signal.value
                break
    if used:
        yield from _use_up(dialect, list(used.values()))
    return received


def _use_up(dialect: Dialect, received: Sequence[tuple[Signal, int]]) -> Plan[None]:
    """Note that signals were received, each by the wait at a position. The row of one with a key stays, so that it is
    not received again.
    """
    if ids := [signal.id for signal, _ in received if signal.key is None]:
        yield from dialect.ask(queries.DELETE_SIGNALS, ids)
    for position in sorted({position for signal, position in received if signal.key is not None}):
        ids = [signal.id for signal, by in received if signal.key is not None and by == position]
        yield from dialect.ask(queries.RECEIVE_SIGNALS, ids, position)


def _written(step: StepWrite, signals: dict[tuple[int, int], str | None], at_ms: int) -> StepWritten:
    due_at_ms = step.due_at_ms if step.delay_ms is None else at_ms + step.delay_ms
    if step.finished:
        return StepWritten(StepStatus.FINISHED)
    if (place := (step.job_id, step.position)) in signals:
        return StepWritten(StepStatus.FINISHED, due_at_ms, signals[place])
    is_over = due_at_ms is not None and due_at_ms <= at_ms
    if is_over and step.kind is not StepKind.STEP:
        over = StepStatus.TIMED_OUT if step.kind is StepKind.WAIT else StepStatus.FINISHED
        return StepWritten(over, due_at_ms)
    return StepWritten(StepStatus.WAITING, due_at_ms)


def _row(step: StepWrite, written: StepWritten, at_ms: int) -> tuple[object, ...]:
    ended_ms = at_ms if written.status is not StepStatus.WAITING else None
    result = written.result if step.kind is StepKind.WAIT else step.result
    return (
        *(step.job_id, step.position, step.attempt, step.failures, at_ms - step.ran_ms, written.due_at_ms, ended_ms),
        *(step.kind, step.name, written.status, step.error_code, step.error_detail, result),
        *(written.child_id, step.first_at),
    )


def _first(dialect: Dialect, first: StepWrite) -> Plan[StepWritten]:
    """End a `ctx.first` if one of its parts is over, and its other parts with it; return how it was written."""
    job_id, parts = first.job_id, set(first.members)
    rows = {row.position: row for row in (yield from dialect.ask(queries.STEPS, job_id)) if row.position in parts}
    signals = {signal.name: signal for signal in (yield from dialect.ask(queries.SIGNALS, [job_id]))[::-1]}
    for position in first.members:
        row = rows[position]
        signal = signals.get(row.name) if row.kind == StepKind.WAIT else None
        if row.status != StepStatus.WAITING:
            break
        if signal is not None:
            yield from dialect.ask(queries.END_STEP, job_id, position, StepStatus.FINISHED, signal.value)
            yield from _use_up(dialect, [(signal, position)])
            break
        if row.due_in_ms is not None and row.due_in_ms <= 0:
            over = StepStatus.TIMED_OUT if row.kind == StepKind.WAIT else StepStatus.FINISHED
            yield from dialect.ask(queries.END_STEP, job_id, position, over, None)
            break
    else:
        times = [row.due_at_ms for row in rows.values() if row.due_at_ms is not None]
        return StepWritten(StepStatus.WAITING, min(times, default=None))
    others = [row for row in rows.values() if row.position != position and row.status == StepStatus.WAITING]
    for row in others:
        yield from dialect.ask(queries.END_STEP, job_id, row.position, StepStatus.ABANDONED, None)
    if any(row.child_id is not None for row in others):  # the next round of a worker cancels them
        yield from dialect.ask(queries.CHECK_PARENTS, [job_id])
    yield from dialect.ask(queries.END_STEP, job_id, first.position, StepStatus.FINISHED, None)
    return StepWritten(StepStatus.FINISHED)


def open_waits(dialect: Dialect, asks: bool | None, after: tuple[int, int, int], limit: int) -> Plan[OpenWaits]:
    """Return waits that have no answer, after the place of one: the questions for people, the others, or all."""
    rows: list[OpenWait] = []
    for query, of_questions in ((queries.ASKING, True), (queries.AWAITING, False)):  # each has its index
        if asks in (None, of_questions):
            rows += yield from dialect.ask(query, *after, limit + 1)
    rows.sort(key=lambda wait: (wait.asked_at, wait.job_id, wait.position))
    shown = rows[:limit]
    if len(rows) <= limit:
        return OpenWaits(waits=shown)
    last = shown[-1]
    return OpenWaits(waits=shown, next_cursor=f"after-{milliseconds_of(last.asked_at)}-{last.job_id}-{last.position}")


def start_over(dialect: Dialect, job_ids: Sequence[int]) -> Plan[None]:
    """Delete the steps and the signals of jobs that have succeeded and run again."""
    if job_ids:
        yield from dialect.ask(queries.DELETE_STEPS, job_ids)
        yield from dialect.ask(queries.DELETE_SIGNALS_OF, job_ids)


def forget_steps(dialect: Dialect, job_id: int, name: str, scrub: Scrub) -> Plan[None]:
    """Delete a recorded step of a locked job, and all that came after it. Its name may be given as it is shown."""
    rows = yield from read(dialect, job_id)
    named = [row for row in rows if row.kind not in NAMELESS]
    as_shown = {scrub(row.name): row.position for row in reversed(named)}
    first = next((row.position for row in named if row.name == name), as_shown.get(name))
    if first is None:
        known = ", ".join(map(repr, [*as_shown][::-1][:MOST_NAMED])) or "none"
        raise InvalidOption("from_step", f"must be a recorded step of job {job_id}, got {name!r}; it has {known}")
    forgotten = yield from dialect.ask(queries.FORGET_STEPS, job_id, first)
    yield from dialect.ask(queries.FORGET_RECEIVED_BY, job_id, forgotten)
    if any(row.child_id is not None and not row.is_over for row in rows):
        yield from dialect.ask(queries.CHECK_PARENTS, [job_id])  # the next round of a worker cancels these children


def forget_failed_calls(dialect: Dialect, job_ids: Sequence[int]) -> Plan[None]:
    """Let jobs that run again call the children again that have not succeeded."""
    if job_ids:
        for job_id, position, first_at in (yield from dialect.ask(queries.FAILED_CALLS, job_ids)):
            yield from dialect.ask(queries.FORGET_STEP, job_id, position, first_at)


def wake(dialect: Dialect, job_ids: Sequence[int], how: Woken = Woken.BY_SIGNAL) -> Plan[bool]:
    """Let jobs run at once that do not wait any more. Their rows are locked. Return whether any job runs."""
    return bool((yield from dialect.ask(queries.WAKE, job_ids, how))) if job_ids else False


def signal(
    dialect: Dialect,
    job_id: int,
    name: str,
    value: str | None,
    actor: str | None,
    position: int | None = None,
    key: str | None = None,
    check: Callable[[OpenWait], None] = lambda wait: None,
) -> Plan[None]:
    """Keep a signal until the job's handler waits for it; let the job run now if it waits already.

    `check` raises if the wait that will receive it does not take it. With `position`, that must be the wait there.
    """
    job = yield from lock(dialect, job_id)
    if key is not None and (yield from dialect.ask(queries.WAS_SENT, job_id, name, key)):
        return
    if job.status in FINISHED:
        raise WrongState(job_id, job.status, "signal", [*map(str, WAITING), str(Status.RUNNING)])
    waits = yield from dialect.ask(queries.NEXT_WAIT, job_id, name)
    if position is not None and [wait.position for wait in waits] != [position]:
        problem = f"step {position} does not wait for {name!r}, or it was answered already"
        raise WrongState(job_id, job.status, "signal", [], problem)
    for wait in waits:
        check(wait)
    yield from dialect.ask(queries.SEND_SIGNAL, job_id, name, value, key)
    yield from refer_to(dialect, [value], [job_id])
    yield from dialect.ask(RECORD_EVENTS, [job_id], "SIGNALLED", actor, name)
    yield from wake(dialect, [job_id])
