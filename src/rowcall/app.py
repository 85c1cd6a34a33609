"""Rowcall: what a user holds."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from rowcall.base.clock import Clock, SystemClock
from rowcall.context import Context
from rowcall.declare.declaration import Declaration, declare, remember
from rowcall.declare.failures import CodeFunction
from rowcall.declare.limits import checked_queue_limit
from rowcall.declare.options import TASK_OPTIONS, BatchOptions, Options, TaskOptions, checked
from rowcall.domain.blobs import BlobStore
from rowcall.domain.config import (
    DEFAULT_BLOB_THRESHOLD,
    DEFAULT_MISMATCH_GRACE_SECONDS,
    DEFAULT_PAYLOAD_LIMIT,
    configure,
)
from rowcall.domain.errors import DuplicateTask, InvalidOption, UnknownTask
from rowcall.domain.failure import DEFAULT_TRACEBACK_LIMIT, Scrub
from rowcall.domain.job import Summary
from rowcall.domain.limits import Limit
from rowcall.domain.retention import Retention
from rowcall.observe.endpoint import DEFAULT_HOST
from rowcall.observe.extras import tracing_of
from rowcall.operations.by_hand import ByHand
from rowcall.operations.control import Steering
from rowcall.operations.inspect import Looking
from rowcall.operations.pauses import Pausing
from rowcall.operations.results import Results
from rowcall.operations.retention import Keeping
from rowcall.operations.schedules import Schedules
from rowcall.operations.stats import Observing
from rowcall.operations.transacting import Transacting
from rowcall.task import AnyTask, AsyncContextTask, AsyncTask, BaseTask, BatchTask, ContextTask, Task, task_of
from rowcall.worker.process.signals import work
from rowcall.worker.settings import (
    DEFAULT_CONCURRENCY,
    DEFAULT_GRACE_SECONDS,
    DEFAULT_LEASE_SECONDS,
    Queues,
    settings,
)
from rowcall.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=BaseException)


class TaskDecorator(Protocol):
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[object, object, R]], /
    ) -> AsyncContextTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> ContextTask[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[object, object, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class BatchDecorator(Protocol):
    def __call__(self, function: Callable[..., R], /) -> BatchTask[R]: ...


class Rowcall(Schedules, Transacting, ByHand, Looking, Results, Observing, Keeping, Steering, Pausing):
    """A queue of background jobs in a database.

        jobs = Rowcall("sqlite:///app.db")

        @jobs.task
        def send_email(to: str, subject: str) -> None: ...

        send_email.enqueue("a@example.com", subject="Order confirmed")

    Opening is lazy: the database is opened, and its tables made, on first use. Without a URL, `$ROWCALL_URL` is taken,
    else `sqlite:///rowcall.db`.
    """

    def __init__(
        self,
        url: str | Path | None = None,
        *,
        table_prefix: str = "rowcall_",
        durability: str = "full",
        default_queue: str = "default",
        auto_migrate: bool = True,
        busy_timeout: float = 5.0,
        listen_url: str | None = None,
        pool_size: int | None = None,
        scrub: Scrub | None = None,
        traceback_limit: int | None = DEFAULT_TRACEBACK_LIMIT,
        blobs: BlobStore | None = None,
        blob_threshold: int = DEFAULT_BLOB_THRESHOLD,
        payload_limit: int = DEFAULT_PAYLOAD_LIMIT,
        clock: Clock | None = None,
        tracing: bool = False,
        retention: Retention | None = None,
        mismatch_grace: float | timedelta = DEFAULT_MISMATCH_GRACE_SECONDS,
    ) -> None:
        config = configure(
            url,
            table_prefix=table_prefix,
            durability=durability,
            default_queue=default_queue,
            auto_migrate=auto_migrate,
            busy_timeout=busy_timeout,
            listen_url=listen_url,
            pool_size=pool_size,
            retention=retention,
            scrub=scrub,
            traceback_limit=traceback_limit,
            blobs=blobs,
            blob_threshold=blob_threshold,
            payload_limit=payload_limit,
            mismatch_grace=mismatch_grace,
        )
        super().__init__(config, clock or SystemClock())
        self.tracing = tracing_of(tracing)

    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[object, object, R]], /
    ) -> AsyncContextTask[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> ContextTask[P, R]: ...
    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[object, object, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> TaskDecorator: ...
    @overload
    def task(self, /, **options: Unpack[BatchOptions]) -> BatchDecorator: ...

    def task(self, function: Callable[..., object] | None = None, /, **options: object) -> object:
        """Declare a function as a task: `@jobs.task`, or `@jobs.task(queue="media", max_attempts=3)`."""
        given = checked(options, TASK_OPTIONS)
        if function is not None:
            return self._declare(function, given)
        return lambda function: self._declare(function, given)

    def _declare(self, function: Callable[..., object], options: Options) -> AnyTask | BatchTask[object]:
        if isinstance(function, BaseTask):
            raise InvalidOption("task", f"{function.name!r} is a task already")
        declared = declare(function, options)
        aliases = declared.options.aliases
        names = (declared.name, *aliases)
        for name in names:
            if name in self.tasks:
                raise DuplicateTask(name)
        if declared.limits:
            for name in names:
                self.limits.declare_task(name, declared.limits)
        self.tasks.update(dict.fromkeys(names, declared))
        self.aliases.update(dict.fromkeys(aliases, declared.name))
        declared.failures, declared.queue = self.failures, self
        if declared.options.isolated:
            remember(declared)
        return task_of(self, declared)

    def limit_queue(self, queue: str, limit: Limit | Sequence[Limit]) -> None:
        """Limit all jobs of a queue, wherever they run: `jobs.limit_queue("mail", Limit("mail", concurrency=10))`."""
        self.limits.declare_queue(queue, checked_queue_limit(queue, limit))

    def declared_task(self, name: str) -> Declaration:
        """The declaration of that name; `UnknownTask` if there is none here."""
        try:
            return self.tasks[name]
        except KeyError:
            raise UnknownTask(name, sorted(self.tasks)) from None

    @overload
    def error_code(self, kind: type[E], code: str, /) -> str: ...
    @overload
    def error_code(self, kind: type[E], /) -> Callable[[Callable[[E], str]], Callable[[E], str]]: ...

    def error_code(self, kind: type[BaseException], code: str | None = None, /) -> object:
        """The code of errors of your own: `jobs.error_code(Declined, "PAYMENT:DECLINED")`, or what a function says.

        @jobs.error_code(UpstreamError)
        def upstream_code(error: UpstreamError) -> str:
            return f"UPSTREAM:{error.kind}"
        """

        def declare(code: str | CodeFunction) -> object:
            self.failures.declare(kind, code)
            return code

        self.failures.check(kind)
        return declare if code is None else declare(code)

    def worker(
        self,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        queues: Queues = None,
        grace: float | timedelta = DEFAULT_GRACE_SECONDS,
        lease: float | timedelta = DEFAULT_LEASE_SECONDS,
        metrics_port: int | None = None,
        metrics_host: str = DEFAULT_HOST,
    ) -> Worker:
        """A worker beside the rest of the program: `with jobs.worker():`, or `async with jobs.worker():`."""
        chosen = settings(
            concurrency=concurrency,
            queues=queues,
            grace=grace,
            lease=lease,
            metrics_port=metrics_port,
            metrics_host=metrics_host,
        )
        return Worker(self, chosen, lambda: self.stats(window=60))

    def work(
        self,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        queues: Queues = None,
        grace: float | timedelta = DEFAULT_GRACE_SECONDS,
        lease: float | timedelta = DEFAULT_LEASE_SECONDS,
        metrics_port: int | None = None,
        metrics_host: str = DEFAULT_HOST,
    ) -> None:
        """Work in this process until SIGINT or SIGTERM."""
        work(
            self.worker(
                concurrency=concurrency,
                queues=queues,
                grace=grace,
                lease=lease,
                metrics_port=metrics_port,
                metrics_host=metrics_host,
            )
        )

    def drain(self, *, concurrency: int = DEFAULT_CONCURRENCY, queues: Queues = None) -> Summary:
        """Run all that is due now, here, and return what came of it: for tests and scripts."""
        self.check_outside_block()
        return Worker(self, settings(concurrency=concurrency, queues=queues)).drain()

    async def adrain(self, *, concurrency: int = DEFAULT_CONCURRENCY, queues: Queues = None) -> Summary:
        self.check_outside_block()
        return await Worker(self, settings(concurrency=concurrency, queues=queues)).adrain()

    def __enter__(self) -> Rowcall:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Rowcall:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
