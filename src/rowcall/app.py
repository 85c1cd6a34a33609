"""Rowcall: what a user holds. Every method forwards to an operation.

One class is one file, whatever its length: users, type checkers, `help()` and the API pages find each method here, with
its signature and docstring, next to its async twin.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from functools import partial
from typing import Concatenate, Literal, ParamSpec, TypeVar, Unpack, overload
from zoneinfo import ZoneInfo

from rowcall.context import Context
from rowcall.declare.declaration import Declaration, declare
from rowcall.declare.enqueue_call import EnqueueMiddleware, checked_enqueue_middleware
from rowcall.declare.failures import CodeFunction
from rowcall.declare.fairness import declare_fair_queue
from rowcall.declare.follow_ups import ObservedEvent, Observer
from rowcall.declare.handlers import Override
from rowcall.declare.lifespan import LifespanFunction, checked_lifespan
from rowcall.declare.limits import checked_queue_limit
from rowcall.declare.middleware import AnyMiddleware
from rowcall.declare.option_table import (
    TASK_OPTIONS,
    BatchOptions,
    EditOptions,
    EnqueueOptions,
    Options,
    TaskOptions,
    checked,
)
from rowcall.domain.config import Config, QueueOptions
from rowcall.domain.errors import InvalidOption, UnknownTask, refuse_unknown
from rowcall.domain.job import (
    Activity,
    Attempt,
    BlockedBy,
    Chain,
    ChainPage,
    Dependent,
    ErrorGroup,
    Event,
    Failing,
    InProgress,
    Job,
    Page,
    Paused,
    Pruned,
    Rekeyed,
    RetentionReport,
    Retries,
    Schedule,
    Stack,
    Stats,
    Summary,
    Why,
    WorkerInfo,
)
from rowcall.domain.job import R as Returned
from rowcall.domain.limits import Limit
from rowcall.domain.schedule import DEFAULT_CATCH_UP, CatchUp, timing_of
from rowcall.domain.step import RecordedStep
from rowcall.http.settings import AsgiApp, HttpOptions, WsgiApp
from rowcall.http.settings import settings as http_settings
from rowcall.operations import (
    by_hand,
    enqueue,
    events,
    flows,
    inspect,
    job_actions,
    pauses,
    push,
    rekey,
    results,
    retention,
    schedules,
    signals,
    stats,
)
from rowcall.operations.arguments import JobFilter
from rowcall.operations.effects import Blocking
from rowcall.operations.enqueue import Bound, Transaction
from rowcall.operations.events import AsyncEvents, Events
from rowcall.operations.flows import Flow
from rowcall.operations.job_actions import BulkFilter, RetryFilter
from rowcall.operations.schedules import ScheduleOptions
from rowcall.operations.stats import DEFAULT_ACTIVITY_SECONDS, DEFAULT_WINDOW_SECONDS
from rowcall.overview import reasons, stacks
from rowcall.overview.stacks import DEFAULT_TIMEOUT_SECONDS
from rowcall.queue import Queue
from rowcall.queue_setup import Setup, Url
from rowcall.task import (
    AnyTask,
    AsyncContextTask,
    AsyncTask,
    BaseTask,
    BatchDecorator,
    BatchTask,
    Binding,
    ContextTask,
    Task,
    TaskDecorator,
    declare_task,
)
from rowcall.worker.app_lifespan import AppLifespan, app_lifespan
from rowcall.worker.pace import DEFAULT_CONCURRENCY
from rowcall.worker.process.signals import work
from rowcall.worker.raised_errors import raising
from rowcall.worker.settings import Queues, WorkerOptions, settings
from rowcall.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=BaseException)
C = TypeVar("C")
L = TypeVar("L", bound=LifespanFunction)
M = TypeVar("M", bound=AnyMiddleware)
N = TypeVar("N", bound=EnqueueMiddleware)
F = TypeVar("F", bound=Observer)

Schedulable = BaseTask[..., object]
T = TypeVar("T", bound=Schedulable)


class Rowcall:
    """A queue of background jobs in a database.

        jobs = Rowcall("sqlite:///app.db")

        @jobs.task
        def send_email(to: str, subject: str) -> None: ...

        send_email.enqueue("a@example.com", subject="Order confirmed")

    `url` is a `sqlite:///` or `postgresql://` URL, a `pathlib.Path`, or a function that returns one, which is called
    at the first use. Without one, `$ROWCALL_URL` is read at the
    first use, else it is `sqlite:///rowcall.db`; an application factory can call `configure` before that. The database
    is opened, and its tables are made, at the first use.

    Options:
        table_prefix: what the names of the tables begin with; default `"rowcall_"`.
        durability: `"full"` (a job survives a power cut once `enqueue` returns) or `"normal"` (faster; the last jobs
            before a power cut may be lost). Default `"full"`.
        default_queue: the queue of tasks that name none; default `"default"`.
        auto_migrate: make and update the tables at the first use; default true. Otherwise call `migrate()`.
        busy_timeout: how many seconds to wait for a lock, a free connection or a reply of the server; default 5.
        listen_url: PostgreSQL only: a URL that leads past a pooler such as PgBouncer, for LISTEN.
        pool_size: PostgreSQL only: how many connections this process opens at most; default 4.
        push: a `PushOptions`: how workers deliver jobs to targets, and who may receive them.
        defaults: a `TaskDefaults`: `max_attempts`, `retry`, `timeout` and `on_failure` of tasks that do not give them.
        encrypt: an `Encryption`: keys for arguments, results and errors, which are then encrypted in the database.
        retention: a `Retention`: how long finished jobs are kept.
        scrub: a function from str to str that removes secrets from errors before they are stored.
        traceback_limit: how many characters of a traceback are stored; 0 stores none.
        blobs: a `BlobStore` for large payloads and results; by default a folder or a table next to the jobs.
        blob_threshold: from how many bytes on a payload or result is stored as a blob.
        payload_limit: how many bytes a payload or result may have.
        mismatch_grace: how many seconds a job waits for another worker if its arguments do not fit this one's task.
        clock: a `Clock`, for tests.
        tracing: record OpenTelemetry spans; default false.
    """

    def __init__(self, url: Url = None, **options: Unpack[QueueOptions]) -> None:
        self._setup = Setup(url, options)
        self._queue = self._setup.queue

    def configure(self, url: Url = None, **options: Unpack[QueueOptions]) -> None:
        """Set the URL and options later, once, before the first use: for application factories.

        jobs = Rowcall()

        def create_app(settings):
            jobs.configure(url=settings["DATABASE_URL"], default_queue="web")
        """
        self._setup.configure(url, options)

    def __repr__(self) -> str:
        return f"<Rowcall {self._queue.database.name if self._queue.is_open else 'without a URL yet'}>"

    # declaring

    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context[C], P], Coroutine[object, object, R]], /
    ) -> AsyncContextTask[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context[C], P], R], /) -> ContextTask[P, R]: ...
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
            raise InvalidOption("task", f"{function.name!r} is already a task")
        return declare_task(self._queue, declare(function, options))

    def push(self, target: str, /, **options: Unpack[TaskOptions]) -> TaskDecorator:
        """Declare a task whose jobs a worker delivers to a URL: it POSTs them as signed JSON.

            jobs = Rowcall("sqlite:///app.db", push=PushOptions(secrets=[os.environ["PUSH_SECRET"]]))

            @jobs.push("https://app.example/jobs/send_email", max_attempts=10)
            def send_email(to: str, subject: str) -> None: ...

        The function says which arguments the task has. A worker never calls it; the app that receives the job may, with
        `jobs.push_endpoint()`. The options are those of `task`, except `batch` and `isolation`.
        """
        if "target" in options:
            raise InvalidOption("target", "is given twice; pass it once, as the first argument")
        options["target"] = target
        return self.task(**options)

    def push_endpoint(self, *, look_up: bool = True) -> AsgiApp:
        """Return an ASGI app that receives pushed jobs, and runs their tasks in place.

            app.mount("/jobs", jobs.push_endpoint())

        It refuses requests that are not signed with one of the secrets, or not recently. A request that comes again
        gets the answer of the first. With `look_up`, the database says whether the attempt is current; pass false if
        the app cannot reach the worker's database.
        """
        from rowcall.http.push.receiver import Receiver

        if self._queue.is_open and self._queue.options.push is None:
            raise InvalidOption("push", "is missing: Rowcall(push=PushOptions(secrets=[…])) says who may send jobs")
        return Receiver(self._queue, look_up=look_up)

    def lifespan(self, function: L, /) -> L:
        """Declare what each worker opens before its first job, and closes after its last one.

            @jobs.lifespan
            async def resources() -> AsyncIterator[Resources]:
                async with httpx.AsyncClient() as client:
                    yield Resources(client)

        Handlers find what it yields in `ctx.resources`. The function is an async or sync generator that yields once,
        or returns a context manager. If it fails, the worker ends with `LifespanFailed`, and claims no job.
        """
        self._queue.lifespan = checked_lifespan(function, self._queue.lifespan)
        return function

    def middleware(self, function: M, /) -> M:
        """Wrap every attempt of every task, in the thread or on the event loop of its handler.

            @jobs.middleware
            def timed(ctx: Context, call_next: Callable[[], object]) -> object:
                started = time.monotonic()
                try:
                    return call_next()
                finally:
                    ctx.log.info("took %.1f s", time.monotonic() - started)

        What it returns is the result of the attempt; it may raise `Retry`, `Snooze`, `Fail` and `Cancel`. The first one
        that is registered is the outermost. Async tasks need an async function: `Middleware(sync, asynchronous)` of
        `rowcall.middleware` holds one for each kind.
        """
        self._queue.handlers.add_middleware(function)
        return function

    def enqueue_middleware(self, function: N, /) -> N:
        """Let a function read and change every job before it is written: its arguments and its options.

        @jobs.enqueue_middleware
        def tagged(call: EnqueueCall) -> None:
            call.options["tags"] = [*call.options.get("tags", ()), f"tenant:{tenant.get()}"]

        It is called where the job is enqueued or bound, in the order of registration, and must not wait. If it raises,
        nothing is written. `EnqueueCall` is in `rowcall.middleware`.
        """
        self._queue.enqueue_middleware += (checked_enqueue_middleware(function),)
        return function

    def override(self, function: Callable[..., object], replacement: Callable[..., object], /) -> Override:
        """Call another function for a dependency, from now on, or until the end of a `with` block: for tests.

        with jobs.override(get_session, fake_session):
            jobs.drain()

        Child processes do not see it: attempts of tasks with `isolation="process"` that depend on it fail. A dependency
        with `scope="worker"` must be overridden before the worker starts.
        """
        return self._queue.handlers.override(function, replacement)

    def limit_queue(self, queue: str, limit: Limit | Sequence[Limit]) -> None:
        """Limit all jobs of a queue, wherever they run: `jobs.limit_queue("mail", Limit("mail", concurrency=10))`."""
        self._queue.limits.declare_queue(queue, checked_queue_limit(queue, limit))

    def fair_queue(
        self, queue: str, *, by: str, weight: Mapping[str, int] | Mapping[int, int] | Callable[..., int] | None = None
    ) -> None:
        """Let the jobs of a queue take turns by an argument: `jobs.fair_queue("mail", by="customer_id")`.

        It applies to all jobs that this process enqueues in the queue, whatever their task. A job without that argument
        counts as one with None. See `fair_by` of `task` for the jobs of one task.
        """
        declare_fair_queue(self._queue.fair_queues, queue, by, weight)

    def declared_task(self, name: str) -> Declaration:
        """Return the declaration of a task. `UnknownTask` if this process declares none with that name."""
        try:
            return self._queue.tasks[name]
        except KeyError:
            raise UnknownTask(name, sorted(self._queue.tasks)) from None

    @overload
    def error_code(self, kind: type[E], code: str, /) -> str: ...
    @overload
    def error_code(self, kind: type[E], /) -> Callable[[Callable[[E], str]], Callable[[E], str]]: ...

    def error_code(self, kind: type[BaseException], code: str | None = None, /) -> object:
        """Declare the code of your own errors: a text, or a function that returns one.

        jobs.error_code(Declined, "PAYMENT:DECLINED")

        @jobs.error_code(UpstreamError)
        def upstream_code(error: UpstreamError) -> str:
            return f"UPSTREAM:{error.kind}"
        """

        def declare(code: str | CodeFunction) -> object:
            self._queue.failures.declare(kind, code)
            return code

        self._queue.failures.check(kind)
        return declare if code is None else declare(code)

    def schedule(
        self,
        cron: str | None = None,
        *,
        every: float | timedelta | None = None,
        tz: str | ZoneInfo | None = None,
        catch_up: CatchUp = DEFAULT_CATCH_UP,
        name: str | None = None,
        arguments: Mapping[str, object] | None = None,
        queue: str | None = None,
        priority: int | None = None,
    ) -> Callable[[T], T]:
        """Declare, above `@jobs.task`, when workers enqueue a task. Workers write the schedule when they start.

            @jobs.schedule("0 9 * * *", tz="America/New_York", catch_up="one")
            @jobs.task
            def daily_digest() -> None: ...

        `every` is an interval, instead of a cron line. `catch_up` says what happens to times that passed while no
        worker ran: "skip" leaves them out, "one" enqueues one job for all of them, "all" enqueues one job for each.
        """
        timing = timing_of(cron, every, tz, catch_up)

        def declare(task: T) -> T:
            if not isinstance(task, BaseTask):
                raise InvalidOption("schedule", f"goes above @jobs.task, and {task!r} is not a task")
            given = task.name if name is None else name, self._name_of(task), arguments, queue, priority, timing
            self._setup.declare_schedule(partial(schedules.new_schedule, self._queue, *given))
            return task

        return declare

    @overload
    def on(self, event: ObservedEvent, function: F, /) -> F: ...
    @overload
    def on(self, event: ObservedEvent, /) -> Callable[[F], F]: ...

    def on(self, event: ObservedEvent, function: Observer | None = None, /) -> object:
        """Have the workers of this process call a function after each attempt that ended in that way.

            jobs.on("failed", lambda job: statsd.increment(f"failed.{job.type}"))

            @jobs.on("retried")
            def note(job: JobOutcome) -> None: ...

        It is called with a `JobOutcome` after the outcome was committed, in a thread of the worker, which waits for
        it. What it raises is logged. If the process dies first, it is not called: for work that must not be
        lost, use `on_failure` or `on_success` of the task.
        """

        def observe(function: Observer) -> Observer:
            self._queue.follow_ups.observe(event, function)
            return function

        return observe if function is None else observe(function)

    # enqueueing

    def enqueue(
        self, task: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> Job:
        """Enqueue by name, from code that does not have the function.

        >>> jobs.enqueue("send_email", {"to": "a@example.com"}, priority=10)  # doctest: +SKIP
        """
        return self._queue.run(enqueue.enqueue_by_name(self._queue, task, arguments, options))

    async def aenqueue(
        self, task: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> Job:
        """`enqueue`, for async code. If it is cancelled while it waits, the job may still have been written."""
        return await self._queue.arun(enqueue.enqueue_by_name(self._queue, task, arguments, options))

    def publish(
        self, event: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> builtins.list[Job]:
        """Enqueue one job for each task that runs on an event, all in one transaction, and return the jobs.

            @jobs.task(on="order.paid")
            def send_receipt(order_id: int) -> None: ...

            @jobs.task(on=["order.paid", "order.refunded"])
            def update_stock(order_id: int) -> None: ...

            jobs.publish("order.paid", {"order_id": 7})          # two jobs

        Every task must accept the arguments, or nothing is written. The options are those of `enqueue`, for each of
        the jobs. Raise `UnknownEvent` if this process declares no task that runs on the event.
        """
        return self._queue.run(enqueue.publish(self._queue, event, arguments, options))

    async def apublish(
        self, event: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> builtins.list[Job]:
        """`publish`, for async code."""
        return await self._queue.arun(enqueue.publish(self._queue, event, arguments, options))

    def transaction(self) -> Transaction:
        """Return a block whose writes all happen at its end, or none of them; `async with` works too.

            with jobs.transaction():
                for order in orders:
                    charge.enqueue(order.id)
                jobs.cancel(tag="reminder")

        Calls of this thread and task that take `connection=` join it. A block inside a block is a savepoint: an
        exception that leaves the inner one undoes only that.
        """
        return Transaction(self._queue)

    def bind(self, connection: object) -> Binding:
        """Return a block whose calls join your transaction: that of a SQLAlchemy session, or any other `connection=`.

            with Session(engine) as session, session.begin(), jobs.bind(session):
                session.add(order)
                send_email.enqueue("a@example.com")       # exists when the session commits

            jobs.bind(session)(send_email).enqueue("a@example.com")

        Nothing is stored in the session. Idle workers are notified when it commits.
        """
        return Binding(self._queue, connection)

    def flow(
        self,
        *,
        key: str | None = None,
        key_window: float | timedelta | None = None,
        on_duplicate: Literal["return", "raise"] | None = None,
        connection: object = None,
    ) -> Flow:
        """Return an empty graph of jobs, which is written in one transaction: the queue's, or the caller's.

        With a `key`, it is written once: if its first job exists with that key, `enqueue` returns that job alone, with
        `duplicate` set, or raises `DuplicateJob`.
        """
        return Flow(self._queue, connection, flows.flow_key(key, key_window, on_duplicate))

    # chains

    def start_chain(
        self,
        steps: Sequence[Bound],
        *,
        key: str | None = None,
        key_window: float | timedelta | None = None,
        on_duplicate: Literal["return", "raise"] | None = None,
        connection: object = None,
    ) -> Chain:
        """Enqueue steps, each of which starts when the one before has succeeded, and can read its result.

        >>> jobs.start_chain([fetch.bind("a.csv"), load.bind(), report.bind()])  # doctest: +SKIP

        With a `key`, which belongs to the first task, a second call returns the chain that exists, with `duplicate`
        set, or raises `DuplicateJob`; for `key_window` seconds, or for as long as the chain is kept.
        """
        whole = flows.flow_key(key, key_window, on_duplicate)
        return self._queue.run(flows.start_chain(self._queue, steps, whole, connection))

    async def astart_chain(
        self,
        steps: Sequence[Bound],
        *,
        key: str | None = None,
        key_window: float | timedelta | None = None,
        on_duplicate: Literal["return", "raise"] | None = None,
        connection: object = None,
    ) -> Chain:
        """`start_chain`, for async code."""
        whole = flows.flow_key(key, key_window, on_duplicate)
        return await self._queue.arun(flows.start_chain(self._queue, steps, whole, connection))

    def chain(self, chain: Chain | Job | int) -> Chain:
        """Return the chain with its steps. `JobNotFound` if there is none with this id."""
        return self._queue.run(flows.get_chain(self._queue, chain))

    async def achain(self, chain: Chain | Job | int) -> Chain:
        """`chain`, for async code."""
        return await self._queue.arun(flows.get_chain(self._queue, chain))

    def list_chains(
        self, *, type: str | None = None, status: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> ChainPage:
        """Return one page of chains, newest first; `type` is that of the first step, `status` that of the chain."""
        return self._queue.run(flows.list_chains(self._queue, type, status, limit, cursor))

    async def alist_chains(
        self, *, type: str | None = None, status: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> ChainPage:
        """`list_chains`, for async code."""
        return await self._queue.arun(flows.list_chains(self._queue, type, status, limit, cursor))

    def complete_chain(
        self,
        chain: Chain | Job | int,
        result: object = None,
        *,
        actor: str | None = None,
        connection: object = None,
    ) -> Chain:
        """End a chain as succeeded from outside: its last step has this result, and steps before it are skipped."""
        return self._queue.run(flows.complete_chain(self._queue, chain, result, actor, connection))

    async def acomplete_chain(
        self,
        chain: Chain | Job | int,
        result: object = None,
        *,
        actor: str | None = None,
        connection: object = None,
    ) -> Chain:
        """`complete_chain`, for async code."""
        return await self._queue.arun(flows.complete_chain(self._queue, chain, result, actor, connection))

    def cancel_chain(
        self,
        chain: Chain | Job | int,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: object = None,
    ) -> Chain:
        """Cancel the steps that wait, and ask the running one to end. Jobs that wait for the chain are, too."""
        return self._queue.run(flows.cancel_chain(self._queue, chain, reason, actor, connection))

    async def acancel_chain(
        self,
        chain: Chain | Job | int,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: object = None,
    ) -> Chain:
        """`cancel_chain`, for async code."""
        return await self._queue.arun(flows.cancel_chain(self._queue, chain, reason, actor, connection))

    def delete_chain(self, chain: Chain | Job | int, *, cascade: bool = False, connection: object = None) -> int:
        """Delete a chain of which no step runs; return how many jobs were deleted.

        `StillNeeded` while other jobs wait for one of its steps; with `cascade` those are deleted too.
        """
        return self._queue.run(flows.delete_chain(self._queue, chain, cascade=cascade, connection=connection))

    async def adelete_chain(self, chain: Chain | Job | int, *, cascade: bool = False, connection: object = None) -> int:
        """`delete_chain`, for async code."""
        return await self._queue.arun(flows.delete_chain(self._queue, chain, cascade=cascade, connection=connection))

    # inspecting

    @overload
    def get(self, job: Job[R], *, connection: object = None) -> Job[R]: ...
    @overload
    def get(self, job: int, *, connection: object = None) -> Job: ...

    def get(self, job: Job | int, *, connection: object = None) -> Job:
        """Return the current job, large payloads included, or raise `JobNotFound`."""
        return self._queue.run(inspect.get(self._queue, job, connection))

    @overload
    async def aget(self, job: Job[R], *, connection: object = None) -> Job[R]: ...
    @overload
    async def aget(self, job: int, *, connection: object = None) -> Job: ...

    async def aget(self, job: Job | int, *, connection: object = None) -> Job:
        """`get`, for async code."""
        return await self._queue.arun(inspect.get(self._queue, job, connection))

    def list(
        self,
        *,
        order: Literal["newest", "oldest"] = "newest",
        limit: int = 50,
        cursor: str | None = None,
        connection: object = None,
        **chosen: Unpack[JobFilter],
    ) -> Page:
        """Return one page of the jobs that fit. Pass its `next_cursor` as `cursor` to get the next page.

        Jobs are in the order in which they were enqueued; with `finished_after` or `finished_before`, in the order of
        their ends. A large payload or result is a reference in it; `get` returns the value.

        >>> page = jobs.list(status=["failed", "cancelled"], queue="mail", limit=100)  # doctest: +SKIP
        >>> page = jobs.list(type="charge", payload={"customer": 7}, order="oldest")  # doctest: +SKIP
        """
        return self._queue.run(inspect.list_jobs(self._queue, order, limit, cursor, connection, chosen))

    async def alist(
        self,
        *,
        order: Literal["newest", "oldest"] = "newest",
        limit: int = 50,
        cursor: str | None = None,
        connection: object = None,
        **chosen: Unpack[JobFilter],
    ) -> Page:
        """`list`, for async code."""
        return await self._queue.arun(inspect.list_jobs(self._queue, order, limit, cursor, connection, chosen))

    def attempts(self, job: Job | int) -> builtins.list[Attempt]:
        """Return every attempt at the job, first to last."""
        return self._queue.run(inspect.attempts(self._queue, job))

    async def aattempts(self, job: Job | int) -> builtins.list[Attempt]:
        """`attempts`, for async code."""
        return await self._queue.arun(inspect.attempts(self._queue, job))

    def timeline(self, job: Job | int) -> builtins.list[Event]:
        """Return everything that happened to the job, in order."""
        return self._queue.run(inspect.timeline(self._queue, job))

    async def atimeline(self, job: Job | int) -> builtins.list[Event]:
        """`timeline`, for async code."""
        return await self._queue.arun(inspect.timeline(self._queue, job))

    def steps(self, job: Job | int) -> builtins.list[RecordedStep]:
        """Return the durable steps that the handler of the job has recorded, in the order of their calls."""
        return self._queue.run(signals.steps(self._queue, job))

    async def asteps(self, job: Job | int) -> builtins.list[RecordedStep]:
        """`steps`, for async code."""
        return await self._queue.arun(signals.steps(self._queue, job))

    def events(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        id: Job | int | None = None,
        kind: str | Collection[str] | None = None,
    ) -> Events:
        """Return an iterator over what happens to jobs from now on, in this or any other process.

            with jobs.events(queue="mail", kind=["SUCCEEDED", "FAILED"]) as events:
                for event in events:
                    print(event.at, event.event, event.job_id, event.detail)

        `kind` is one word of the timeline or several. Each event comes at most once. Where some were missed, there is
        an event `"MISSED"`, whatever the filter: after an outage, or if no event was asked for during a minute.
        """
        return Events(events.stream(self._queue, queue, task, id, kind))

    def aevents(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        id: Job | int | None = None,
        kind: str | Collection[str] | None = None,
    ) -> AsyncEvents:
        """`events`, for async code.

        async with jobs.aevents(task="send_email") as events:
            async for event in events:
                print(event.event, event.job_id)
        """
        return AsyncEvents(events.stream(self._queue, queue, task, id, kind))

    def blockers(self, job: Job | int) -> builtins.list[BlockedBy]:
        """Return the jobs and chains that the job waits for, or waited for, in the order of `after`."""
        return self._queue.run(inspect.blockers(self._queue, job))

    async def ablockers(self, job: Job | int) -> builtins.list[BlockedBy]:
        """`blockers`, for async code."""
        return await self._queue.arun(inspect.blockers(self._queue, job))

    def why(self, job: Job | int) -> Why:
        """Return why a job waits, as a sentence and as values; of a job that does not wait, whether it runs or ended.

        >>> jobs.why(job).sentence  # doctest: +SKIP
        'queue mail was paused by ann@web-1 5 min ago'
        """
        return self._queue.run(reasons.why(self._queue, job))

    async def awhy(self, job: Job | int) -> Why:
        """`why`, for async code."""
        return await self._queue.arun(reasons.why(self._queue, job))

    def stack(self, job: Job | int, *, timeout: float | timedelta = DEFAULT_TIMEOUT_SECONDS) -> Stack:
        """Return where the handler of a running job is, in any process on any host.

        Raises `WrongState` if no handler of it runs, and `NoAnswer` if its worker does not answer within `timeout`.

        >>> print(jobs.stack(job))  # doctest: +SKIP
          File "/srv/shop/mail.py", line 21, in send_email
            connection.sendmail(sender, to, body)
        """
        return self._queue.run(stacks.stack(self._queue, job, timeout))

    async def astack(self, job: Job | int, *, timeout: float | timedelta = DEFAULT_TIMEOUT_SECONDS) -> Stack:
        """`stack`, for async code."""
        return await self._queue.arun(stacks.stack(self._queue, job, timeout))

    def dependents(self, job: Job | Chain | int, *, limit: int = 100) -> builtins.list[Dependent]:
        """Return the jobs that wait, or waited, for a job or for its chain, by id; given a `Chain`, only for that.

        >>> [one.id for one in jobs.dependents(job) if one.open]  # doctest: +SKIP
        [8, 9]
        """
        return self._queue.run(inspect.dependents(self._queue, job, limit))

    async def adependents(self, job: Job | Chain | int, *, limit: int = 100) -> builtins.list[Dependent]:
        """`dependents`, for async code."""
        return await self._queue.arun(inspect.dependents(self._queue, job, limit))

    def workers(self) -> builtins.list[WorkerInfo]:
        """Return the worker processes that are registered now."""
        return self._queue.run(inspect.workers(self._queue))

    async def aworkers(self) -> builtins.list[WorkerInfo]:
        """`workers`, for async code."""
        return await self._queue.arun(inspect.workers(self._queue))

    @overload
    def result(self, job: Job[R], *, timeout: float | timedelta | None = None) -> R: ...
    @overload
    def result(self, job: Chain | int, *, timeout: float | timedelta | None = None) -> object: ...

    def result(self, job: Job[R] | Chain | int, *, timeout: float | timedelta | None = None) -> object:
        """Wait until the job has ended, and return what its handler returned; of a chain, what its last step returned.

        If its task is declared in this process, the value has the type that the handler's annotation says, or it is
        `InvalidArguments`. Otherwise, and of a chain, it is the value as JSON has it.

        Without a `timeout` it waits for as long as it takes. `JobFailed` or `JobCancelled` if the job ended so,
        `TimeoutError` if it has not ended in time, `JobNotFound` if it does not exist, or no longer.

        >>> jobs.result(thumbnail.enqueue("cat.png"), timeout=30)  # doctest: +SKIP
        """
        return self._queue.run(results.result(self._queue, job, timeout))

    @overload
    async def aresult(self, job: Job[R], *, timeout: float | timedelta | None = None) -> R: ...
    @overload
    async def aresult(self, job: Chain | int, *, timeout: float | timedelta | None = None) -> object: ...

    async def aresult(self, job: Job[R] | Chain | int, *, timeout: float | timedelta | None = None) -> object:
        """`result`, for async code. Any number of tasks may wait at once."""
        return await self._queue.arun(results.result(self._queue, job, timeout))

    # questions

    def stats(self, *, window: float | timedelta = DEFAULT_WINDOW_SECONDS) -> Stats:
        """Return how many jobs are in each state, how long the oldest waits, and how fast jobs come and go.

        Rates and percentiles are about the last `window` seconds, up to 30 days. The period is extended to begin with a
        whole minute; with a whole hour if it is longer than an hour, with a quarter of a day if it is longer than a
        day, and with a whole day (UTC) if it is longer than 7 days.
        """
        return self._queue.run(stats.stats(self._queue, window))

    async def astats(self, *, window: float | timedelta = DEFAULT_WINDOW_SECONDS) -> Stats:
        """`stats`, for async code."""
        return await self._queue.arun(stats.stats(self._queue, window))

    def activity(self, *, window: float | timedelta = DEFAULT_ACTIVITY_SECONDS) -> Activity:
        """Return what happened over the last `window` seconds, in at most 60 periods: arrivals, ends and errors.

        A period is a minute; an hour, a quarter of a day or a day if the window is longer than an hour, a day, 7 days.

        >>> [period.failed for period in jobs.activity(window=3600).periods]  # doctest: +SKIP
        """
        return self._queue.run(stats.activity(self._queue, window))

    async def aactivity(self, *, window: float | timedelta = DEFAULT_ACTIVITY_SECONDS) -> Activity:
        """`activity`, for async code."""
        return await self._queue.arun(stats.activity(self._queue, window))

    def stuck(self, *, limit: int = 20) -> builtins.list[InProgress]:
        """Return running jobs, longest without a heartbeat first."""
        return self._queue.run(stats.stuck(self._queue, limit))

    async def astuck(self, *, limit: int = 20) -> builtins.list[InProgress]:
        """`stuck`, for async code."""
        return await self._queue.arun(stats.stuck(self._queue, limit))

    def retries(self) -> Retries:
        """Return the number of jobs by attempts used, for all tasks and for each task."""
        return self._queue.run(stats.retries(self._queue))

    async def aretries(self) -> Retries:
        """`retries`, for async code."""
        return await self._queue.arun(stats.retries(self._queue))

    def top_errors(
        self, *, limit: int = 20, type: str | None = None, error_code: str | None = None
    ) -> builtins.list[ErrorGroup]:
        """Return failed jobs grouped by error code, most frequent first; of one task, or with codes like `TIMEOUT:*`.

        `failing` is about attempts that are retried, too.
        """
        return self._queue.run(stats.top_errors(self._queue, limit, type, error_code))

    async def atop_errors(
        self, *, limit: int = 20, type: str | None = None, error_code: str | None = None
    ) -> builtins.list[ErrorGroup]:
        """`top_errors`, for async code."""
        return await self._queue.arun(stats.top_errors(self._queue, limit, type, error_code))

    def failing(
        self,
        *,
        window: float | timedelta = DEFAULT_WINDOW_SECONDS,
        type: str | None = None,
        error_code: str | None = None,
        limit: int = 20,
    ) -> builtins.list[Failing]:
        """Return what fails now, by error code: attempts of the last `window` seconds, and jobs that wait for a retry.

        An `error_code` that ends with `*` matches all codes that begin so. The window is rounded up to full minutes.

        >>> jobs.failing(window=3600, type="send_email", error_code="TIMEOUT:*")  # doctest: +SKIP
        """
        return self._queue.run(stats.failing(self._queue, window, type, error_code, limit))

    async def afailing(
        self,
        *,
        window: float | timedelta = DEFAULT_WINDOW_SECONDS,
        type: str | None = None,
        error_code: str | None = None,
        limit: int = 20,
    ) -> builtins.list[Failing]:
        """`failing`, for async code."""
        return await self._queue.arun(stats.failing(self._queue, window, type, error_code, limit))

    def retention(self) -> RetentionReport:
        """Return which jobs are kept, for how long, and what the next prune deletes."""
        return self._queue.run(stats.retention(self._queue))

    async def aretention(self) -> RetentionReport:
        """`retention`, for async code."""
        return await self._queue.arun(stats.retention(self._queue))

    # controlling

    @overload
    def retry(self, job: Job[R], *, actor: str | None = None, connection: object = None) -> Job[R]: ...
    @overload
    def retry(self, job: int, *, actor: str | None = None, connection: object = None) -> Job: ...
    @overload
    def retry(self, *, actor: str | None = None, connection: object = None, **chosen: Unpack[RetryFilter]) -> int: ...

    def retry(
        self,
        job: Job | int | None = None,
        *,
        actor: str | None = None,
        connection: object = None,
        **chosen: Unpack[RetryFilter],
    ) -> Job | int:
        """Run a finished job again: with the next attempt number, and its task's `max_attempts` added to its limit.

        Or retry all jobs that fit a filter, failed ones unless `status` says otherwise, and return how many. An
        `error_code` that ends with `*` matches all codes that begin so, `limit` is the highest number of jobs, and
        `rate` is how many become due per second. Jobs that cannot run again, because another one has their key, are
        left out.

            jobs.retry(error_code="TIMEOUT:*", type="send_email", rate=20)
        """
        return self._queue.run(job_actions.retry(self._queue, job, actor, connection, chosen))

    @overload
    async def aretry(self, job: Job[R], *, actor: str | None = None, connection: object = None) -> Job[R]: ...
    @overload
    async def aretry(self, job: int, *, actor: str | None = None, connection: object = None) -> Job: ...
    @overload
    async def aretry(
        self, *, actor: str | None = None, connection: object = None, **chosen: Unpack[RetryFilter]
    ) -> int: ...

    async def aretry(
        self,
        job: Job | int | None = None,
        *,
        actor: str | None = None,
        connection: object = None,
        **chosen: Unpack[RetryFilter],
    ) -> Job | int:
        """`retry`, for async code."""
        return await self._queue.arun(job_actions.retry(self._queue, job, actor, connection, chosen))

    @overload
    def cancel(
        self, job: Job[R], reason: str | None = None, *, actor: str | None = None, connection: object = None
    ) -> Job[R]: ...
    @overload
    def cancel(
        self, job: int, reason: str | None = None, *, actor: str | None = None, connection: object = None
    ) -> Job: ...
    @overload
    def cancel(
        self,
        *,
        reason: str | None = None,
        actor: str | None = None,
        connection: object = None,
        **chosen: Unpack[BulkFilter],
    ) -> int: ...

    def cancel(
        self,
        job: Job | int | None = None,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: object = None,
        **chosen: Unpack[BulkFilter],
    ) -> Job | int:
        """Cancel a job: a waiting one at once; a running one is asked to end, which its worker learns within a second.

        An async handler gets `CancelledError`, a sync one sees `ctx.cancelled`. Unless it still succeeds, its
        job is then cancelled. `WrongState` if the job has finished.

        Or cancel all jobs that fit a filter, and return how many were cancelled or asked to end. `all=True` is required
        where every job may match.

            jobs.cancel(status="pending", queue="mail", reason="wrong list")

        With `connection`, it is part of the caller's transaction, as in `enqueue`:

            jobs.cancel(tag="order-7", connection=connection)
        """
        return self._queue.run(job_actions.cancel(self._queue, job, reason, actor, connection, chosen))

    @overload
    async def acancel(
        self, job: Job[R], reason: str | None = None, *, actor: str | None = None, connection: object = None
    ) -> Job[R]: ...
    @overload
    async def acancel(
        self, job: int, reason: str | None = None, *, actor: str | None = None, connection: object = None
    ) -> Job: ...
    @overload
    async def acancel(
        self,
        *,
        reason: str | None = None,
        actor: str | None = None,
        connection: object = None,
        **chosen: Unpack[BulkFilter],
    ) -> int: ...

    async def acancel(
        self,
        job: Job | int | None = None,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: object = None,
        **chosen: Unpack[BulkFilter],
    ) -> Job | int:
        """`cancel`, for async code."""
        return await self._queue.arun(job_actions.cancel(self._queue, job, reason, actor, connection, chosen))

    @overload
    def reschedule(
        self,
        job: Job[R],
        *,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        actor: str | None = None,
        connection: object = None,
    ) -> Job[R]: ...
    @overload
    def reschedule(
        self,
        job: int,
        *,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        actor: str | None = None,
        connection: object = None,
    ) -> Job: ...
    @overload
    def reschedule(
        self,
        *,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        actor: str | None = None,
        connection: object = None,
        **chosen: Unpack[BulkFilter],
    ) -> int: ...

    def reschedule(
        self,
        job: Job | int | None = None,
        *,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        actor: str | None = None,
        connection: object = None,
        **chosen: Unpack[BulkFilter],
    ) -> Job | int:
        """Change when a waiting job runs: at `run_at`, or in `delay` seconds. `WrongState` if it does not wait.

        Or change it for all jobs that fit a filter, and return how many.

            jobs.reschedule(status="scheduled", error_code="*", delay=0)  # run all retries now
        """
        return self._queue.run(job_actions.reschedule(self._queue, job, run_at, delay, actor, connection, chosen))

    @overload
    async def areschedule(
        self,
        job: Job[R],
        *,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        actor: str | None = None,
        connection: object = None,
    ) -> Job[R]: ...
    @overload
    async def areschedule(
        self,
        job: int,
        *,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        actor: str | None = None,
        connection: object = None,
    ) -> Job: ...
    @overload
    async def areschedule(
        self,
        *,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        actor: str | None = None,
        connection: object = None,
        **chosen: Unpack[BulkFilter],
    ) -> int: ...

    async def areschedule(
        self,
        job: Job | int | None = None,
        *,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        actor: str | None = None,
        connection: object = None,
        **chosen: Unpack[BulkFilter],
    ) -> Job | int:
        """`reschedule`, for async code."""
        return await self._queue.arun(
            job_actions.reschedule(self._queue, job, run_at, delay, actor, connection, chosen)
        )

    def edit(
        self,
        job: Job[Returned] | int,
        arguments: Mapping[str, object] | None = None,
        *,
        actor: str | None = None,
        connection: object = None,
        **options: Unpack[EditOptions],
    ) -> Job[Returned]:
        """Change a waiting job: all its arguments, which are checked as in an enqueue, its tags, or its options.

        Options: `queue`, `priority`, `run_at` or `delay`, `max_attempts`, `retry`, `timeout`, `expires_at` or
        `expires_in`, `tags`. `WrongState` if the job runs or has finished.

            jobs.edit(job, {"to": "ann@example.com"}, tags=["vip"], actor="bob")
        """
        return self._queue.run(job_actions.edit(self._queue, job, arguments, actor, connection, options))

    async def aedit(
        self,
        job: Job[Returned] | int,
        arguments: Mapping[str, object] | None = None,
        *,
        actor: str | None = None,
        connection: object = None,
        **options: Unpack[EditOptions],
    ) -> Job[Returned]:
        """`edit`, for async code."""
        return await self._queue.arun(job_actions.edit(self._queue, job, arguments, actor, connection, options))

    @overload
    def set_priority(
        self, job: Job[R], priority: int, *, actor: str | None = None, connection: object = None
    ) -> Job[R]: ...
    @overload
    def set_priority(self, job: int, priority: int, *, actor: str | None = None, connection: object = None) -> Job: ...
    @overload
    def set_priority(
        self, *, priority: int, actor: str | None = None, connection: object = None, **chosen: Unpack[BulkFilter]
    ) -> int: ...

    def set_priority(
        self,
        job: Job | int | None = None,
        priority: int | None = None,
        *,
        actor: str | None = None,
        connection: object = None,
        **chosen: Unpack[BulkFilter],
    ) -> Job | int:
        """Change the priority within its queue; higher runs first. A running job has it from the next attempt on.

        Or change it for all jobs that fit a filter, and return how many have another priority now.

            jobs.set_priority(priority=10, queue="mail", tag="vip")
        """
        return self._queue.run(job_actions.set_priority(self._queue, job, priority, actor, connection, chosen))

    @overload
    async def aset_priority(
        self, job: Job[R], priority: int, *, actor: str | None = None, connection: object = None
    ) -> Job[R]: ...
    @overload
    async def aset_priority(
        self, job: int, priority: int, *, actor: str | None = None, connection: object = None
    ) -> Job: ...
    @overload
    async def aset_priority(
        self, *, priority: int, actor: str | None = None, connection: object = None, **chosen: Unpack[BulkFilter]
    ) -> int: ...

    async def aset_priority(
        self,
        job: Job | int | None = None,
        priority: int | None = None,
        *,
        actor: str | None = None,
        connection: object = None,
        **chosen: Unpack[BulkFilter],
    ) -> Job | int:
        """`set_priority`, for async code."""
        return await self._queue.arun(job_actions.set_priority(self._queue, job, priority, actor, connection, chosen))

    @overload
    def delete(self, job: Job | int, *, connection: object = None) -> None: ...
    @overload
    def delete(self, *, connection: object = None, **chosen: Unpack[BulkFilter]) -> int: ...

    def delete(
        self, job: Job | int | None = None, *, connection: object = None, **chosen: Unpack[BulkFilter]
    ) -> int | None:
        """Delete a job that is not running, with its history.

        Or delete all jobs that fit a filter, and return how many. Running jobs, and jobs that others wait for, are left
        out.

            jobs.delete(status=["succeeded", "cancelled"], type="import_row")
        """
        return self._queue.run(job_actions.delete(self._queue, job, connection, chosen))

    @overload
    async def adelete(self, job: Job | int, *, connection: object = None) -> None: ...
    @overload
    async def adelete(self, *, connection: object = None, **chosen: Unpack[BulkFilter]) -> int: ...

    async def adelete(
        self, job: Job | int | None = None, *, connection: object = None, **chosen: Unpack[BulkFilter]
    ) -> int | None:
        """`delete`, for async code."""
        return await self._queue.arun(job_actions.delete(self._queue, job, connection, chosen))

    def signal(
        self, job: Job | int, name: str, value: object = None, *, actor: str | None = None, connection: object = None
    ) -> None:
        """Send a signal to a job whose handler waits for it with `ctx.wait_for(name)`, now or later.

            jobs.signal(job, "confirmed", {"by": "ann"})

        It is kept until the handler waits, and received once. `WrongState` if the job has finished. With `connection`,
        it is part of the caller's transaction.
        """
        self._queue.run(signals.signal(self._queue, job, name, value, actor, connection))

    async def asignal(
        self, job: Job | int, name: str, value: object = None, *, actor: str | None = None, connection: object = None
    ) -> None:
        """`signal`, for async code."""
        await self._queue.arun(signals.signal(self._queue, job, name, value, actor, connection))

    def pause(self, queue: str | None = None, *, task: str | None = None, actor: str | None = None) -> Paused:
        """Start no more jobs of a queue, or of a task, until it is resumed, neither by workers nor by hand.

        Running jobs continue, and waiting ones still expire. Pausing twice has no further effect. The queue `*` means
        every queue, also queues that do not exist yet.

            jobs.pause("mail")
            jobs.pause(task="send_email")
            jobs.pause("*")
        """
        return self._queue.run(pauses.pause(self._queue, queue, task, actor))

    async def apause(self, queue: str | None = None, *, task: str | None = None, actor: str | None = None) -> Paused:
        """`pause`, for async code."""
        return await self._queue.arun(pauses.pause(self._queue, queue, task, actor))

    def resume(self, queue: str | None = None, *, task: str | None = None, actor: str | None = None) -> bool:
        """Resume a queue or a task; return whether it was paused.

        `resume("*")` ends `pause("*")`. A queue that was paused by its name stays paused.
        """
        return self._queue.run(pauses.resume(self._queue, queue, task, actor))

    async def aresume(self, queue: str | None = None, *, task: str | None = None, actor: str | None = None) -> bool:
        """`resume`, for async code."""
        return await self._queue.arun(pauses.resume(self._queue, queue, task, actor))

    def paused(self) -> builtins.list[Paused]:
        """Return the queues and tasks that are paused now, since when, and by whom."""
        return self._queue.run(pauses.paused(self._queue))

    async def apaused(self) -> builtins.list[Paused]:
        """`paused`, for async code."""
        return await self._queue.arun(pauses.paused(self._queue))

    # schedules

    def add_schedule(
        self,
        name: str,
        task: str | Schedulable,
        arguments: Mapping[str, object] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Write a schedule at once, or change the one with that name. The options are those of `jobs.schedule`.

        >>> jobs.add_schedule("nightly", "clean_up", {"days": 30}, cron="0 3 * * *")  # doctest: +SKIP
        """
        return self._queue.run(schedules.add_schedule(self._queue, name, self._name_of(task), arguments, options))

    async def aadd_schedule(
        self,
        name: str,
        task: str | Schedulable,
        arguments: Mapping[str, object] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """`add_schedule`, for async code."""
        return await self._queue.arun(
            schedules.add_schedule(self._queue, name, self._name_of(task), arguments, options)
        )

    def schedules(self, *, unwritten: bool = False) -> builtins.list[Schedule]:
        """Return all schedules, by name; if `unwritten`, also those of this process that no worker has written yet.

        >>> [schedule.name for schedule in jobs.schedules() if schedule.declaration == "gone"]  # doctest: +SKIP
        ['nightly']
        """
        return self._queue.run(schedules.list_schedules(self._queue, unwritten=unwritten))

    async def aschedules(self, *, unwritten: bool = False) -> builtins.list[Schedule]:
        """`schedules`, for async code."""
        return await self._queue.arun(schedules.list_schedules(self._queue, unwritten=unwritten))

    def remove_schedule(self, name: str) -> None:
        """Delete a schedule; its jobs stay. `ScheduleNotFound` if there is none with this name."""
        self._queue.run(schedules.remove_schedule(self._queue, name))

    async def aremove_schedule(self, name: str) -> None:
        """`remove_schedule`, for async code."""
        await self._queue.arun(schedules.remove_schedule(self._queue, name))

    def run_schedule_now(self, name: str, *, actor: str | None = None) -> Job:
        """Enqueue one more job of a schedule, paused or not; its times do not change."""
        return self._queue.run(schedules.run_schedule_now(self._queue, name, actor))

    async def arun_schedule_now(self, name: str, *, actor: str | None = None) -> Job:
        """`run_schedule_now`, for async code."""
        return await self._queue.arun(schedules.run_schedule_now(self._queue, name, actor))

    def pause_schedule(self, name: str, *, actor: str | None = None) -> Schedule:
        """Let a schedule enqueue no jobs until it is resumed."""
        return self._queue.run(schedules.pause_schedule(self._queue, name, actor))

    async def apause_schedule(self, name: str, *, actor: str | None = None) -> Schedule:
        """`pause_schedule`, for async code."""
        return await self._queue.arun(schedules.pause_schedule(self._queue, name, actor))

    def resume_schedule(self, name: str, *, actor: str | None = None) -> Schedule:
        """Resume a schedule, with its next time from now: times that fell into the pause are not caught up on."""
        return self._queue.run(schedules.resume_schedule(self._queue, name, actor))

    async def aresume_schedule(self, name: str, *, actor: str | None = None) -> Schedule:
        """`resume_schedule`, for async code."""
        return await self._queue.arun(schedules.resume_schedule(self._queue, name, actor))

    def _name_of(self, task: str | Schedulable) -> str:
        if not isinstance(task, BaseTask):
            return task
        if not task.is_of(self._queue):
            raise InvalidOption("task", f"{task.name!r} is declared on another queue")
        return task.name

    # by hand

    def dequeue(
        self,
        worker: str,
        *,
        queues: Iterable[str] | None = None,
        lease: float | timedelta = by_hand.DEFAULT_LEASE_SECONDS,
    ) -> Job | None:
        """Claim the next job that is due, or return None."""
        return self._queue.run(by_hand.dequeue(self._queue, worker, lease, queues))

    async def adequeue(
        self,
        worker: str,
        *,
        queues: Iterable[str] | None = None,
        lease: float | timedelta = by_hand.DEFAULT_LEASE_SECONDS,
    ) -> Job | None:
        """`dequeue`, for async code."""
        return await self._queue.arun(by_hand.dequeue(self._queue, worker, lease, queues))

    def claim(
        self,
        worker: str,
        *,
        limit: int = 1,
        lease: float | timedelta = by_hand.DEFAULT_LEASE_SECONDS,
        queues: Iterable[str] | None = None,
    ) -> builtins.list[Job]:
        """Claim up to `limit` jobs for `lease` seconds by the database's clock; `heartbeat` renews it.

        A job that is neither settled nor renewed by then is claimed by another worker, and the attempt counts.
        """
        return self._queue.run(by_hand.claim(self._queue, worker, limit, lease, queues))

    async def aclaim(
        self,
        worker: str,
        *,
        limit: int = 1,
        lease: float | timedelta = by_hand.DEFAULT_LEASE_SECONDS,
        queues: Iterable[str] | None = None,
    ) -> builtins.list[Job]:
        """`claim`, for async code. If it is cancelled, the jobs are released."""
        return await self._queue.arun(by_hand.claim(self._queue, worker, limit, lease, queues))

    def complete(
        self,
        job: Job | int,
        result: object = None,
        *,
        then: Bound | None = None,
        actor: str | None = None,
        connection: object = None,
    ) -> None:
        """Settle a claimed job as succeeded. `LeaseLost` if it is no longer yours.

        Or complete a job that waits, given by its id, without running it: for approvals. `WrongState` if it runs or has
        finished. `then` is the next step of its chain.

            jobs.complete(approval.id, {"approved": True}, then=ship.bind(order_id=7), actor="ann")
        """
        self._queue.run(by_hand.complete(self._queue, job, result, then, actor, connection))

    async def acomplete(
        self,
        job: Job | int,
        result: object = None,
        *,
        then: Bound | None = None,
        actor: str | None = None,
        connection: object = None,
    ) -> None:
        """`complete`, for async code."""
        await self._queue.arun(by_hand.complete(self._queue, job, result, then, actor, connection))

    def fail(self, job: Job, error: str | BaseException, detail: str = "", *, connection: object = None) -> None:
        """Settle the attempt as failed: with a code such as `"TIMEOUT:UPSTREAM_API"` and a detail, or an exception."""
        self._queue.run(by_hand.fail(self._queue, job, error, detail, connection))

    async def afail(self, job: Job, error: str | BaseException, detail: str = "", *, connection: object = None) -> None:
        """`fail`, for async code."""
        await self._queue.arun(by_hand.fail(self._queue, job, error, detail, connection))

    def heartbeat(self, job: Job, *, lease: float | timedelta | None = None) -> None:
        """Renew the lease of a claimed job, from now on for `lease` seconds if that is given.

        `JobCancelled` if someone has called `cancel(id)`: stop, and `release` the job, which ends it.
        """
        self._queue.run(by_hand.heartbeat(self._queue, job, lease))

    async def aheartbeat(self, job: Job, *, lease: float | timedelta | None = None) -> None:
        """`heartbeat`, for async code."""
        await self._queue.arun(by_hand.heartbeat(self._queue, job, lease))

    def pushed_job(self, token: str) -> Job:
        """Return the job that a target has accepted, by the token that it was given.

            job = jobs.pushed_job(token)
            jobs.complete(job, result={"sent": 3})

        `fail` and `heartbeat` take it, too. Raise `PushRefused` if the token was not made with one of the secrets, and
        `LeaseLost` if the attempt is over.
        """
        return self._queue.run(push.pushed_job(self._queue, token))

    async def apushed_job(self, token: str) -> Job:
        """`pushed_job`, for async code."""
        return await self._queue.arun(push.pushed_job(self._queue, token))

    def release(self, job: Job) -> None:
        """Put a claimed job back at once, without using up an attempt."""
        self._queue.run(by_hand.release(self._queue, job))

    async def arelease(self, job: Job) -> None:
        """`release`, for async code."""
        await self._queue.arun(by_hand.release(self._queue, job))

    # keeping

    def prune(self, *, dry_run: bool = False) -> Pruned:
        """Delete finished jobs whose retention has passed, with their history. Workers do it regularly, too."""
        return self._queue.run(retention.prune(self._queue, dry_run=dry_run))

    async def aprune(self, *, dry_run: bool = False) -> Pruned:
        """`prune`, for async code."""
        return await self._queue.arun(retention.prune(self._queue, dry_run=dry_run))

    def rekey(self) -> Rekeyed:
        """Encrypt with the first key what other keys encrypted, and what was written before there was a key.

        It works in small batches while workers run, and can be stopped and repeated at any time.
        """
        return self._queue.run(rekey.rekey(self._queue))

    async def arekey(self) -> Rekeyed:
        """`rekey`, for async code."""
        return await self._queue.arun(rekey.rekey(self._queue))

    def clear(self) -> None:
        """Delete all jobs in every state, with their history, counts, pauses and schedules: for tests and scripts.

            @pytest.fixture(autouse=True)
            def no_jobs():
                jobs.clear()

        The next ids follow the last ones. A worker writes its declared schedules again when it starts.
        """
        self._queue.run(retention.clear(self._queue))

    async def aclear(self) -> None:
        """`clear`, for async code."""
        await self._queue.arun(retention.clear(self._queue))

    def recount(self) -> None:
        """Count all finished jobs again, after plain SQL has changed the state of jobs, which is not counted.

        Other writers wait until it ends: some seconds if there are millions of jobs.
        """
        self._queue.run(retention.recount(self._queue))

    async def arecount(self) -> None:
        """`recount`, for async code."""
        await self._queue.arun(retention.recount(self._queue))

    def vacuum(self) -> int:
        """Free the space of deleted rows, as far as that blocks no one; return how many bytes were freed."""
        return self._queue.run(retention.vacuum(self._queue))

    async def avacuum(self) -> int:
        """`vacuum`, for async code."""
        return await self._queue.arun(retention.vacuum(self._queue))

    def migrate(self) -> tuple[int, int]:
        """Make or update the tables; return the version found and the version now. Safe from many processes at once."""
        return self._queue.migrate()

    async def amigrate(self) -> tuple[int, int]:
        """`migrate`, for async code."""
        return await self._queue.arun(Blocking(self._queue.migrate))

    # serving

    def asgi(self, **options: Unpack[HttpOptions]) -> AsgiApp:
        """Return the dashboard and the JSON API as an ASGI app, to be mounted under any prefix.

            app.mount("/jobs", jobs.asgi(token=os.environ["JOBS_TOKEN"]))

        Without a token and without `authorize`, it answers only requests from this machine to this machine.

        Options:
            token: a secret of at least 16 characters that allows everything, or a mapping of names to secrets.
            read_token: the same, for visitors who may only read.
            authorize: a function of a Starlette `Request`, sync or async, that returns an `Access`, None to refuse, or
                a response of Starlette, FastAPI, Flask or Django, such as a redirect.
            login_url: where browsers that `authorize` refuses sign in; `next` is added to it, the way back.
            hosts: the names in the `Host` header that are answered; default all, or those of this machine.
            trace_url: where traces are: `"https://traces.example.com/{trace_id}"`. `{job_id}` works, too.
            origins: origins such as `"https://jobs.example.com"` that may change jobs, apart from the one asked.
        """
        from rowcall.http.app import asgi_app

        return asgi_app(self._queue, http_settings(**options))

    def wsgi(self, **options: Unpack[HttpOptions]) -> WsgiApp:
        """Return the dashboard as a WSGI app, for Flask and Django. The options are those of `asgi`.

        app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/jobs": jobs.wsgi(token=os.environ["JOBS_TOKEN"])})
        """
        from rowcall.http.wsgi import wsgi_app

        return wsgi_app(self._queue, http_settings(**options))

    # working

    def worker(self, **options: Unpack[WorkerOptions]) -> Worker:
        """Return a worker that runs in this process: `with jobs.worker():`, or `async with`.

        Options:
            concurrency: how many jobs run at a time; default 10.
            queues: the queues to serve, with limits if you like: `"mail=10,default"` or `{"mail": 10}`; default all.
            grace: how many seconds running jobs have to end when the worker stops; default 30.
            lease: after how many seconds without a heartbeat other workers recover its jobs; default 15.
            metrics_port, metrics_host: where Prometheus reads metrics; default none, and `"127.0.0.1"`.
            log_jobs: `"auto"` logs each attempt that succeeds, at level INFO, and above 100 a second one line a second
                for each task; `"all"` logs each; `"failures"` none. Failures are always logged. Default `"auto"`.
        """
        refuse_unknown(options, WorkerOptions.__annotations__)
        return Worker(self._queue, settings(**options), lambda: self.stats(window=60))

    def lifespan_for_app(
        self, *, worker: bool = False, lifespan: AppLifespan | None = None, **options: Unpack[WorkerOptions]
    ) -> Callable[[object], AbstractAsyncContextManager[None]]:
        """Return the lifespan of a web app, for FastAPI, Starlette and Litestar.

            app = FastAPI(lifespan=jobs.lifespan_for_app(worker=True, concurrency=20))

        It makes the tables if they do not exist, runs a worker in its process if `worker` is true, and closes the
        queue at the end. The other options are those of `worker()`. A `lifespan` that the app already has is entered
        first, and left last.
        """
        if options and not worker:
            raise InvalidOption("worker", f"must be true for options of a worker: {', '.join(options)}")
        refuse_unknown(options, WorkerOptions.__annotations__)
        settings(**options)
        return app_lifespan(self._queue, partial(self.worker, **options) if worker else None, lifespan)

    def work(self, **options: Unpack[WorkerOptions]) -> None:
        """Work in this process until SIGINT or SIGTERM. The options are those of `worker`."""
        work(self.worker(**options))

    def drain(
        self, *, concurrency: int = DEFAULT_CONCURRENCY, queues: Queues = None, raise_errors: bool = False
    ) -> Summary:
        """Run all jobs that are due now, in this process, and return how many ended how: for tests and scripts.

        With `raise_errors`, raise what the handlers raised once all jobs are settled: the exception itself, or an
        `ExceptionGroup` if several jobs failed. A job whose next attempt succeeds in the same drain has not failed.
        """
        self._queue.check_outside_block()
        with raising(raise_errors) as errors:
            return Worker(self._queue, settings(concurrency=concurrency, queues=queues)).drain(errors)

    async def adrain(
        self, *, concurrency: int = DEFAULT_CONCURRENCY, queues: Queues = None, raise_errors: bool = False
    ) -> Summary:
        """`drain`, for async code. If it is cancelled, it claims nothing more, and ends when its handlers have."""
        self._queue.check_outside_block()
        with raising(raise_errors) as errors:
            return await Worker(self._queue, settings(concurrency=concurrency, queues=queues)).adrain(errors)

    # closing

    def close(self) -> None:
        """Close all connections; a later call opens new ones. Open blocks of `transaction()` are rolled back."""
        self._queue.close()

    def __enter__(self) -> Rowcall:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Rowcall:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()


def config_at(jobs: Rowcall, url: str) -> Config:
    """Return the options of a queue for another database, for tests."""
    return jobs._setup.config_at(url)


def queue_of(jobs: Rowcall) -> Queue:
    """Return the queue behind a `Rowcall`: for the command line, integrations and tests."""
    return jobs._queue
