"""What a context calls: the steps of one attempt, which run at once, or when they are awaited."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from rowcall.base import effects
from rowcall.domain.backoff import Backoff, RetryPolicy
from rowcall.domain.defaults import SHORTEST_TIMEOUT_SECONDS
from rowcall.domain.errors import (
    InvalidOption,
    JobCancelled,
    JobFailed,
    Retry,
    SignalTimeout,
    Snooze,
    Suspend,
    seconds_of,
)
from rowcall.domain.question import schema_of
from rowcall.domain.step import NOT_ALLOWED_CODE, NOT_AWAITED_CODE, StepKind, StepRow
from rowcall.durable import single_steps
from rowcall.durable.single_steps import AwaitedStep
from rowcall.durable.step_effects import CallFunction, Flow, ReturnType
from rowcall.durable.step_state import CalledStep, StepFacts, StepState, StepStore, inside

T = TypeVar("T")


class StepOptions(NamedTuple):
    """The options of `ctx.step`, as they were given."""

    retry: object
    timeout: object
    connection: object

    def checked(self, function: Callable[..., object]) -> tuple[RetryPolicy | None, float | None]:
        """Return the policy and the timeout in seconds, or raise `InvalidOption`."""
        retry = self.retry
        if not (retry is None or isinstance(retry, Backoff) or callable(retry)):
            raise InvalidOption("retry", f"must be a Backoff or a function (failures, error) -> seconds, got {retry!r}")
        if retry is not None and self.connection is not None:
            raise InvalidOption("retry", "cannot be combined with connection: a failure ends your transaction")
        if self.timeout is None:
            return retry, None
        if self.connection is not None:
            raise InvalidOption("timeout", "cannot be combined with connection: the function may continue to use it")
        if _takes_timeout(function):
            raise InvalidOption(
                "timeout",
                f"{getattr(function, '__name__', function)} takes a parameter of this name: pass functools.partial("
                "function, …), with its own timeout=… if it needs one, and timeout=… for the step",
            )
        return retry, seconds_of("timeout", cast("float", self.timeout), SHORTEST_TIMEOUT_SECONDS)


def _takes_timeout(function: Callable[..., object]) -> bool:
    """Return whether `timeout=…` could be meant for the function. A partial has its arguments already."""
    if isinstance(function, partial):
        return False
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C, without a signature
        return False
    return "timeout" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


class Collected(BaseException):
    """Says which step a callable of `ctx.gather` or `ctx.first` calls, instead of running it."""

    def __init__(self, wait: AwaitedStep | None) -> None:
        super().__init__("do not catch this")
        self.wait = wait


class Called(NamedTuple):
    """What a callable of `ctx.gather` calls, and the position of that step; or what it returned without one."""

    wait: AwaitedStep | None = None
    last: int | None = None
    value: object = None


class Steps:
    """The steps of one attempt."""

    def __init__(self, store: StepStore, facts: StepFacts) -> None:
        self.state = StepState(store, facts)
        self._open: dict[Pending[Any], CalledStep] = {}
        """Of an async handler: the steps that were called and have not ended."""
        self._collects = False
        """Whether steps are not run, but raise `Collected`."""

    @property
    def store(self) -> StepStore:
        return self.state.store

    @property
    def replays(self) -> bool:
        return self.state.replays

    @property
    def last_call(self) -> int | None:
        """The number of steps that were called, or None in the function of a step: that never repeats anything."""
        return None if inside.get() is not None else self.state.position

    def step(
        self,
        name: str,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: StepOptions,
    ) -> object:
        if not callable(function):
            raise InvalidOption("function", f"must be a function, got {function!r}")
        retry, timeout_seconds = options.checked(function)
        step = self.state.enter(StepKind.STEP, name)
        call = CallFunction(step.name, partial(function, *args, **kwargs), function, timeout_seconds)
        return self._start(step, single_steps.run_step(self.state, step, call, retry, options.connection))

    def preload(self) -> None:
        self.state.preload()

    def patched(self, name: str) -> bool:
        return self.state.patched(name)

    def sleep(self, delay: float | timedelta) -> object:
        delay_ms = round(seconds_of("delay", delay) * 1000)
        step = self.state.enter(StepKind.SLEEP, "")
        wait = AwaitedStep(step, {"delay_ms": delay_ms}, single_steps.slept)
        return self._start(step, single_steps.sleep(self.state, step, delay_ms), wait)

    def wait_for(
        self,
        name: str,
        kind: type[object] | None,
        timeout: float | timedelta | None,
        choices: Sequence[str] = (),
        question: str | None = None,
    ) -> object:
        timeout_ms = None if timeout is None else round(seconds_of("timeout", timeout) * 1000)
        step = self.state.enter(StepKind.WAIT, name)
        fields: dict[str, object] = {
            "delay_ms": timeout_ms,
            "question": question,
            "expects": None if kind is None else schema_of(kind),
        }
        wait = AwaitedStep(step, fields, partial(single_steps.value_of_signal, self.state, step, kind, choices))
        return self._start(step, single_steps.wait_for(self.state, wait), wait)

    def call(self, task: object, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        name, child = task if isinstance(task, str) else getattr(task, "name", ""), None
        if not self.state.facts.is_async:
            self.state.preload()  # what is recorded needs no arguments
        if self.state.next_call(name):  # its arguments were checked before
            function = self.store.function_of(name)
        else:
            child, function = self.store.bind(task, args, kwargs)
            name = child.job.type
        step = self.state.enter(StepKind.CALL, name)
        value = partial(single_steps.result_of_call, self.state, step, ReturnType.of(function))
        wait = AwaitedStep(step, {"child": child}, value)
        return self._start(step, single_steps.call(self.state, wait), wait)

    def first(self, waits: Sequence[object]) -> object:
        if not waits:
            raise InvalidOption("first", "needs at least one wait: ctx.call, ctx.sleep or ctx.wait_for")
        members = [self._member(one) for one in waits]
        step = self.state.enter(StepKind.FIRST, "")
        return self._start(step, single_steps.first(self.state, step, members))

    def _member(self, member: object) -> AwaitedStep:
        """Return a wait of `ctx.first`, which runs it."""
        wait: AwaitedStep | None = None
        if isinstance(member, Pending):
            wait = member.wait
        elif callable(member) and not self.state.facts.is_async:
            asked = set(self.state.asked)
            wait = self._called(member).wait
            if wait is not None:  # the callable may make something else of the value
                wait = wait._replace(value=partial(self._value_from, member, wait.step, asked))
        if wait is None:
            how = "calls of ctx.call, ctx.sleep and ctx.wait_for"
            how = how if self.state.facts.is_async else f"functions that make {how}, as partial(ctx.sleep, 60)"
            raise InvalidOption("first", f"needs {how}, got {member!r}")
        if isinstance(member, Pending):
            self.check_open(member)
            del self._open[member]
        return wait

    def _value_from(
        self, function: Callable[[], object], step: CalledStep, asked: set[str], row: StepRow
    ) -> Flow[object]:
        """Call a callable again whose wait is over."""
        yield from ()
        state = self.state
        before = state.position, state.last_allowed, state.asked
        state.position, state.last_allowed, state.asked = step.position - 1, step.position, asked
        try:
            return function()
        finally:
            state.position, state.last_allowed, state.asked = before

    def check_open(self, pending: Pending[Any]) -> None:
        if pending not in self._open:
            raise RuntimeError("a step is awaited twice: keep its result in a variable")

    def _called(self, function: Callable[[], object]) -> Called:
        """Return which step a function calls, without running it; or what it returned."""
        was, self._collects = self._collects, True
        try:
            return Called(value=function())
        except Collected as collected:
            return Called(collected.wait, self.state.position)
        finally:
            self._collects = was

    def gather(self, steps: Sequence[object]) -> object:
        if not self.state.facts.is_async:
            return self._run_each(steps)
        for pending in steps:
            if not isinstance(pending, Pending):
                needed = "calls of ctx.step, ctx.call, ctx.first, ctx.sleep and ctx.wait_for"
                raise InvalidOption("gather", f"needs {needed}, got {pending!r}")
            self.check_open(pending)
        if len(set(steps)) < len(steps):
            raise InvalidOption(
                "gather", "cannot take one step twice: make a call for each, or keep its result in a variable"
            )
        return self._gather(cast("Sequence[Pending[object]]", steps))

    def end(self, error: object = None) -> BaseException | None:
        """Return what ends the attempt instead of what the handler returned, or of the error that it raised."""
        if self.state.change is not None:
            return self.state.change  # the handler caught it
        suspended = self.state.suspended
        if suspended is not None and (error is None or isinstance(error, Retry | Snooze)):
            return suspended  # the handler caught it
        if error is not None:
            return None
        if self._open:
            step = next(iter(self._open.values()))
            return self.state.error(NOT_AWAITED_CODE, f"the handler called {step}, and did not await it to its end")
        return self.state.left_out()

    def name_of(self, pending: Pending[Any]) -> str:
        step = self._open.get(pending)
        return "a step that has ended" if step is None else f"{step}, not awaited"

    def ended(self, pending: Pending[Any]) -> None:
        self._open.pop(pending, None)

    def _start(self, step: CalledStep, flow: Flow[T], wait: AwaitedStep | None = None) -> T | Pending[T]:
        if self._collects:
            raise Collected(wait)
        if not self.state.facts.is_async:
            return effects.run(flow, self.state)
        pending = Pending(flow, self, wait)
        self._open[pending] = step
        return pending

    def _run_each(self, parts: Sequence[object]) -> tuple[object, ...]:
        """Run the callables among these parts one after the other, in a sync handler. Each calls one step; all
        children are enqueued first.
        """
        state = self.state
        if self._collects:
            raise state.error(NOT_ALLOWED_CODE, "ctx.gather was called inside of ctx.gather or ctx.first")
        start, names, asked = state.position, set(state.names), set(state.asked)
        called = [self._called(part) if callable(part) else Called(value=part) for part in parts]
        effects.run(single_steps.begin_calls(state, calls_of(part.wait for part in called)), state)
        state.position, state.names, state.asked = start, names, asked
        ended: list[object] = []
        for function, part in zip(parts, called, strict=True):
            if part.last is None:
                ended.append(part.value)
                continue
            state.last_allowed = part.last
            try:
                ended.append(cast("Callable[[], object]", function)())
            except (Exception, Suspend) as error:
                ended.append(error)
            finally:
                state.last_allowed = state.suspended = None
            state.position = part.last
        return self._all_of(ended)

    async def _gather(self, steps: Sequence[Pending[object]]) -> tuple[object, ...]:
        """Wait until all have ended: an error or a sleep of one does not cut off the function of another."""
        calls = calls_of(pending.wait for pending in steps)
        try:
            await effects.arun(single_steps.begin_calls(self.state, calls), self.state)
        except Exception:
            for pending in steps:
                del self._open[pending]
            raise
        if not any(single_steps.is_open(self.state, call) for call in calls):
            if len(calls) < len(steps):
                return self._all_of(await asyncio.gather(*steps, return_exceptions=True))
            for pending in steps:
                del self._open[pending]
            return self._all_of([await self._ended(call) for call in calls])  # no task for each of thousands
        others = []  # thousands of calls need not run to find out that one of them is open
        for pending in steps:
            if calls_of([pending.wait]):
                del self._open[pending]
            else:
                others.append(pending)
        return self._all_of([*await asyncio.gather(*others, return_exceptions=True), Suspend(None, waits=True)])

    async def _ended(self, call: AwaitedStep) -> object:
        """Return the result or the error of a call that is over."""
        try:
            return await effects.arun(single_steps.value_of_call(self.state, call), self.state)
        except Exception as error:
            return error

    def _all_of(self, ended: Sequence[object]) -> tuple[object, ...]:
        """Return the results, or raise the first error, or suspend. An error of a wait is recorded: raise it later."""
        suspends = [value for value in ended if isinstance(value, Suspend)]
        for value in ended:
            if not isinstance(value, BaseException) or isinstance(value, Suspend):
                continue
            if not (suspends and isinstance(value, JobFailed | JobCancelled | SignalTimeout)):
                self.state.suspended = None
                raise value
        if suspends:
            times = [suspend.run_at_ms for suspend in suspends if suspend.run_at_ms is not None]
            self.state.suspend(min(times, default=None), waits=any(suspend.waits for suspend in suspends))
        return tuple(ended)


def calls_of(waits: Iterable[AwaitedStep | None]) -> list[AwaitedStep]:
    return [wait for wait in waits if wait is not None and wait.step.kind is StepKind.CALL]


class Pending(Awaitable[T]):
    """A step of an async handler: it runs when it is awaited."""

    __slots__ = ("_flow", "_steps", "wait")  # a gather may have thousands

    def __init__(self, flow: Flow[T], steps: Steps, wait: AwaitedStep | None) -> None:
        self._flow = flow
        self._steps = steps
        self.wait = wait

    def __repr__(self) -> str:
        return f"<{self._steps.name_of(self)}>"

    def __await__(self) -> Generator[Any, Any, T]:
        self._steps.check_open(self)
        try:
            return (yield from effects.arun(self._flow, self._steps.state).__await__())
        finally:
            self._steps.ended(self)
