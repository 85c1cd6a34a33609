"""`Context`: what a handler can learn and do about its job."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, TypeVarTuple, overload

from rowcall.base.text import DETAIL_LENGTH, storable
from rowcall.domain import checks
from rowcall.domain.backoff import RetryPolicy
from rowcall.domain.batches import BatchInfo
from rowcall.domain.errors import InvalidArguments, InvalidOption
from rowcall.domain.job import Job
from rowcall.domain.job_log import KeepsLines
from rowcall.domain.payload import value_as
from rowcall.domain.question import question_to_json
from rowcall.durable.handler_steps import StepOptions, Steps
from rowcall.durable.step_state import refuse_after_timeout

T = TypeVar("T")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
R_co = TypeVar("R_co", covariant=True)
Ts = TypeVarTuple("Ts")
P = ParamSpec("P")

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    Resources = TypeVarWithDefault("Resources", covariant=True, default=object)
else:
    Resources = TypeVar("Resources", covariant=True)  # defaults came with Python 3.13

logger = logging.getLogger("rowcall")


class Attempted(Protocol):
    """The worker's side of a context."""

    cancelled: bool
    saw_cancelled: bool

    @property
    def context(self) -> Context: ...
    @property
    def resources(self) -> object: ...
    @property
    def steps(self) -> Steps: ...
    @property
    def worker_values(self) -> Mapping[Callable[..., object], object]: ...
    @property
    def log_fields(self) -> dict[str, object]: ...
    @property
    def log_lines(self) -> KeepsLines | None:
        """Where lines are kept, if they are."""

    def claimed_job(self) -> Job: ...
    def claimed_jobs(self) -> list[Job]: ...
    def report(self, share: float, message: str | None) -> None: ...
    def stream(self, value: object, name: str) -> None: ...
    def continue_with(self, task: object, arguments: tuple[object, ...], options: dict[str, object]) -> None: ...
    def blockers(self) -> list[object]: ...
    def previous(self) -> object: ...
    def batch_of_job(self) -> JobsBatch | None: ...
    def use_units(self, limit: str, units: int) -> None: ...
    def complete(self, result: object, connection: object) -> None: ...
    async def acomplete(self, result: object, connection: object) -> None: ...


class Bindable(Protocol[P]):
    """A task, or a task with options."""

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> object: ...


class Enqueueable(Protocol[P, R_co]):
    """A task, or a task with options, and what its function returns."""

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]: ...


