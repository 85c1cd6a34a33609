"""Durable steps of one attempt: which step comes next, whether it is recorded, and what is written about it.

Each step is a generator of effects, which run at once in a sync handler, and when they are awaited in an async one.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar, cast

import msgspec

from rowcall.base import effects
from rowcall.base.clock import Clock
from rowcall.base.effects import Effect, Effects
from rowcall.domain.backoff import Backoff, RetryPolicy
from rowcall.domain.blobs import MARK
from rowcall.domain.checks import name_problem
from rowcall.domain.errors import (
    Control,
    InvalidArguments,
    InvalidOption,
    LeaseLost,
    Retry,
    SignalTimeout,
    Snooze,
    StepError,
    StepsChanged,
    Suspend,
    seconds_of,
)
from rowcall.domain.outcome import delay_of
from rowcall.domain.payload import checked_result, hints_of, result_as, result_decoder, value_as, value_from_row
from rowcall.domain.step import (
    CHANGED_CODE,
    DUPLICATE_CODE,
    NO_SIGNAL_CODE,
    NOT_ALLOWED_CODE,
    NOT_AWAITED_CODE,
    WRONG_SIGNAL_CODE,
    StepKind,
    StepRow,
    StepStatus,
    StepWrite,
    StepWritten,
)

T = TypeVar("T")

_inside: ContextVar[str | None] = ContextVar("rowcall_step", default=None)
"""The name of the step whose function runs here."""


class StepFacts(NamedTuple):
    """The attempt whose steps these are."""

    task: str
    job_id: int
    lease: int
    holder: int
    attempt: int
    max_attempts: int
    is_async: bool
    clock: Clock
    is_over: Callable[[], bool]
    """Returns whether the handler has ended."""
    described: Callable[[Exception], tuple[str, str]]
    """Returns the code and the text that are stored about an error."""

    def check_running(self, what: str) -> None:
        if self.is_over():
            raise RuntimeError(f"ctx.{what} was called after the handler had ended")


class StepStore(Protocol):
    """Reads and writes the steps of one attempt."""

    def read(self) -> list[StepRow]: ...
    def write(self, write: StepWrite, connection: object) -> StepWritten:
        """Write a step in a commit that other attempts share, or on the caller's connection."""

    async def awrite(self, write: StepWrite, connection: object) -> StepWritten: ...
    def fetched(self, text: str) -> str:
        """Return a result that a row holds or refers to."""


class CalledStep(NamedTuple):
    """A step that the handler calls: its number in the order of the calls, and what it is."""

    position: int
    kind: StepKind
    name: str

    @classmethod
    def recorded(cls, row: StepRow) -> CalledStep:
        return cls(row.position, cast("StepKind", row.kind), row.name)

    def __str__(self) -> str:
        return "a sleep" if self.kind == StepKind.SLEEP else f"{self.kind} {self.name!r}"


