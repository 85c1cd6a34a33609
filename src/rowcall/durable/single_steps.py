"""Single steps: a call of a function, a sleep, a wait for a signal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rowcall.domain.backoff import RetryPolicy
from rowcall.domain.errors import Control, JobCancelled, JobFailed, LeaseLost, SignalTimeout, StepError
from rowcall.domain.outcome import delay_of
from rowcall.domain.payload import checked_result, value_as, value_from_row
from rowcall.domain.question import not_a_choice, wrong_signal
from rowcall.domain.step import NO_SIGNAL_CODE, StepRow, StepStatus
from rowcall.durable.step_effects import (
    CallFunction,
    Flow,
    ReadSteps,
    ReturnType,
    WriteAll,
    WriteStep,
    fetched,
    recorded_at,
)
from rowcall.durable.step_state import CalledStep, StepState
from rowcall.store.new_step import StepWrite


def run_step(
    state: StepState, step: CalledStep, call: CallFunction, retry: RetryPolicy | None, connection: object
) -> Flow[object]:
    row = yield from recorded_at(state, step)
    if row is not None and row.is_over:
        return call.returned.decoded((yield from fetched(row.result)))
    failures = 0 if row is None else row.failures
    if row is not None and row.due_in_ms is not None and row.due_in_ms > 0:
        state.suspend(row.due_at_ms)  # another step let the handler run before the next try
    if not state.store.may_call(step):
        state.suspend(None, waits=True)
    began = state.facts.clock.timer()
    try:
        value = yield from call
    except Control:
        raise
    except Exception as error:
        write = _failed(state, step, error, failures + 1, retry)
        if write is None:
            raise
        state.suspend((yield from WriteStep(write)).due_at_ms)
    text = checked_result(state.facts.task, value, call.returned.decoder, f"step {step.name!r} returned")
    ran_ms = int((state.facts.clock.timer() - began) * 1000)
    write = state.write(step, result=text, finished=True, failures=failures, ran_ms=ran_ms)
    yield from WriteStep(write, connection)
    return call.returned.decoded(text)


def _failed(
    state: StepState, step: CalledStep, error: Exception, failures: int, retry: RetryPolicy | None
) -> StepWrite | None:
    """Return what is written if the step alone is to be tried again."""
    if retry is None or failures >= state.facts.max_attempts or isinstance(error, LeaseLost | StepError):
        return None
    delay = delay_of(retry, failures, error, state.facts.clock.chance())
    if delay is None:
        return None
    code, detail = state.facts.described(error)
    return state.write(step, failures=failures, error_code=code, error_detail=detail, delay_ms=round(delay * 1000))


class AwaitedStep(NamedTuple):
    """What `ctx.first` can wait for: its step, what is written about it, and the flow that makes a value of its row."""

    step: CalledStep
    fields: dict[str, object]
    value: Callable[[StepRow], Flow[object]]


def first(state: StepState, step: CalledStep, waits: Sequence[AwaitedStep]) -> Flow[tuple[int, object]]:
    """Return the number and the value of the first wait that is over: of several, the one that comes first here."""
    row = yield from recorded_at(state, step)
    rows = [state.recorded_as(wait.step) for wait in waits]
    if row is None or not row.is_over:
        new = [wait for wait, known in zip(waits, rows, strict=True) if known is None]
        writes = [state.write(wait.step, first_at=step.position, **wait.fields) for wait in new]
        members = tuple(wait.step.position for wait in waits)
        *_, written = yield from WriteAll([*writes, state.write(step, members=members)])
        if written.status is StepStatus.WAITING:
            state.suspend(written.due_at_ms, waits=True)
        state.note_recorded((yield from ReadSteps()))
        rows = [state.recorded_as(wait.step) for wait in waits]
    found = next((n, row) for n, row in enumerate(rows) if row is not None and row.status != StepStatus.ABANDONED)
    return found[0], (yield from waits[found[0]].value(found[1]))


def slept(row: StepRow) -> Flow[None]:
    yield from ()


def sleep(state: StepState, step: CalledStep, delay_ms: int) -> Flow[None]:
    row = yield from recorded_at(state, step)
    if row is not None and row.is_over:
        return
    if row is None:
        written = yield from WriteStep(state.write(step, delay_ms=delay_ms))
        if written.status is StepStatus.FINISHED:
            return
        state.suspend(written.due_at_ms)
    state.suspend(row.due_at_ms)


def call(state: StepState, wait: AwaitedStep) -> Flow[object]:
    yield from begin_calls(state, [wait])
    return (yield from value_of_call(state, wait))


def value_of_call(state: StepState, wait: AwaitedStep) -> Flow[object]:
    """Return the value of a call that was begun, or suspend."""
    row = state.recorded_as(wait.step)
    if row is None or not row.is_over:
        state.suspend(None, waits=True)
    return (yield from wait.value(row))


def is_open(state: StepState, wait: AwaitedStep) -> bool:
    """Return whether a call that was begun has not ended."""
    row = state.recorded_as(wait.step)
    return row is None or not row.is_over


def result_of_call(state: StepState, step: CalledStep, returned: ReturnType, row: StepRow) -> Flow[object]:
    assert row.child_id is not None
    if row.status == StepStatus.FAILED:
        raise JobFailed(row.child_id, row.error_code or "", row.error_detail, parent_id=state.facts.job_id)
    if row.status == StepStatus.CANCELLED:
        raise JobCancelled(row.child_id, row.error_detail, parent_id=state.facts.job_id)
    return returned.decoded((yield from fetched(row.result, step.name)))


def begin_calls(state: StepState, calls: Iterable[AwaitedStep]) -> Flow[None]:
    """Enqueue the children that no earlier attempt has enqueued, in one transaction."""
    waits = list(calls)
    for wait in waits[:1]:
        yield from recorded_at(state, wait.step)  # reads all of them
    new = [state.write(wait.step, **wait.fields) for wait in waits if state.recorded_as(wait.step) is None]
    if new:
        state.note_calls(new, (yield from WriteAll(new)))


def wait_for(state: StepState, wait: AwaitedStep) -> Flow[object]:
    step, fields = wait.step, dict(wait.fields)
    row = yield from recorded_at(state, step)
    if row is None or not row.is_over:
        if row is not None:
            fields |= {"delay_ms": None, "due_at_ms": row.due_at_ms}
        written = yield from WriteStep(state.write(step, **fields))
        if written.status == StepStatus.WAITING:
            state.suspend(written.due_at_ms, waits=True)
        row = StepRow(*step, written.status, 0, written.due_at_ms, None, written.result)
    return (yield from wait.value(row))


def value_of_signal(
    state: StepState, step: CalledStep, kind: type[object] | None, choices: Sequence[str], row: StepRow
) -> Flow[object]:
    status, text = row.status, row.result
    if status == StepStatus.TIMED_OUT:
        raise SignalTimeout(state.facts.job_id, NO_SIGNAL_CODE, f"no signal {step.name!r} came in time")
    value = value_from_row((yield from fetched(text)))
    if problem := not_a_choice(choices, value):
        raise wrong_signal(state.facts.task, step.name, problem)
    return value if kind is None else _as(state, kind, value, step)


def _as(state: StepState, kind: type[object], value: object, step: CalledStep) -> object:
    try:
        return value_as(kind, value)
    except ValueError as error:
        raise wrong_signal(state.facts.task, step.name, f"is not a {kind!r}: {error}") from error
