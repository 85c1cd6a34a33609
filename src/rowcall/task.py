"""Tasks: functions that can be enqueued, with their arguments checked and typed."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

import msgspec

from rowcall.context import Context
from rowcall.declare.declaration import Declaration, declare, remember
from rowcall.declare.fairness import shared
from rowcall.declare.limits import host_limits, limited
from rowcall.declare.option_table import (
    ENQUEUE_OPTIONS,
    TASK_OPTIONS,
    EnqueueOptions,
    Options,
    TaskOptions,
    check_push,
    checked,
    new_job,
)
from rowcall.domain.errors import DuplicateTask, InvalidOption, in_row
from rowcall.domain.job import Job, Status
from rowcall.drivers.transaction_block import CallerBlock
from rowcall.operations.enqueue import (
    Bound,
    enqueue,
    enqueue_by_name,
    enqueue_each,
    through_middleware,
)
from rowcall.queue import Operation, Queue
from rowcall.store.new_job import NewJob

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
T = TypeVar("T")
C = TypeVar("C")

NOTHING_GIVEN = Options()


class Enqueuer(Generic[P, R]):
    """A task with options: what `task.using(...)` returns."""

    def __init__(
        self,
        queue: Queue,
        declared: Declaration,
        options: Options = NOTHING_GIVEN,
        connection: object = None,
        job: NewJob | None = None,
    ) -> None:
        self._queue = queue
        self._declared = declared
        self._options = options
        self._connection = connection
        self._new_job = job
        self._job(final=False)  # refuse wrong options here

    def _job(self, *, final: bool = True) -> NewJob:
        """Return the job without its arguments. It is kept once the queue is open: `configure` may change it before."""
        job = self._new_job
        if job is None:
            queue, declared, options = self._queue, self._declared, self._options
            job = queue.declared.follow_ups.applied(
                new_job(declared.name, declared.options, options, queue.declared.options)
            )
            job = limited(job, declared.limits_for(options, queue.declared.limits, queue.declared.options.push))
            job = shared(job, declared.sharing, queue.declared.fair_queues.get(job.queue))
            if final or queue.is_open:
                check_push(declared.name, declared.options, options, queue.declared.options.push)
            if queue.is_open and not queue.is_swapped:
                self._new_job = job
        return job

    def _on(self, queue: Queue, connection: object) -> Enqueuer[P, R]:
        """Return the same, with a caller's connection."""
        if queue is not self._queue:
            raise InvalidOption("task", f"{self._declared.name!r} is declared on another queue")
        return Enqueuer(queue, self._declared, self._options, connection, self._job() if queue.is_open else None)

    def __repr__(self) -> str:
        given, default = msgspec.structs.asdict(self._options), msgspec.structs.asdict(NOTHING_GIVEN)
        options = ", ".join(f"{name}={value!r}" for name, value in given.items() if value != default[name])
        return f"<task {self._declared.name!r} with {options or 'its own options'}>"

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Write a job that will call the function with these arguments; it is durable when this returns."""
        payload = self._declared.arguments.to_json(args, kwargs)
        (job,) = self._queue.call(lambda: self._write(payload))
        return job

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Do what `enqueue` does in async code. If this is cancelled, the job may still have been written."""
        payload = self._declared.arguments.to_json(args, kwargs)
        (job,) = await self._queue.acall(lambda: self._write(payload))
        return job

    def _write(self, payload: str) -> Operation[list[Job]]:
        if not self._queue.declared.enqueue_middleware:
            return enqueue(self._queue, self._job(), [payload], self._connection)
        call = self._changed(payload)
        return enqueue(self._queue, call.job, [call.payload], self._connection)

    def _changed(self, payload: str) -> Bound:
        """Return a call as the enqueue middleware of the app has changed it."""
        return through_middleware(self._queue, self._declared.name, payload, self._options)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound:
        """Return a call that is not enqueued yet: a step of a chain, or a job of a flow.

        >>> jobs.start_chain([fetch.bind("a.csv"), load.bind()])  # doctest: +SKIP
        """
        if self._connection is not None:
            problem = "cannot be bound to a call; pass it to jobs.start_chain(…) or jobs.flow(…), and not to ctx.call"
            raise InvalidOption("connection", problem)
        payload = self._declared.arguments.to_json(args, kwargs)
        return self._changed(payload) if self._queue.declared.enqueue_middleware else Bound(self._job, payload)

    def enqueue_many(self, rows: Iterable[Mapping[str, object] | Bound]) -> list[Job[R]]:
        """Write one job for each dict of arguments, all in one transaction. A bound call brings its options.

        >>> send_email.enqueue_many([{"to": "a@example.com", "subject": "hi"}])  # doctest: +SKIP
        >>> send_email.enqueue_many([send_email.using(priority=9).bind("b@example.com", "hi")])  # doctest: +SKIP
        """
        given = list(rows)
        return self._queue.call(lambda: self._write_many(given))

    async def aenqueue_many(self, rows: Iterable[Mapping[str, object] | Bound]) -> list[Job[R]]:
        """Do what `enqueue_many` does in async code."""
        given = list(rows)
        return await self._queue.acall(lambda: self._write_many(given))

    def _write_many(self, rows: list[Mapping[str, object] | Bound]) -> Operation[list[Job]]:
        plain = [row for row in rows if not isinstance(row, Bound)]
        if len(plain) == len(rows) and not self._queue.declared.enqueue_middleware:
            return enqueue(self._queue, self._job(), self._declared.arguments.all_to_json(plain), self._connection)
        calls: list[Bound] = []
        for row in rows:
            with in_row(rows, len(calls)):
                calls.append(self._call_of(row))
        return enqueue_each(self._queue, calls, self._connection)

    def _call_of(self, row: Mapping[str, object] | Bound) -> Bound:
        if not isinstance(row, Bound):
            payload = self._declared.payload_of(row)
            return self._changed(payload) if self._queue.declared.enqueue_middleware else Bound(self._job, payload)
        if row.job.type != self._declared.name:
            raise InvalidOption("rows", f"must be calls of {self._declared.name!r}, got {row!r}")
        return row