class JobsBatch(Protocol):
    """The batch of a job, as its handler has it: see `Batch`."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    def add(self, *calls: Any, connection: object = None) -> list[Job]: ...
    async def aadd(self, *calls: Any, connection: object = None) -> list[Job]: ...
    def seal(self, *, connection: object = None) -> bool: ...
    async def aseal(self, *, connection: object = None) -> bool: ...
    def counts(self, *, connection: object = None) -> BatchInfo: ...
    async def acounts(self, *, connection: object = None) -> BatchInfo: ...


NOT_READ = object()
NO_LIFESPAN = object()
"""The resources of an app that declares no lifespan."""


class Context(Generic[Resources]):
    """Passed to a handler whose first parameter is annotated `Context`; also returned by `rowcall.current()`.

        @jobs.task
        def resize(ctx: Context, path: Path) -> None:
            for part in parts(path):
                if ctx.cancelled:
                    return

    `Context[Resources]` says what `ctx.resources` is.
    """

    def __init__(self, attempt: Attempted) -> None:
        self._attempt = attempt
        self._job: Job | None = None
        self._previous: object = NOT_READ
        self._blockers: list[object] | None = None
        self._batch: object = NOT_READ

    @property
    def job(self) -> Job:
        """Return the job as it was claimed. `error_code` and `error_detail` are the last error of earlier attempts."""
        if self._job is None:
            self._job = self._attempt.claimed_job()
        return self._job

    @property
    def jobs(self) -> list[Job]:
        """Return the jobs of a batch, in the order of its items. Other handlers have one job."""
        return self._attempt.claimed_jobs()

    @property
    def resources(self) -> Resources:
        """Return what the function declared with `@jobs.lifespan` has yielded in this process."""
        resources: Resources = self._attempt.resources  # type: ignore[assignment]
        if resources is NO_LIFESPAN:
            raise RuntimeError("ctx.resources: this app declares no lifespan; declare one with @jobs.lifespan")
        return resources

    @property
    def cancelled(self) -> bool:
        """Return whether the handler should stop: the job was cancelled, settled elsewhere or timed out, or the worker
        is stopping.
        """
        if self._attempt.cancelled:
            self._attempt.saw_cancelled = True
        return self._attempt.cancelled

    def progress(self, share: float, message: str | None = None) -> None:
        """Record progress from 0 to 1, and a message: `ctx.progress(0.4, "resizing")`.

        This does not wait. Frequent calls are written at most twice a second. It counts as a heartbeat.
        """
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise InvalidOption("share", f"must be a number from 0 to 1, got {share!r}")
        self._attempt.report(float(share), None if message is None else storable(str(message), DETAIL_LENGTH))

    def stream(self, value: object, name: str = "out") -> None:
        """Append a small JSON value to a stream of the job, for readers of `jobs.stream`: `ctx.stream(token)`.

        This does not wait. Values are written within milliseconds, and at the latest with the end of the attempt. Code
        that repeats what an earlier attempt did appends nothing. Raises `InvalidArguments` if JSON cannot hold the
        value, and `TooLarge` if it, or the stream, is too large.
        """
        refuse_after_timeout("stream")
        self._attempt.stream(value, checks.name("name", name))

    def used(self, limit: str, units: int) -> None:
        """Say how many units of a limit this attempt has used: `ctx.used("tokens", response.usage.total_tokens)`.

        Several calls add up. When the attempt ends, this replaces what the job had reserved. What it used in addition
        counts from then on.
        """
        if isinstance(units, bool) or not isinstance(units, int) or units < 0:
            raise InvalidOption("units", f"must be a whole number, at least 0, got {units!r}")
        self._attempt.use_units(limit, units)

    @overload
    def continue_with(self, task: str, /, **arguments: object) -> None: ...
    @overload
    def continue_with(self, task: Bindable[P], /, *args: P.args, **arguments: P.kwargs) -> None: ...

    def continue_with(self, task: object, /, *args: object, **arguments: object) -> None:
        """Enqueue another job when this one succeeds, in the same transaction.

            ctx.continue_with(ship, order_id=order_id)
            ctx.continue_with(ship.using(delay=60), order_id=order_id)
            ctx.continue_with(ship.using(after=parts), order_id=order_id)  # when these jobs have succeeded, too

        Both become steps of one chain. `ctx.previous` of the next step is what this handler returns, and the result
        of the chain is the result of its last step.
        """
        refuse_after_timeout("continue_with")
        self._attempt.continue_with(task, args, arguments)

    @property
    def previous(self) -> object:
        """Return what the previous step of the chain returned, or None in the first step.

        It is read from the database on first use. For an async handler that uses it, it is read before the handler
        starts; elsewhere on an event loop it raises, and `await ctx.aprevious()` reads it.
        """
        if self._previous is NOT_READ:
            _refuse_on_event_loop("previous")
            self._previous = self._attempt.previous()
        return self._previous

    def previous_as(self, kind: type[T], /) -> T:
        """Return `previous` as a value of that type, or raise `InvalidArguments`: `ctx.previous_as(Report)`."""
        return self._read_as(kind, self.previous, "previous")

    @overload
    async def aprevious(self) -> object: ...
    @overload
    async def aprevious(self, kind: type[T]) -> T: ...

    async def aprevious(self, kind: type[T] | None = None) -> object:
        """Return `previous`, or `previous_as(kind)`, without blocking the event loop."""
        previous = await _in_thread(lambda: self.previous)
        return previous if kind is None else self._read_as(kind, previous, "previous")

    @property
    def blockers(self) -> list[object]:
        """Return the results of the jobs in `after`, in that order; None for one that failed.

        They are read from the database on first use, with the same rule for async handlers as `previous`.
        """
        if self._blockers is None:
            _refuse_on_event_loop("blockers")
            self._blockers = self._attempt.blockers()
        return self._blockers

    @property
    def batch(self) -> JobsBatch | None:
        """Return the batch of the job, or None: `ctx.batch.add(load.bind(page))` adds jobs to it.

        It is read from the database on first use, with the same rule for async handlers as `previous`.
        """
        if self._batch is NOT_READ:
            _refuse_on_event_loop("batch")
            self._batch = self._attempt.batch_of_job()
        batch: JobsBatch | None = self._batch  # type: ignore[assignment]
        return batch

    async def abatch(self) -> JobsBatch | None:
        """Return `batch`, without blocking the event loop."""
        return await _in_thread(lambda: self.batch)

    def blockers_as(self, kind: type[T], /) -> list[T | None]:
        """Return `blockers` as values of that type; None for one that failed."""
        return self._blockers_as(kind, self.blockers)

    @overload
    async def ablockers(self) -> list[object]: ...
    @overload
    async def ablockers(self, kind: type[T]) -> list[T | None]: ...

    async def ablockers(self, kind: type[T] | None = None) -> list[object] | list[T | None]:
        """Return `blockers`, or `blockers_as(kind)`, without blocking the event loop."""
        blockers = await _in_thread(lambda: self.blockers)
        return blockers if kind is None else self._blockers_as(kind, blockers)

    def _blockers_as(self, kind: type[T], blockers: list[object]) -> list[T | None]:
        return [None if one is None else self._read_as(kind, one, "a blocker") for one in blockers]

    def _read_as(self, kind: type[T], value: object, what: str) -> T:
        try:
            return value_as(kind, value)
        except ValueError as error:
            raise InvalidArguments(self.job.type, f"{what} is not a {kind!r}: {error}") from error

    def complete(self, result: object = None, *, connection: object) -> None:
        """Settle this job inside the handler's own transaction, so that its writes and the success commit together.

        Raises `LeaseLost` if the job is no longer this worker's; let it roll the transaction back. If the transaction
        is rolled back later, the attempt fails, whatever the handler returns.

            with engine.begin() as connection:
                connection.execute(insert(charges).values(order_id=order_id))
                ctx.complete({"charged": True}, connection=connection)
        """
        refuse_after_timeout("complete")
        self._attempt.complete(result, connection)

    async def acomplete(self, result: object = None, *, connection: object) -> None:
        """Do what `complete` does, on an async connection."""
        refuse_after_timeout("acomplete")
        await self._attempt.acomplete(result, connection)

    # durable steps: awaited in async handlers, and done at once in others

    @overload
    def step(
        self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]: ...
    @overload
    def step(
        self,
        name: str,
        function: Callable[[*Ts], Awaitable[T]],
        /,
        *args: *Ts,
        retry: RetryPolicy | None = None,
        timeout: float | timedelta | None = None,
        connection: object = None,
    ) -> Awaitable[T]: ...
    @overload
    def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def step(
        self,
        name: str,
        function: Callable[[*Ts], T],
        /,
        *args: *Ts,
        retry: RetryPolicy | None = None,
        timeout: float | timedelta | None = None,
        connection: object = None,
    ) -> T: ...

    def step(
        self,
        name: str,
        function: Callable[..., object],
        /,
        *args: object,
        retry: object = None,
        timeout: object = None,
        connection: object = None,
        **kwargs: object,
    ) -> object:
        """Call a function once, and store its result. A later attempt returns that result, and does not call it.

            customer = await ctx.step("customer", create_customer, user_id)      # in an async handler
            customer = ctx.step("customer", create_customer, user_id)            # in a sync handler
            ctx.step("charge", charge, order_id, retry=Backoff.exponential(2))   # tries it again alone
            ctx.step("charge", charge, order_id, timeout=30)                     # raises StepTimeout after 30 s

        Names are unique in a handler. With `connection`, the result commits with the caller's transaction. Raises
        `LeaseLost` if the job is no longer this worker's. In an async handler, a function that is not async runs in a
        thread.
        """
        return self._attempt.steps.step(name, function, args, kwargs, StepOptions(retry, timeout, connection))

    @overload
    def call(self, task: Enqueueable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> HandlerValue[T]: ...
    @overload
    def call(self, task: str, /, **kwargs: object) -> Any: ...

    def call(self, task: object, /, *args: object, **kwargs: object) -> object:
        """Enqueue a job of another task, once, and wait for its end: return its result.

            receipt = await ctx.call(charge, order_id)                      # in an async handler
            receipt = ctx.call(charge.using(priority=9), order_id)          # in a sync handler

        The attempt ends as with `sleep`: no slot is kept until the child has ended. Raises `JobFailed` or
        `JobCancelled` if the child has; the job fails with it unless the handler catches it.
        """
        return self._attempt.steps.call(task, args, kwargs)

    def sleep(self, delay: float | timedelta) -> Awaitable[None]:
        """End this attempt, and call the handler again after `delay`: `await ctx.sleep(timedelta(days=3))`.

        The attempt does not count, and no slot is kept. When the handler comes here again, it continues.
        """
        return self._attempt.steps.sleep(delay)  # type: ignore[return-value]

    # Any: it is the value in a sync handler, and awaited in an async one
    @overload
    def wait_for(
        self,
        name: str,
        *,
        timeout: float | timedelta | None = None,
        choices: Sequence[str] | None = None,
        prompt: str | None = None,
    ) -> Any: ...
    @overload
    def wait_for(
        self,
        name: str,
        kind: type[T],
        *,
        timeout: float | timedelta | None = None,
        choices: Sequence[str] | None = None,
        prompt: str | None = None,
    ) -> HandlerValue[T]: ...

    def wait_for(
        self,
        name: str,
        kind: type[object] | None = None,
        *,
        timeout: float | timedelta | None = None,
        choices: Sequence[str] | None = None,
        prompt: str | None = None,
    ) -> object:
        """Wait for `jobs.signal(job, name, value)`, and return the value.

            answer = await ctx.wait_for("confirmed", Answer)      # in an async handler
            answer: Answer = ctx.wait_for("confirmed", Answer)    # in a sync handler
            answer = ctx.wait_for("approval", choices=["approve", "reject"], prompt="Refund 120 €?")

        A signal that was sent before is returned at once. Otherwise the attempt ends as with `sleep`, until the signal
        comes. After `timeout`, raises `SignalTimeout`, a `TimeoutError`. With `choices`, the value is one of these
        strings. Once the handler waits, a signal that does not fit is refused where it is sent. One that was sent
        before raises `InvalidArguments` here; a handler that catches it can wait again. The dashboard shows the
        `prompt`, and a button for each choice.
        """
        question = question_to_json(prompt, choices, kind)
        return self._attempt.steps.wait_for(name, kind, timeout, choices or (), question)

    @overload
    def gather(  # type: ignore[overload-overlap]
        self, first: Awaitable[T], second: Awaitable[T2], /
    ) -> Awaitable[tuple[T, T2]]: ...
    @overload
    def gather(  # type: ignore[overload-overlap]
        self, first: Awaitable[T], second: Awaitable[T2], third: Awaitable[T3], /
    ) -> Awaitable[tuple[T, T2, T3]]: ...
    @overload
    def gather(self, /, *steps: Awaitable[T]) -> Awaitable[tuple[T, ...]]: ...  # type: ignore[overload-overlap]
    @overload
    def gather(self, /, *steps: Callable[[], T]) -> tuple[T, ...]: ...
    @overload
    def gather(self, /, *steps: *Ts) -> tuple[*Ts]: ...

    def gather(self, /, *steps: object) -> object:
        """Run steps side by side, and return their results as a tuple.

            a, b = await ctx.gather(ctx.step("a", fetch, 1), ctx.step("b", fetch, 2))
            pages = await ctx.gather(*(ctx.call(fetch, url) for url in urls))          # children run side by side
            pages = ctx.gather(*(partial(ctx.call, fetch, url) for url in urls))       # in a sync handler

        All run to their ends. Then the first error is raised, if there is one. Children are enqueued in one
        transaction. A sync handler passes callables, each of which calls one step: functions run one after the other.
        """
        return self._attempt.steps.gather(steps)

    @overload
    def first(self, /, *waits: Awaitable[T]) -> Awaitable[tuple[int, T]]: ...
    @overload
    def first(self, /, *waits: Callable[[], T]) -> tuple[int, T]: ...

    def first(self, /, *waits: object) -> object:
        """Wait for the first of several: signals, sleeps and children. Return its number, from 0, and its value.

            index, value = await ctx.first(ctx.wait_for("paid"), ctx.sleep(60))
            index, value = ctx.first(partial(ctx.wait_for, "paid"), partial(ctx.sleep, 60))    # in a sync handler

        The others end: a signal that comes later is kept for another wait, and a child is cancelled, unless it was
        called with `using(detach=True)`. Raises what the first one raises: `JobFailed`, `SignalTimeout`.
        """
        return self._attempt.steps.first(waits)

    def patched(self, name: str) -> bool:
        """Return whether this job runs new code from here on: mark a change of a handler that has steps.

            if ctx.patched("new-tax"):
                tax = ctx.step("tax", new_tax, order)
            else:
                tax = ctx.step("old tax", old_tax, order)

        It is False for a job that had passed this point before the change, and True for all others. The answer of a
        job stays the same. When the last job without it has ended, remove the call and the old code.
        """
        return self._attempt.steps.patched(name)

    def _preload(self, names: Sequence[str], *, steps: bool) -> None:
        """Read what an async handler uses from the database, before it starts."""
        for name in names:
            getattr(self, name)
        if steps:
            self._attempt.steps.preload()

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """Return a logger that adds the job's fields to each record. What it writes is kept, for `jobs.log`."""
        adapter = JobLogger(logger, self._attempt.log_fields)
        adapter.lines = self._attempt.log_lines
        return adapter