class Steps:
    """The steps of one attempt, in the order of their calls."""

    suspended: Suspend | None = None
    """How a step has ended this attempt, even if the handler caught it."""

    def __init__(self, store: StepStore, facts: StepFacts) -> None:
        self.store = store
        self.facts = facts
        self._names: set[str] = set()
        self._position = 0
        self._open: dict[Pending[Any], CalledStep] = {}
        """Of an async handler: the steps that were called and have not ended."""
        self._recorded: dict[int, StepRow] | None = None
        self._last = 0
        """The position of the last step that earlier attempts have recorded."""
        self._by_name: dict[str, int] = {}
        if facts.lease == 1:  # the first claim of a job: no attempt has recorded anything before
            self._recorded = {}

    # what a context calls: the position of a step is fixed by the call, not by when it is awaited

    def step(
        self,
        name: str,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        retry: object,
        connection: object,
    ) -> object:
        if not callable(function):
            raise InvalidOption("function", f"must be a function, got {function!r}")
        if not (retry is None or isinstance(retry, Backoff) or callable(retry)):
            raise InvalidOption("retry", f"must be a Backoff or a function (failures, error) -> seconds, got {retry!r}")
        if retry is not None and connection is not None:
            raise InvalidOption("retry", "cannot be combined with connection: a failure ends your transaction")
        step = self._enter(StepKind.STEP, name)
        call = CallFunction(step.name, partial(function, *args, **kwargs), function)
        return self._start(step, self._step(step, call, retry, connection))

    def sleep(self, delay: float | timedelta) -> object:
        delay_ms = round(seconds_of("delay", delay) * 1000)
        step = self._enter(StepKind.SLEEP, "")
        return self._start(step, self._sleep(step, delay_ms))

    def wait_for(self, name: str, kind: type[object] | None, timeout: float | timedelta | None) -> object:
        timeout_ms = None if timeout is None else round(seconds_of("timeout", timeout) * 1000)
        step = self._enter(StepKind.WAIT, name)
        return self._start(step, self._wait_for(step, kind, timeout_ms))

    def gather(self, steps: Sequence[object]) -> object:
        if not self.facts.is_async:
            return tuple(steps)  # each has run when it was called
        for one in steps:
            if not isinstance(one, Pending):
                raise InvalidOption("gather", f"needs calls of ctx.step, ctx.sleep and ctx.wait_for, got {one!r}")
        return self._gather(cast("Sequence[Pending[object]]", steps))

    def _enter(self, kind: StepKind, name: str) -> CalledStep:
        what = "wait_for" if kind is StepKind.WAIT else kind
        self.facts.check_running(what)
        if (outer := _inside.get()) is not None:
            raise self._error(NOT_ALLOWED_CODE, f"ctx.{what} was called inside step {outer!r}; steps cannot be nested")
        if self.suspended is not None:  # the handler caught it
            raise self.suspended
        if kind is not StepKind.SLEEP and (problem := name_problem(name)):
            raise InvalidOption("name", problem)
        if kind is StepKind.STEP:
            if name in self._names:
                raise self._error(
                    DUPLICATE_CODE, f'step name {name!r} is used twice; in a loop, number it: f"{name}-{{number}}"'
                )
            self._names.add(name)
        self._position += 1
        return CalledStep(self._position, kind, name)

    def end(self, error: object = None) -> BaseException | None:
        """Return what ends the attempt instead of what the handler returned, or of the error that it raised."""
        if self.suspended is not None and (error is None or isinstance(error, Retry | Snooze)):
            return self.suspended  # the handler caught it
        if error is not None:
            return None
        if self._open:
            step = next(iter(self._open.values()))
            for pending in self._open:
                pending.close()
            return self._error(NOT_AWAITED_CODE, f"the handler called {step}, and did not await it to its end")
        left = [row for position, row in (self._recorded or {}).items() if position > self._position]
        if left:
            first = CalledStep.recorded(min(left, key=lambda row: row.position))
            problem = f"step {first.position} is recorded as {first}, and the handler has returned without it"
            return self._changed(problem)
        return None

    @property
    def replays(self) -> bool:
        """Return whether the handler repeats what an earlier attempt did: recorded steps are still to come."""
        return self._recorded is None or self._position < self._last

    def _error(self, code: str, problem: str) -> StepError:
        return StepError(self.facts.job_id, code, problem)

    # the steps

    def _step(
        self, step: CalledStep, call: CallFunction, retry: RetryPolicy | None, connection: object
    ) -> Flow[object]:
        row = yield from self._recorded_at(step)
        if row is not None and row.is_over:
            return call.decoded((yield from Fetch(row.result)))
        failures = 0 if row is None else row.failures
        if row is not None and row.due_in_ms is not None and row.due_in_ms > 0:
            self._suspend(row.due_at_ms)  # another step let the handler run before the next try
        began = self.facts.clock.timer()
        try:
            value = yield from call
        except Control:
            raise
        except Exception as error:
            write = self._failed(step, error, failures + 1, retry)
            if write is None:
                raise
            self._suspend((yield from WriteStep(write)).due_at_ms)
        text = checked_result(self.facts.task, value, call.decoder, f"step {step.name!r} returned")
        ran_ms = int((self.facts.clock.timer() - began) * 1000)
        write = self._write(step, result=text, finished=True, failures=failures, ran_ms=ran_ms)
        yield from WriteStep(write, connection)
        return call.decoded(text)

    def _failed(self, step: CalledStep, error: Exception, failures: int, retry: RetryPolicy | None) -> StepWrite | None:
        """Return what is written if the step alone is to be tried again."""
        if retry is None or failures >= self.facts.max_attempts or isinstance(error, LeaseLost | StepError):
            return None
        delay = delay_of(retry, failures, error, self.facts.clock.chance())
        if delay is None:
            return None
        code, detail = self.facts.described(error)
        return self._write(step, failures=failures, error_code=code, error_detail=detail, delay_ms=round(delay * 1000))

    def _sleep(self, step: CalledStep, delay_ms: int) -> Flow[None]:
        row = yield from self._recorded_at(step)
        if row is not None and row.is_over:
            return
        if row is None:
            written = yield from WriteStep(self._write(step, delay_ms=delay_ms))
            if written.status is StepStatus.FINISHED:
                return
            self._suspend(written.due_at_ms)
        self._suspend(row.due_at_ms)

    def _wait_for(self, step: CalledStep, kind: type[object] | None, timeout_ms: int | None) -> Flow[object]:
        row = yield from self._recorded_at(step)
        if row is not None and row.is_over:
            status, text = row.status, row.result
        else:
            if row is None:
                write = self._write(step, delay_ms=timeout_ms)
            else:
                write = self._write(step, due_at_ms=row.due_at_ms)
            written = yield from WriteStep(write)
            status, text = written.status, written.result
            if status == StepStatus.WAITING:
                self._suspend(written.due_at_ms, waits=True)
        if status == StepStatus.TIMED_OUT:
            raise SignalTimeout(self.facts.job_id, NO_SIGNAL_CODE, f"no signal {step.name!r} came in time")
        value = value_from_row((yield from Fetch(text)))
        return value if kind is None else self._as(kind, value, step)

    def _as(self, kind: type[object], value: object, step: CalledStep) -> object:
        try:
            return value_as(kind, value)
        except ValueError as error:
            wrong = InvalidArguments(self.facts.task, f"signal {step.name!r} is not a {kind!r}: {error}")
            wrong.error_code = WRONG_SIGNAL_CODE
            raise wrong from error

    def _recorded_at(self, step: CalledStep) -> Flow[StepRow | None]:
        """Return what earlier attempts have recorded about a step, or raise `StepsChanged`."""
        if self._recorded is None:
            rows = yield from ReadSteps()
            self._recorded = {row.position: row for row in rows}
            self._last = rows[-1].position if rows else 0
            self._by_name = {row.name: row.position for row in rows if row.kind == StepKind.STEP}
        row = self._recorded.get(step.position)
        if row is not None and (row.kind, row.name) != (step.kind, step.name):
            recorded = CalledStep.recorded(row)
            raise self._changed(f"step {step.position} is recorded as {recorded}, and the handler now calls {step}")
        if step.kind == StepKind.STEP and (position := self._by_name.get(step.name, step.position)) != step.position:
            raise self._changed(
                f"{step} is recorded as step {position}, and the handler now calls it as step {step.position}"
            )
        return row

    def _changed(self, problem: str) -> StepsChanged:
        return StepsChanged(self.facts.job_id, CHANGED_CODE, problem)

    def _write(self, step: CalledStep, **fields: Any) -> StepWrite:
        facts = self.facts
        return StepWrite(facts.job_id, facts.lease, facts.holder, facts.attempt, *step, **fields)

    def _suspend(self, run_at_ms: int | None, *, waits: bool = False) -> NoReturn:
        self.suspended = Suspend(run_at_ms, waits=waits)
        raise self.suspended

    def _start(self, step: CalledStep, flow: Flow[T]) -> T | Pending[T]:
        if not self.facts.is_async:
            return effects.run(flow, self)
        pending = Pending(effects.arun(flow, self), self._open.pop)
        self._open[pending] = step
        return pending

    async def _gather(self, steps: Sequence[Pending[object]]) -> tuple[object, ...]:
        """Wait until all have ended: an error or a sleep of one does not cut off the function of another."""
        ended = await asyncio.gather(*steps, return_exceptions=True)
        suspends = [value for value in ended if isinstance(value, Suspend)]
        for value in ended:
            if isinstance(value, BaseException) and not isinstance(value, Suspend):
                self.suspended = None
                raise value
        if suspends:
            times = [suspend.run_at_ms for suspend in suspends if suspend.run_at_ms is not None]
            self._suspend(min(times, default=None), waits=any(suspend.waits for suspend in suspends))
        return tuple(ended)