class BaseTask(Enqueuer[P, R]):
    """A declared task. Calling it calls the function."""

    def __init__(self, queue: Queue, declared: Declaration) -> None:
        super().__init__(queue, declared)
        function = declared.function
        self.__name__ = getattr(function, "__name__", declared.name)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function

    @property
    def name(self) -> str:
        return self._declared.name

    def is_of(self, queue: Queue) -> bool:
        """Return whether it is declared there."""
        return self._queue is queue

    def using(self, **options: Unpack[EnqueueOptions]) -> Enqueuer[P, R]:
        """Return the same task with other options.

        >>> send_email.using(priority=10, delay=60).enqueue("a@example.com", subject="hi")  # doctest: +SKIP
        """
        if len(options) == 1 and "connection" in options:  # the job is the same
            return self._on(self._queue, options["connection"])
        given = checked(options, ENQUEUE_OPTIONS)
        return Enqueuer(self._queue, self._declared, given, given.connection)

    @overload
    def on_failure(self, function: Callable[..., T], /) -> Task[..., T]: ...
    @overload
    def on_failure(
        self, /, *, cancelled: bool = False, **options: Unpack[TaskOptions]
    ) -> Callable[[Callable[..., T]], Task[..., T]]: ...

    def on_failure(
        self, function: Callable[..., object] | None = None, /, *, cancelled: bool = False, **options: object
    ) -> object:
        """Declare a task that is enqueued when a job of this one has failed, in the transaction in which it fails.

            @send_email.on_failure
            def email_failed(job: JobOutcome) -> None:
                alert(f"job {job.id} to {job.arguments['to']}: {job.error_code}")

        A job that will be retried has not failed. With `cancelled=True` it is enqueued for cancelled jobs too. The
        options are those of `jobs.task`. A task that takes a `JobOutcome` can be passed in place of a function.
        """
        statuses = (Status.FAILED, Status.CANCELLED) if cancelled else (Status.FAILED,)
        return self._followed_by(statuses, function, options)

    @overload
    def on_success(self, function: Callable[..., T], /) -> Task[..., T]: ...
    @overload
    def on_success(self, /, **options: Unpack[TaskOptions]) -> Callable[[Callable[..., T]], Task[..., T]]: ...

    def on_success(self, function: Callable[..., object] | None = None, /, **options: object) -> object:
        """Declare a task that is enqueued when a job of this one has succeeded, in the transaction in which it does.

        @send_email.on_success
        def email_sent(job: JobOutcome) -> None:
            print(job.id, job.arguments, job.result)
        """
        return self._followed_by((Status.SUCCEEDED,), function, options)

    def _followed_by(
        self, statuses: tuple[Status, ...], function: Callable[..., object] | None, options: dict[str, object]
    ) -> object:
        checked_options = checked(options, TASK_OPTIONS)

        def declare_follow_up(function: Callable[..., object]) -> object:
            if isinstance(function, BaseTask) and (options or not function.is_of(self._queue)):
                problem = f"{function.name!r} is already a task; pass it without options, on the queue that declares it"
                raise InvalidOption("follow-up", problem)
            known = function._declared if isinstance(function, BaseTask) else declare(function, checked_options)
            follow_ups = self._queue.declared.follow_ups
            follow_ups.check(self._declared, known, statuses)
            task = function if isinstance(function, BaseTask) else declare_task(self._queue, known)
            follow_ups.declare(self._declared, known, statuses)
            self._new_job = None
            return task

        return declare_follow_up if function is None else declare_follow_up(function)

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """Return the task itself. `help(task)` shows the signature of what has this method."""
        return self

    def __repr__(self) -> str:
        return f"<task {self.name!r}: {self.__module__}.{self.__qualname__}>"


class Task(BaseTask[P, R]):
    """A task whose function takes the arguments it is enqueued with."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.__wrapped__(*args, **kwargs)  # type: ignore[assignment]
        return result


class ContextTask(BaseTask[P, R]):
    """A task whose function takes a `Context` first, which is not among the arguments it is enqueued with."""

    def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.__wrapped__(ctx, *args, **kwargs)  # type: ignore[assignment]
        return result


class AsyncTask(BaseTask[P, R]):
    """A `Task` whose function is async: calling it returns a coroutine."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[object, object, R]:
        return self.__wrapped__(*args, **kwargs)  # type: ignore[return-value]


