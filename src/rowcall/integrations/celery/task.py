"""A Celery task: a function that becomes a task of Rowcall with the arguments `args` and `kwargs`."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import msgspec

from rowcall.app import Rowcall
from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.context import Context, current
from rowcall.declare.option_table import EnqueueOptions
from rowcall.domain.backoff import Backoff
from rowcall.domain.errors import InvalidArguments, InvalidOption, Retry
from rowcall.integrations.celery.canvas import Signature, chain
from rowcall.integrations.celery.current import App, Takes
from rowcall.integrations.celery.result import AsyncResult, EagerResult
from rowcall.operations.enqueue import Bound
from rowcall.task import ContextTask

DEFAULT_MAX_RETRIES = 3
DEFAULT_RETRY_SECONDS = 180
LONGEST_BACKOFF_SECONDS = 600


class MaxRetriesExceededError(Exception):
    """`self.retry()` was called in the last attempt."""


def get_task_logger(name: str) -> logging.Logger:
    return logging.getLogger(name)


class Request(msgspec.Struct):
    """What a bound task knows of its call."""

    id: str | None = None
    retries: int = 0
    args: Sequence[object] = ()
    kwargs: Mapping[str, object] = {}


class TaskSettings(msgspec.Struct, kw_only=True):
    """The options of `@app.task(...)` that have an effect."""

    name: str | None = None
    bind: bool = False
    queue: str | None = None
    priority: int | None = None
    max_retries: int | None = DEFAULT_MAX_RETRIES
    default_retry_delay: float = DEFAULT_RETRY_SECONDS
    autoretry_for: tuple[type[BaseException], ...] = ()
    dont_autoretry_for: tuple[type[BaseException], ...] = ()
    retry_kwargs: Mapping[str, Any] = {}
    retry_backoff: bool | float = False
    retry_backoff_max: float = LONGEST_BACKOFF_SECONDS
    retry_jitter: bool = True
    time_limit: float | None = None


MOST_ATTEMPTS = 1_000_000  # max_retries=None has no limit
# nothing to do for these: payloads are JSON, results are kept, and an enqueue that fails raises
NEEDLESS_OF_CALLS = frozenset({"compression", "ignore_result", "retry", "retry_policy", "serializer"})


class Task:
    """A function and its options. Call it, or enqueue it with `delay` and `apply_async`."""

    def __init__(self, app: App, function: Callable[..., object], settings: TaskSettings) -> None:
        self.app = app
        self.settings = settings
        self.function = function
        self.name = settings.name or f"{function.__module__}.{function.__name__}"
        self.max_retries: int | None = settings.retry_kwargs.get("max_retries", settings.max_retries)
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.task = self._declared()

    def _declared(self) -> ContextTask[..., object]:
        def handler(ctx: Context, args: list[object], kwargs: dict[str, object], takes: Takes | None = None) -> object:
            if takes == "one":
                args = [ctx.blockers[0], *args]
            elif takes == "all":
                args = [list(ctx.blockers), *args]
            return self._run(args, kwargs)

        settings = self.settings
        attempts = MOST_ATTEMPTS if self.max_retries is None else self.max_retries + 1
        options = {"queue": settings.queue, "priority": settings.priority, "timeout": settings.time_limit}
        given = {name: value for name, value in options.items() if value is not None}
        # Celery retries only what is asked for: an exception that leaves the function fails the job
        retry = Backoff.constant(settings.default_retry_delay, give_up_on=(Exception,))
        declare = self.app.jobs.task(name=self.name, max_attempts=attempts, retry=retry, **given)  # type: ignore[call-overload]
        declared: ContextTask[..., object] = declare(handler)
        return declared

    def _run(self, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        try:
            return self(*args, **kwargs)
        except self.settings.dont_autoretry_for:
            raise
        except self.settings.autoretry_for as error:
            self.retry(exc=error, countdown=self._pause())

    def _pause(self) -> float:
        settings = self.settings
        if not settings.retry_backoff:
            seconds: float = settings.retry_kwargs.get("countdown", settings.default_retry_delay)
            return seconds
        first = 1.0 if settings.retry_backoff is True else float(settings.retry_backoff)
        longest = min(settings.retry_backoff_max, first * 2.0**self.request.retries)
        return SYSTEM_CLOCK.chance() * longest if settings.retry_jitter else longest

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.function(self, *args, **kwargs) if self.settings.bind else self.function(*args, **kwargs)

    run = __call__

    def __repr__(self) -> str:
        return f"<@task: {self.name}>"

    @property
    def request(self) -> Request:
        """The call that runs now; an empty one outside of a worker."""
        try:
            job = current().job
        except RuntimeError:
            return Request()
        payload = job.payload
        args, kwargs = payload.get("args", []), payload.get("kwargs", {})
        assert isinstance(args, list)
        assert isinstance(kwargs, dict)
        return Request(str(job.id), job.attempt - 1, args, kwargs)

    def retry(
        self,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        exc: BaseException | None = None,
        countdown: float | timedelta | None = None,
        eta: datetime | None = None,
        max_retries: int | None = None,
    ) -> NoReturn:
        """End this attempt, and try again later. In the last one raise `exc`, or `MaxRetriesExceededError`."""
        if args is not None or kwargs is not None:
            raise InvalidOption("retry", "cannot change the arguments; enqueue another job with them")
        most = self.max_retries if max_retries is None else max_retries
        if most is not None and self.request.retries >= most:
            raise exc or MaxRetriesExceededError(f"{self.name}: {most} retries")
        reason = str(exc) if exc is not None else ""
        if eta is not None:
            raise Retry(run_at=_aware(eta), reason=reason) from exc
        delay = self.settings.default_retry_delay if countdown is None else countdown
        raise Retry(delay=delay, reason=reason) from exc

    # enqueueing

    def delay(self, *args: object, **kwargs: object) -> AsyncResult:
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None, **options: object
    ) -> AsyncResult:
        """Enqueue a call: `countdown` or `eta`, `expires`, `queue`, `priority`, `time_limit`, `link`, `connection`."""
        link = options.pop("link", None)
        following = [] if link is None else chain(link).parts  # type: ignore[arg-type]
        flow = self.jobs.flow(connection=options.pop("connection", None))
        first = self.s(*args, **(kwargs or {})).set(**options).add_to(flow, None)
        for part in following:
            part.add_to(flow, first)
        return AsyncResult(flow.enqueue()[0].id, self.jobs)

    @property
    def jobs(self) -> Rowcall:
        return self.app.jobs

    def bound(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        options: Mapping[str, object],
        takes: Takes | None = None,
    ) -> Bound:
        """Return the job of a call, not enqueued yet. `InvalidArguments` if the function does not accept them."""
        try:
            given = [self, *args] if self.settings.bind else args
            inspect.signature(self.function).bind(*([None] if takes else []), *given, **kwargs)
        except TypeError as error:
            raise InvalidArguments(self.name, str(error)) from error
        ours = our_options({**self.app.route(self.name), **options})
        return self.task.using(**ours).bind(list(args), dict(kwargs), takes)

    def apply(self, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None) -> EagerResult:
        """Call the function here and now. What it raises is raised by `get()` of the result."""
        try:
            return EagerResult(self(*args, **(kwargs or {})))
        except Exception as error:
            return EagerResult(error, failed=True)

    def s(self, *args: object, **kwargs: object) -> Signature:
        """Return the call as a value, for chains and groups: its first argument may be the result of the one before."""
        return Signature(self, args, kwargs)

    def si(self, *args: object, **kwargs: object) -> Signature:
        """`s`, without the result of the call before."""
        return Signature(self, args, kwargs, immutable=True)

    def signature(
        self,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        immutable: bool = False,
        **options: object,
    ) -> Signature:
        """`s`, with the arguments as a tuple and a dict, and with options: `add.signature((1, 2), countdown=10)`."""
        return Signature(self, args or (), kwargs, options, immutable)

    subtask = signature

    def AsyncResult(self, id: str | int) -> AsyncResult:  # noqa: N802 (Celery's name)
        return AsyncResult(id, self.app.jobs)


def our_options(given: Mapping[str, object]) -> EnqueueOptions:
    """Return the options of Rowcall for those of `apply_async`. `InvalidOption` for one that has no equivalent."""
    found: dict[str, object] = {}
    for name, value in given.items():
        match name, value:
            case _, None:
                continue
            case "countdown", _:
                found["delay"] = value
            case "eta", datetime():
                found["run_at"] = _aware(value)
            case "expires", datetime():
                found["expires_at"] = _aware(value)
            case "expires", _:
                found["expires_in"] = value
            case "time_limit", _:
                found["timeout"] = value
            case "connection" | "queue" | "priority", _:
                found[name] = value
            case _ if name not in NEEDLESS_OF_CALLS:
                raise InvalidOption(name, "has no equivalent in Rowcall; see docs/from-celery.md")
    return found  # type: ignore[return-value]


def _aware(moment: datetime) -> datetime:
    """Celery takes a time without a zone as UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
