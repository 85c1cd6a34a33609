"""What a context calls: the steps of one attempt, which run at once, or when they are awaited."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from rowcall.base import effects
from rowcall.domain.backoff import Backoff, RetryPolicy
from rowcall.domain.defaults import SHORTEST_TIMEOUT_SECONDS
from rowcall.domain.errors import InvalidOption, Retry, Snooze, Suspend, seconds_of
from rowcall.domain.step import NOT_AWAITED_CODE, StepKind
from rowcall.durable import single_steps
from rowcall.durable.step_effects import CallFunction, Flow
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
                f"{getattr(function, '__name__', function)} has a parameter of this name: pass functools.partial("
                "function, …, timeout=…) for it, and timeout=… for the step",
            )
        return retry, seconds_of("timeout", cast("float", self.timeout), SHORTEST_TIMEOUT_SECONDS)


def _takes_timeout(function: Callable[..., object]) -> bool:
    """Return whether `timeout=…` could be meant for the function. A partial has its arguments already."""
    if isinstance(function, partial):
        return False
    try:
        return "timeout" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C, without a signature
        return False


class Steps:
    """The steps of one attempt."""

    def __init__(self, store: StepStore, facts: StepFacts) -> None:
        self.state = StepState(store, facts)
        self._open: dict[Pending[Any], CalledStep] = {}
        """Of an async handler: the steps that were called and have not ended."""

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

    def sleep(self, delay: float | timedelta) -> object:
        delay_ms = round(seconds_of("delay", delay) * 1000)
        step = self.state.enter(StepKind.SLEEP, "")
        return self._start(step, single_steps.sleep(self.state, step, delay_ms))

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
        return self._start(step, single_steps.wait_for(self.state, step, kind, timeout_ms, choices, question))

    def gather(self, steps: Sequence[object]) -> object:
        if not self.state.facts.is_async:
            return tuple(steps)  # each has run when it was called
        for one in steps:
            if not isinstance(one, Pending):
                raise InvalidOption("gather", f"needs calls of ctx.step, ctx.sleep and ctx.wait_for, got {one!r}")
        return self._gather(cast("Sequence[Pending[object]]", steps))

    def end(self, error: object = None) -> BaseException | None:
        """Return what ends the attempt instead of what the handler returned, or of the error that it raised."""
        suspended = self.state.suspended
        if suspended is not None and (error is None or isinstance(error, Retry | Snooze)):
            return suspended  # the handler caught it
        if error is not None:
            return None
        if self._open:
            step = next(iter(self._open.values()))
            for pending in self._open:
                pending.close()
            return self.state.error(NOT_AWAITED_CODE, f"the handler called {step}, and did not await it to its end")
        return self.state.left_out()

    def _start(self, step: CalledStep, flow: Flow[T]) -> T | Pending[T]:
        if not self.state.facts.is_async:
            return effects.run(flow, self.state)
        pending = Pending(effects.arun(flow, self.state), self._open.pop)
        self._open[pending] = step
        return pending

    async def _gather(self, steps: Sequence[Pending[object]]) -> tuple[object, ...]:
        """Wait until all have ended: an error or a sleep of one does not cut off the function of another."""
        ended = await asyncio.gather(*steps, return_exceptions=True)
        suspends = [value for value in ended if isinstance(value, Suspend)]
        for value in ended:
            if isinstance(value, BaseException) and not isinstance(value, Suspend):
                self.state.suspended = None
                raise value
        if suspends:
            times = [suspend.run_at_ms for suspend in suspends if suspend.run_at_ms is not None]
            self.state.suspend(min(times, default=None), waits=any(suspend.waits for suspend in suspends))
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
