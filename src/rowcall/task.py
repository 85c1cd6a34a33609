"""Tasks: functions that can be enqueued, with their arguments checked and typed."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, ParamSpec, TypeVar, Unpack

from rowcall.context import Context
from rowcall.domain.batch_payload import ItemArguments
from rowcall.domain.errors import InvalidArguments, InvalidOption
from rowcall.domain.job import Job
from rowcall.domain.limits import Limit, LimitOf
from rowcall.domain.payload import Arguments, takes_context
from rowcall.queue.enqueueing import Enqueueing, mappings
from rowcall.queue.failures import Failures
from rowcall.queue.flows import Bound
from rowcall.queue.isolation import home_of
from rowcall.queue.limits import KnownLimits, bound_to, limited
from rowcall.queue.options import ENQUEUE_OPTIONS, EnqueueOptions, Options, checked, new_job
from rowcall.store.dialect import NewJob

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

NOTHING_GIVEN = Options()


class Lane(enum.Enum):
    """Where a handler runs."""

    THREAD = "thread"
    LOOP = "loop"
    PROCESS = "process"


class Declared:
    """What a declaration says, whatever the types of its arguments: what workers and enqueue by name need."""

    failures = Failures()  # its queue's, once it is declared there
    core: Enqueueing | None = None

    def __init__(self, name: str, function: Callable[..., object], options: Options) -> None:
        self.name = name
        self.function = function
        self.options = options
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004
        )
        self.lane = Lane.PROCESS if options.isolated else Lane.LOOP if self.is_async else Lane.THREAD
        self.takes_context = takes_context(function, Context)
        kind = Arguments if options.batch is None else ItemArguments
        self.arguments = kind(name, function, skip_first=self.takes_context)
        self.limits = bound_to(options.limits or (), name, self.arguments)

    def limits_for(self, given: tuple[Limit, ...] | None, known: KnownLimits) -> tuple[LimitOf, ...] | None:
        """The limits of a job: those given with it, else those of the task; None if it has none."""
        if given is None:
            return self.limits or None
        bound = bound_to(given, self.name, self.arguments)
        known.check(given)
        return bound

    def payload_of(self, arguments: object) -> str:
        """The payload for a dict of arguments."""
        return self.arguments.to_json((), *mappings(self.name, [arguments]))  # type: ignore[list-item]


class Enqueuer(Generic[P]):
    """A task with options: what `task.using(...)` gives."""

    def __init__(self, jobs: Enqueueing, declared: Declared, job: NewJob, connection: object = None) -> None:
        self._jobs = jobs
        self._declared = declared
        self._connection = connection
        self._new_job = job

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Write a job that will call the function with these arguments; it is durable when this returns."""
        payload = self._declared.arguments.to_json(args, kwargs)
        return self._jobs.put(self._new_job, payload, connection=self._connection)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """`enqueue` for async code. Cancelled while it waits, the job may still have been written."""
        payload = self._declared.arguments.to_json(args, kwargs)
        return await self._jobs.aput(self._new_job, payload, connection=self._connection)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound:
        """A call that is not enqueued yet: a step of a chain, or a job of a flow.

        >>> jobs.start_chain([fetch.bind("a.csv"), load.bind()])  # doctest: +SKIP
        """
        if self._connection is not None:
            raise InvalidOption("connection", "goes to jobs.start_chain(…) or jobs.flow(…), which write what is bound")
        return Bound(self._new_job, self._declared.arguments.to_json(args, kwargs))

    def enqueue_many(self, rows: Iterable[Mapping[str, object]]) -> list[Job]:
        """Write one job for each dict of arguments, all in one transaction.

        >>> send_email.enqueue_many([{"to": "a@example.com", "subject": "hi"}])  # doctest: +SKIP
        """
        return self._jobs.put_many(self._new_job, self._payloads(rows), connection=self._connection)

    async def aenqueue_many(self, rows: Iterable[Mapping[str, object]]) -> list[Job]:
        return await self._jobs.aput_many(self._new_job, self._payloads(rows), connection=self._connection)

    def _payloads(self, rows: Iterable[Mapping[str, object]]) -> list[str]:
        to_json = self._declared.arguments.to_json
        payloads: list[str] = []
        try:
            payloads.extend(to_json((), row) for row in mappings(self._declared.name, rows))
        except InvalidArguments as error:
            raise InvalidArguments(error.task, f"row {len(payloads)}: {error.problem}") from error
        return payloads


class BaseTask(Enqueuer[P], Generic[P, R]):
    """A declared task."""

    def __init__(self, jobs: Enqueueing, declared: Declared) -> None:
        super().__init__(jobs, declared, _new_job(jobs, declared, NOTHING_GIVEN))
        self.__name__ = declared.name
        self.__doc__ = declared.function.__doc__
        self.__module__ = declared.function.__module__
        self.__wrapped__ = declared.function

    @property
    def name(self) -> str:
        return self._declared.name

    def is_of(self, jobs: Enqueueing) -> bool:
        """Whether it is declared there."""
        return self._jobs is jobs

    def using(self, **options: Unpack[EnqueueOptions]) -> Enqueuer[P]:
        """The same task with other options.

        >>> send_email.using(priority=10, delay=60).enqueue("a@example.com", subject="hi")  # doctest: +SKIP
        """
        if len(options) == 1 and "connection" in options:  # the job is the same
            return Enqueuer(self._jobs, self._declared, self._new_job, options["connection"])
        given = checked(options, ENQUEUE_OPTIONS)
        return Enqueuer(self._jobs, self._declared, _new_job(self._jobs, self._declared, given), given.connection)

    def __repr__(self) -> str:
        return f"<task {self.name!r}>"


class Task(BaseTask[P, R]):
    """A task whose function takes the arguments it is enqueued with. Calling it simply calls the function."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.__wrapped__(*args, **kwargs)  # type: ignore[assignment]
        return result


class ContextTask(BaseTask[P, R]):
    """A task whose function takes a `Context` first, which is not among the arguments it is enqueued with."""

    def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.__wrapped__(ctx, *args, **kwargs)  # type: ignore[assignment]
        return result


def _new_job(jobs: Enqueueing, declared: Declared, given: Options) -> NewJob:
    job = new_job(declared.name, declared.options, given, jobs.config.default_queue)
    return limited(job, declared.limits_for(given.limits, jobs.limits))


def declare(function: Callable[..., object], options: Options) -> Declared:
    """Check a function and its options; refused ones say why."""
    if isinstance(function, BaseTask):
        raise InvalidOption("task", f"{function.name!r} is a task already")
    if not callable(function):
        raise InvalidOption("task", f"wants a function, not {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidOption("task", f"{function.__qualname__} is a generator: its body would never run")
    name = options.name or getattr(function, "__name__", None)
    if not name or name == "<lambda>":
        raise InvalidOption("name", f"{function!r} has no name of its own; give one with task(name=…)")
    if name in options.aliases:
        raise InvalidOption("aliases", f"must be other names than the task's own, got {name!r}")
    if options.isolated:
        home_of(function)
    return Declared(name, function, options)