class AsyncContextTask(BaseTask[P, R]):
    """A `ContextTask` whose function is async: calling it returns a coroutine."""

    def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[object, object, R]:
        return self.__wrapped__(ctx, *args, **kwargs)  # type: ignore[return-value]


class BatchTask(BaseTask[..., object], Generic[R]):
    """A task whose function takes a list of items. A job is enqueued with one item, which no static type describes."""

    def __call__(self, *args: object) -> R:
        result: R = self.__wrapped__(*args)  # type: ignore[assignment]
        return result


class Binding:
    """Enqueues in the transaction of a caller's connection: what `jobs.bind(session)` returns.

        with jobs.bind(session):                      # jobs that are enqueued inside join the session's transaction
            send_email.enqueue("a@example.com")

        bound = jobs.bind(session)                    # or say it each time
        bound(send_email).enqueue("a@example.com")
        bound.enqueue("send_email", {"to": "a@example.com"})

    It never begins, commits or rolls back. Jobs of other threads and asyncio tasks do not join the block.
    """

    def __init__(self, queue: Queue, connection: object) -> None:
        self._queue = queue
        self._connection = connection
        queue.database.caller_connections.wrap(connection, None)  # refuse an unusable one here
        self._block = CallerBlock(queue.database, connection)

    def __repr__(self) -> str:
        return f"<Binding to {type(self._connection).__name__} of {self._queue.database.name}>"

    def __call__(self, task: Enqueuer[P, R]) -> Enqueuer[P, R]:
        """Return the task, or `task.using(…)`, with this connection."""
        if not isinstance(task, Enqueuer):
            raise InvalidOption("task", f"must be a task or task.using(…), got {task!r}")
        return task._on(self._queue, self._connection)

    def enqueue(
        self, task: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> Job:
        """`jobs.enqueue`, on this connection."""
        options["connection"] = self._connection
        return self._queue.run(enqueue_by_name(self._queue, task, arguments, **options))

    async def aenqueue(
        self, task: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> Job:
        """`enqueue`, for async code."""
        options["connection"] = self._connection
        return await self._queue.arun(enqueue_by_name(self._queue, task, arguments, **options))

    def __enter__(self) -> Self:
        self._block.enter()
        return self

    def __exit__(self, *error: object) -> None:
        self._block.leave()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *error: object) -> None:
        self._block.leave()


class TaskDecorator(Protocol):
    """What `jobs.task(...)` returns: it makes a task of a function."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context[C], P], Coroutine[object, object, T]], /
    ) -> AsyncContextTask[P, T]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context[C], P], T], /) -> ContextTask[P, T]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[object, object, T]], /
    ) -> AsyncTask[P, T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> Task[P, T]: ...


class BatchDecorator(Protocol):
    """What `jobs.task(batch=...)` returns: it makes a task of a function that takes a list."""

    def __call__(self, function: Callable[..., T], /) -> BatchTask[T]: ...


def declare_task(queue: Queue, declared: Declaration) -> AnyTask | BatchTask[object]:
    """Add a declaration to those of the queue, and return what the user holds of it."""
    queue.declared.handlers.surround(declared)
    queue.declared.follow_ups.declaring(declared)
    aliases = declared.options.aliases
    names = (declared.name, *aliases)
    for name in names:
        if name in queue.declared.tasks:
            raise DuplicateTask(name)
    if queue.is_open:
        check_push(declared.name, declared.options, NOTHING_GIVEN, queue.declared.options.push)
    declare_limits(queue, declared)
    queue.declared.tasks.update(dict.fromkeys(names, declared))
    queue.declared.aliases.update(dict.fromkeys(aliases, declared.name))
    declared.failures, declared.queue = queue.declared.failures, queue
    declared.defaults = queue.declared.options.defaults
    if declared.options.isolated:
        remember(declared)
    return task_of(queue, declared)


def declare_limits(queue: Queue, declared: Declaration) -> None:
    limits = declared.limits + host_limits(declared.options.target, queue.declared.options.push)
    if limits:
        for name in (declared.name, *declared.options.aliases):
            queue.declared.limits.declare_task(name, limits)
    if declared.sharing is not None and declared.sharing.order is not None:
        for name in (declared.name, *declared.options.aliases):
            queue.declared.limits.declare_order(name, declared.sharing.order)


AnyTask = Task[..., object] | ContextTask[..., object] | AsyncTask[..., object] | AsyncContextTask[..., object]


def task_of(queue: Queue, declared: Declaration) -> AnyTask | BatchTask[object]:
    """Return what a user holds of a declaration."""
    if declared.options.batch is not None:
        return BatchTask(queue, declared)
    if declared.is_async:
        return (AsyncContextTask if declared.takes_context else AsyncTask)(queue, declared)
    return (ContextTask if declared.takes_context else Task)(queue, declared)
