"""Rowcall: what a user holds. Every method forwards to an operation.

`both(operation)` is a method and its async twin, with the signature and the docstring of the operation. Overloads of a
method stand next to its operation.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from typing import Concatenate, Literal, ParamSpec, TypeVar, Unpack, cast, overload
from zoneinfo import ZoneInfo

from rowcall.context import Context
from rowcall.declare.declaration import Declaration, declare
from rowcall.declare.enqueue_call import EnqueueMiddleware, checked_enqueue_middleware
from rowcall.declare.fairness import declare_fair_queue
from rowcall.declare.follow_ups import ObservedEvent, Observer
from rowcall.declare.handlers import Override
from rowcall.declare.lifespan import LifespanFunction, checked_lifespan
from rowcall.declare.limits import checked_queue_limit
from rowcall.declare.middleware import AnyMiddleware
from rowcall.declare.option_table import TASK_OPTIONS, BatchOptions, Options, TaskOptions, checked
from rowcall.domain.config import Config, QueueOptions
from rowcall.domain.errors import InvalidOption, UnknownTask
from rowcall.domain.job import Summary
from rowcall.domain.limits import Limit
from rowcall.domain.schedule import DEFAULT_CATCH_UP, CatchUp, timing_of
from rowcall.http.server_options import AsgiApp, HttpOptions, WsgiApp
from rowcall.http.server_options import settings as http_settings
from rowcall.operations import batches, by_hand, flows, inspect, job_actions, job_logs, pauses, results, signals
from rowcall.operations import enqueue as enqueueing
from rowcall.operations import events as streaming
from rowcall.operations import limits as levers
from rowcall.operations import push as pushing
from rowcall.operations import rekey as rekeying
from rowcall.operations import retention as keeping
from rowcall.operations import schedules as scheduling
from rowcall.operations import stats as statistics
from rowcall.operations import streams as values
from rowcall.operations.both import both
from rowcall.operations.enqueue import Transaction
from rowcall.operations.flows import Flow
from rowcall.overview import alerting, reasons, stacks
from rowcall.overview.attention import attention_list
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
from rowcall.worker.process.os_signals import work
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
T = TypeVar("T", bound=BaseTask[..., object])


class Rowcall:
    """A queue of background jobs in a database.

        jobs = Rowcall("sqlite:///app.db")

        @jobs.task
        def send_email(to: str, subject: str) -> None: ...

        send_email.enqueue("a@example.com", subject="Order confirmed")

    `url` is a `sqlite:///` or `postgresql://` URL, a `pathlib.Path`, or a function that returns one, which is called
    at the first use. Without one, `$ROWCALL_URL` is read at the first use, else it is `sqlite:///rowcall.db`; an
    application factory can call `configure` before that. The first use also opens the database, and makes its tables.

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
        alerts: an `Alerts`: where to report what needs attention.
        moves_to: the URL of another database: when `rowcall move` has moved the queue there, the app continues there.
        job_log: a `JobLog`: how much is kept of what handlers write with `ctx.log`; None keeps nothing.
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
        declare_with = partial(self._declare, checked(options, TASK_OPTIONS))
        return declare_with if function is None else declare_with(function)

    def _declare(self, options: Options, function: Callable[..., object]) -> AnyTask | BatchTask[object]:
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

        if self._queue.is_open and self._queue.declared.options.push is None:
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
        self._queue.declared.lifespan = checked_lifespan(function, self._queue.declared.lifespan)
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
        self._queue.declared.handlers.add_middleware(function)
        return function

    def enqueue_middleware(self, function: N, /) -> N:
        """Let a function read and change every job before it is written: its arguments and its options.

        @jobs.enqueue_middleware
        def tagged(call: EnqueueCall) -> None:
            call.options["tags"] = [*call.options.get("tags", ()), f"tenant:{tenant.get()}"]

        It is called where the job is enqueued or bound, in the order of registration, and must not wait. If it raises,
        nothing is written. `EnqueueCall` is in `rowcall.middleware`.
        """
        self._queue.declared.enqueue_middleware += (checked_enqueue_middleware(function),)
        return function

    def override(self, function: Callable[..., object], replacement: Callable[..., object], /) -> Override:
        """Call another function for a dependency, from now on, or until the end of a `with` block: for tests.

        with jobs.override(get_session, fake_session):
            jobs.drain()

        Child processes do not see it: attempts of tasks with `isolation="process"` that depend on it fail. A dependency
        with `scope="worker"` must be overridden before the worker starts.
        """
        return self._queue.declared.handlers.override(function, replacement)

    def limit_queue(self, queue: str, limit: Limit | Sequence[Limit]) -> None:
        """Limit all jobs of a queue, wherever they run: `jobs.limit_queue("mail", Limit("mail", concurrency=10))`."""
        self._queue.declared.limits.declare_queue(queue, checked_queue_limit(queue, limit))

    def fair_queue(
        self, queue: str, *, by: str, weight: Mapping[str, int] | Mapping[int, int] | Callable[..., int] | None = None
    ) -> None:
        """Let the jobs of a queue take turns by an argument: `jobs.fair_queue("mail", by="customer_id")`.

        It applies to all jobs that this process enqueues in the queue, whatever their task. A job without that argument
        counts as one with None. See `fair_by` of `task` for the jobs of one task.
        """
        declare_fair_queue(self._queue.declared.fair_queues, queue, by, weight)

    def declared_task(self, name: str) -> Declaration:
        """Return the declaration of a task. `UnknownTask` if this process declares none with that name."""
        try:
            return self._queue.declared.tasks[name]
        except KeyError:
            raise UnknownTask(name, sorted(self._queue.declared.tasks)) from None

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
        failures = self._queue.declared.failures
        failures.check(kind)
        return partial(failures.declare, kind) if code is None else failures.declare(kind, code)

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
            named = scheduling.name_of(self._queue, task)
            options = named if name is None else name, named, arguments, queue, priority, timing
            self._setup.declare_schedule(partial(scheduling.new_schedule, self._queue, *options))
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
        observe = partial(self._queue.declared.follow_ups.observe, event)
        return observe if function is None else observe(function)

    # enqueueing

    enqueue, aenqueue = both(
        enqueueing.enqueue_by_name, "If it is cancelled while it waits, the job may still have been written."
    )
    publish, apublish = both(enqueueing.publish)

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

    # batches

    batch, abatch = both(batches.new_batch)
    get_batch, aget_batch = both(batches.get_batch)
    list_batches, alist_batches = both(batches.list_batches)

    # chains

    start_chain, astart_chain = both(flows.start_chain)
    chain, achain = both(flows.get_chain)
    list_chains, alist_chains = both(flows.list_chains)
    complete_chain, acomplete_chain = both(flows.complete_chain)
    cancel_chain, acancel_chain = both(flows.cancel_chain)
    delete_chain, adelete_chain = both(flows.delete_chain)

    # inspecting

    get, aget = cast("inspect.GetMethods", both(inspect.get))
    list, alist = both(inspect.list_jobs)
    attempts, aattempts = both(inspect.attempts)
    timeline, atimeline = both(inspect.timeline)
    steps, asteps = both(signals.steps)
    open_waits, aopen_waits = both(signals.open_waits)
    events, aevents = streaming.events, streaming.aevents
    stream, astream = values.stream, values.astream
    log, alog = both(job_logs.log)
    blockers, ablockers = both(inspect.blockers)
    why, awhy = both(reasons.why)
    attention, aattention = both(attention_list.attention)
    watch, awatch = both(alerting.watch)
    stack, astack = both(stacks.stack)
    dependents, adependents = both(inspect.dependents)
    workers, aworkers = both(inspect.workers)
    result, aresult = cast("results.ResultMethods", both(results.result, "Any number of tasks may wait at once."))

    # questions

    stats, astats = both(statistics.stats)
    activity, aactivity = both(statistics.activity)
    stuck, astuck = both(statistics.stuck)
    retries, aretries = both(statistics.retries)
    top_errors, atop_errors = both(statistics.top_errors)
    failing, afailing = both(statistics.failing)
    retention, aretention = both(statistics.retention)

    # controlling

    retry, aretry = cast("job_actions.RetryMethods", both(job_actions.retry))
    cancel, acancel = cast("job_actions.CancelMethods", both(job_actions.cancel))
    reschedule, areschedule = cast("job_actions.RescheduleMethods", both(job_actions.reschedule))
    edit, aedit = both(job_actions.edit)
    set_priority, aset_priority = cast("job_actions.SetPriorityMethods", both(job_actions.set_priority))
    delete, adelete = cast("job_actions.DeleteMethods", both(job_actions.delete))
    signal, asignal = both(signals.signal)
    pause, apause = both(pauses.pause)
    resume, aresume = both(pauses.resume)
    paused, apaused = both(pauses.paused)
    set_limit, aset_limit = both(levers.set_limit)
    reset_limit, areset_limit = both(levers.reset_limit)
    limits, alimits = both(levers.limits)
    limit_changes, alimit_changes = both(levers.limit_changes)

    # schedules

    add_schedule, aadd_schedule = both(scheduling.add_schedule)
    schedules, aschedules = both(scheduling.list_schedules)
    remove_schedule, aremove_schedule = both(scheduling.remove_schedule)
    run_schedule_now, arun_schedule_now = both(scheduling.run_schedule_now)
    pause_schedule, apause_schedule = both(scheduling.pause_schedule)
    resume_schedule, aresume_schedule = both(scheduling.resume_schedule)

    # by hand

    dequeue, adequeue = both(by_hand.dequeue)
    claim, aclaim = both(by_hand.claim, "If it is cancelled, the jobs are released.")
    complete, acomplete = both(by_hand.complete)
    fail, afail = both(by_hand.fail)
    heartbeat, aheartbeat = both(by_hand.heartbeat)
    pushed_job, apushed_job = both(pushing.pushed_job)
    release, arelease = both(by_hand.release)

    # keeping

    prune, aprune = both(keeping.prune)
    rekey, arekey = both(rekeying.rekey)
    clear, aclear = both(keeping.clear)
    recount, arecount = both(keeping.recount)
    vacuum, avacuum = both(keeping.vacuum)
    migrate, amigrate = both(keeping.migrate)

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
        return Worker(
            self._queue, settings(**options), lambda: self._queue.run(attention_list.queue_facts(self._queue))
        )

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
        self._queue.backend.check_outside_block()
        with raising(raise_errors) as errors:
            return Worker(self._queue, settings(concurrency=concurrency, queues=queues)).drain(errors)

    async def adrain(
        self, *, concurrency: int = DEFAULT_CONCURRENCY, queues: Queues = None, raise_errors: bool = False
    ) -> Summary:
        """`drain`, for async code. If it is cancelled, it claims nothing more, and ends when its handlers have."""
        self._queue.backend.check_outside_block()
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
