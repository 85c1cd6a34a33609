"""Single steps: a call of a function, a sleep, a wait for a signal."""

from __future__ import annotations

from collections.abc import Sequence

from rowcall.domain.backoff import RetryPolicy
from rowcall.domain.errors import Control, LeaseLost, SignalTimeout, StepError
from rowcall.domain.outcome import delay_of
from rowcall.domain.payload import checked_result, value_as, value_from_row
from rowcall.domain.question import not_a_choice, schema_of, wrong_signal
from rowcall.domain.step import NO_SIGNAL_CODE, StepStatus, StepWrite
from rowcall.durable.step_effects import CallFunction, Fetch, Flow, WriteStep, recorded_at
from rowcall.durable.step_state import CalledStep, StepState


def run_step(
    state: StepState, step: CalledStep, call: CallFunction, retry: RetryPolicy | None, connection: object
) -> Flow[object]:
    row = yield from recorded_at(state, step)
    if row is not None and row.is_over:
        return call.decoded((yield from Fetch(row.result)))
    failures = 0 if row is None else row.failures
    if row is not None and row.due_in_ms is not None and row.due_in_ms > 0:
        state.suspend(row.due_at_ms)  # another step let the handler run before the next try
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
    text = checked_result(state.facts.task, value, call.decoder, f"step {step.name!r} returned")
    ran_ms = int((state.facts.clock.timer() - began) * 1000)
    write = state.write(step, result=text, finished=True, failures=failures, ran_ms=ran_ms)
    yield from WriteStep(write, connection)
    return call.decoded(text)


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


def wait_for(
    state: StepState,
    step: CalledStep,
    kind: type[object] | None,
    timeout_ms: int | None,
    choices: Sequence[str],
    question: str | None,
) -> Flow[object]:
    row = yield from recorded_at(state, step)
    if row is not None and row.is_over:
        status, text = row.status, row.result
    else:
        expects = None if kind is None else schema_of(kind)
        due = {"delay_ms": timeout_ms} if row is None else {"due_at_ms": row.due_at_ms}
        written = yield from WriteStep(state.write(step, question=question, expects=expects, **due))
        status, text = written.status, written.result
        if status == StepStatus.WAITING:
            state.suspend(written.due_at_ms, waits=True)
    if status == StepStatus.TIMED_OUT:
        raise SignalTimeout(state.facts.job_id, NO_SIGNAL_CODE, f"no signal {step.name!r} came in time")
    value = value_from_row((yield from Fetch(text)))
    if problem := not_a_choice(choices, value):
        raise wrong_signal(state.facts.task, step.name, problem)
    return value if kind is None else _as(state, kind, value, step)


def _as(state: StepState, kind: type[object], value: object, step: CalledStep) -> object:
    try:
        return value_as(kind, value)
    except ValueError as error:
        raise wrong_signal(state.facts.task, step.name, f"is not a {kind!r}: {error}") from error