if TYPE_CHECKING:

    class HandlerValue(Any, Generic[T]):  # type: ignore[misc]
        """What `ctx.wait_for` and `ctx.call` return: the value in a sync handler, an awaitable in an async one."""

        def __await__(self) -> Generator[Any, Any, T]: ...


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    lines: KeepsLines | None = None

    # Any: as in the standard library
    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        lines = self.lines
        if lines is not None and level >= lines.lowest:
            lines.add(level, _text_of(msg, args, kwargs.get("exc_info")) if args or kwargs else str(msg))
        if self.logger.isEnabledFor(level):
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # the caller, not this method
            super().log(level, msg, *args, **kwargs)

    def process(self, msg: str, kwargs: MutableMapping[str, object]) -> tuple[str, MutableMapping[str, object]]:
        kwargs["extra"] = {**(self.extra or {}), **_given(kwargs.get("extra"))}
        return msg, kwargs


def _text_of(msg: object, args: tuple[object, ...], error: object) -> str:
    """Return the text of a log record: with the traceback, if there is one."""
    text = str(msg)
    if args:
        try:
            text = text % (args[0] if len(args) == 1 and _is_mapping(args[0]) else args)
        except Exception:  # the logger reports wrong arguments where it writes the record
            text = f"{text} {args}"
    if error:
        given = (type(error), error, error.__traceback__) if isinstance(error, BaseException) else error
        info = given if isinstance(given, tuple) else sys.exc_info()
        text += "\n" + _formatter.formatException(info)
    return text


def _is_mapping(value: object) -> bool:
    """Return whether the logging module formats a message with its items. Most values are quickly no mappings."""
    return not isinstance(value, str | int | float) and isinstance(value, Mapping) and bool(value)


_formatter = logging.Formatter()


def _refuse_on_event_loop(name: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"ctx.{name} would block the event loop while it reads the database; use: await ctx.a{name}()")


async def _in_thread(read: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, read)


def _given(extra: object) -> dict[str, object]:
    return dict(extra) if isinstance(extra, dict) else {}


running: ContextVar[Attempted] = ContextVar("rowcall_context")


def current() -> Context:
    """Return the context of the handler that is running here.

    >>> current()
    Traceback (most recent call last):
    RuntimeError: rowcall.current() was called outside a handler
    """
    try:
        attempt = running.get()
    except LookupError:
        raise RuntimeError("rowcall.current() was called outside a handler") from None
    return attempt.context