class Pending(Awaitable[T]):
    """A step of an async handler: it runs when it is awaited."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], ended: Callable[[Pending[T], None], object]) -> None:
        self._coroutine = coroutine
        self._ended = ended

    def __await__(self) -> Generator[Any, Any, T]:
        try:
            return (yield from self._coroutine.__await__())
        finally:
            self._ended(self, None)

    def close(self) -> None:
        """Let Python not warn that it was never awaited."""
        if inspect.getcoroutinestate(self._coroutine) == inspect.CORO_CREATED:
            self._coroutine.close()


# the effects of steps

Flow = Effects[Steps, T]


class ReadSteps(Effect[Steps, list[StepRow]]):
    """Read what earlier attempts have recorded."""

    def run(self, steps: Steps) -> list[StepRow]:
        return steps.store.read()

    async def arun(self, steps: Steps) -> list[StepRow]:
        return await asyncio.get_running_loop().run_in_executor(None, steps.store.read)


class Fetch(Effect[Steps, str | None]):
    """Read a result that may be stored outside of its row."""

    def __init__(self, text: str | None) -> None:
        self._text = text

    def run(self, steps: Steps) -> str | None:
        if self._text is None or MARK not in self._text:
            return self._text
        return steps.store.fetched(self._text)

    async def arun(self, steps: Steps) -> str | None:
        if self._text is None or MARK not in self._text:
            return self._text
        return await asyncio.get_running_loop().run_in_executor(None, self.run, steps)


class WriteStep(Effect[Steps, StepWritten]):
    def __init__(self, write: StepWrite, connection: object = None) -> None:
        self._write = write
        self._connection = connection

    def run(self, steps: Steps) -> StepWritten:
        steps.facts.check_running(self._write.kind)
        return steps.store.write(self._write, self._connection)

    async def arun(self, steps: Steps) -> StepWritten:
        steps.facts.check_running(self._write.kind)
        return await steps.store.awrite(self._write, self._connection)


class CallFunction(Effect[Steps, object]):
    """Call the function of a step. In an async handler, one that is not async runs in a thread."""

    def __init__(self, name: str, call: Callable[[], object], function: Callable[..., object]) -> None:
        self._name = name
        self._call = call
        self._function = function
        self.returns, self.decoder = _returned_by(function)

    def decoded(self, text: str | None) -> object:
        """Return the result as it is stored: the first attempt gets the same value as later ones."""
        if self.decoder is not None and text is not None:
            try:
                return self.decoder.decode(text)
            except (msgspec.ValidationError, TypeError):
                pass  # recorded by another version of the function
        return result_as(self.returns, value_from_row(text))

    def run(self, steps: Steps) -> object:
        token = _inside.set(self._name)
        try:
            result = self._call()
        finally:
            _inside.reset(token)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise InvalidArguments(
                steps.facts.task,
                f"step {self._name!r}: an async function needs an async handler; make the handler async",
            )
        return result

    async def arun(self, steps: Steps) -> object:
        token = _inside.set(self._name)
        try:
            if inspect.iscoroutinefunction(self._function):
                return await cast("Awaitable[object]", self._call())
            result = await asyncio.to_thread(self._call)
            return await result if inspect.isawaitable(result) else result
        finally:
            _inside.reset(token)


_Returned = tuple[object, msgspec.json.Decoder[object] | None]
_returned: weakref.WeakKeyDictionary[Callable[..., object], _Returned] = weakref.WeakKeyDictionary()


def _returned_by(function: Callable[..., object]) -> _Returned:
    """Return the annotation of what a function returns, and its decoder."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__func__", function)
    try:
        return _returned[function]
    except (KeyError, TypeError):
        pass
    try:
        returns = hints_of(function).get("return")
    except InvalidOption:
        returns = None
    decoding = returns, result_decoder(returns)
    with contextlib.suppress(TypeError):  # not hashable, or without weak references
        _returned[function] = decoding
    return decoding
