"""A Celery task: a function that becomes a task of Rowcall with the arguments `args` and `kwargs`."""

from __future__ import annotations

import functools
import inspect
import logging
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn

import msgspec

from rowcall.app import Rowcall, queue_of
from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.base.text import DETAIL_LENGTH
from rowcall.context import Context, current
from rowcall.domain.backoff import Backoff
from rowcall.domain.errors import Cancel, Control, Fail, InvalidArguments, InvalidOption, Retry, Snooze
from rowcall.domain.payload import parameters_of
from rowcall.integrations.celery import states
from rowcall.integrations.celery.canvas import Signature, Spread, group
from rowcall.integrations.celery.current import App, RunningCall, Takes, running
from rowcall.integrations.celery.eager import EagerResult, FailedCall, Request, eager_request
from rowcall.integrations.celery.errbacks import errback_arguments, failed_before
from rowcall.integrations.celery.exceptions import ExceptionInfo, Ignore, MaxRetriesExceededError, Reject
from rowcall.integrations.celery.options import (
    TaskSettings,
    aware,
    limit_of,
    options_of_class,
    our_options,
    refused_options,
    task_settings,
)
from rowcall.integrations.celery.result import AsyncResult
from rowcall.integrations.celery.values import packed, unpacked
from rowcall.observe.shown_exceptions import drop_callers
from rowcall.operations.enqueue import Bound
from rowcall.overview.tasks import shown_as
from rowcall.task import ContextTask

MOST_ATTEMPTS = 1_000_000  # max_retries=None has no limit
MOST_EAGER_RETRIES = 1000
REQUEUE_SECONDS = 1.0


def get_task_logger(name: str) -> logging.Logger:
    return logging.getLogger(name)


class Task:
    """A function and its options. Call it, or enqueue it with `delay` and `apply_async`.

    A subclass, for `@app.task(base=…)` and `Celery(task_cls=…)`, may have options as attributes, override `__call__`,
    and have hooks: `before_start`, `on_success`, `on_retry`, `on_failure`, `after_return`.
    """

    app: App
    name: str = ""
    settings: TaskSettings
    refused: list[str]
    """Options without an equivalent, which the app reports all at once."""
    task: ContextTask[..., object]
    max_retries: int | None

    def run(self, *args: Any, **kwargs: Any) -> object:
        """Run the function itself."""
        raise NotImplementedError("a task needs a function: @app.task, or a method named run")

    def attach(self, app: App, function: Callable[..., object] | None, task_options: Mapping[str, object]) -> None:
        """Declare the task. Without a function it is the method `run` of the class."""
        self.app = app
        options = {**options_of_class(type(self), Task), **task_options}
        self.settings, self.refused = task_settings(options), refused_options(options)
        settings = self.settings
        if function is not None:
            functools.update_wrapper(self, function)
            bound = settings.bind
            self.run = functools.partial(function, self) if bound else function  # type: ignore[method-assign]
        if inspect.iscoroutinefunction(function or self.run):
            raise InvalidOption("task", f"{function or self!r} is async: declare it with @app.jobs.task")
        self.name = settings.name or f"{self.__module__}.{getattr(self, '__name__', type(self).__name__)}"
        self.max_retries = settings.retry_kwargs.get("max_retries", settings.max_retries)
        self.task = self._declared(function or type(self).run)

    def _declared(self, function: Callable[..., object]) -> ContextTask[..., object]:
        def handler(ctx: Context, args: list[object], kwargs: dict[str, object], takes: Takes | None = None) -> object:
            return self._work(ctx, args, kwargs, takes)

        settings = self.settings
        attempts = MOST_ATTEMPTS if self.max_retries is None else self.max_retries + 1
        options = {
            "queue": settings.queue,
            "priority": settings.priority,
            "timeout": settings.time_limit,
            "limit": None if settings.rate_limit is None else limit_of(self.name, settings.rate_limit),
        }
        chosen = {name: value for name, value in options.items() if value is not None}
        # Celery retries only what is asked for: an exception that leaves the function fails the job
        retry = Backoff.constant(settings.default_retry_delay, give_up_on=(Exception,))
        declare = self.app.jobs.task(name=self.name, max_attempts=attempts, retry=retry, **chosen)  # type: ignore[call-overload]
        declared: ContextTask[..., object] = declare(shown_as(handler, function, parameters_of(self.run)))
        return declared

    # running

    def _work(self, ctx: Context, args: list[object], kwargs: dict[str, object], takes: Takes | None) -> object:
        """Run a job in a worker."""
        positional: list[object] = [unpacked(argument) for argument in args]
        if takes == "one":
            positional = [unpacked(ctx.blockers[0]), *positional]
        elif takes == "all":
            positional = [unpacked(list(ctx.blockers)), *positional]
        elif takes in ("error", "failure"):
            failed = failed_before(self.jobs, ctx.job)
            if failed is None:
                return None  # what it follows has succeeded, or was cancelled
            if takes == "error":
                positional = [*errback_arguments(self.run, failed, positional, kwargs), *positional]
        call = RunningCall(self)
        try:
            return packed(self._traced(call, positional, {name: unpacked(kwargs[name]) for name in kwargs}, takes))
        except Ignore:
            return packed(_ignored(call))
        except Reject as error:
            if error.requeue:
                raise Snooze(delay=REQUEUE_SECONDS) from error
            raise Fail("CELERY:REJECTED", str(error.reason)) from error

    def _traced(
        self, call: RunningCall, args: Sequence[object], kwargs: Mapping[str, object], takes: Takes | None = None
    ) -> object:
        """Call the function and the hooks around it."""
        token = running.set(call)
        job_id = self.request.id
        try:
            self.before_start(job_id, args, kwargs)
            returned = self._called(args, kwargs, takes)
            self.on_success(returned, job_id, args, kwargs)
            self.after_return(states.SUCCESS, returned, job_id, args, kwargs, None)
            return returned
        except Retry as retry:
            reason, info = retry.__cause__ or retry, _info(retry)
            self.on_retry(reason, job_id, args, kwargs, info)
            self.after_return(states.RETRY, reason, job_id, args, kwargs, info)
            raise
        except (Ignore, Reject, Control):
            raise
        except Exception as error:
            info = _info(error)
            self.on_failure(error, job_id, args, kwargs, info)
            self.after_return(states.FAILURE, error, job_id, args, kwargs, info)
            raise
        finally:
            running.reset(token)

    def _called(self, args: Sequence[object], kwargs: Mapping[str, object], takes: Takes | None) -> object:
        try:
            if takes in ("map", "starmap"):
                items: Any = args[0]
                return [self(*item) if takes == "starmap" else self(item) for item in items]
            return self(*args, **kwargs)
        except (Ignore, Reject, Control):
            raise
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
        return self.run(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<@task: {self.name}>"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a task has no {name!r} in Rowcall; see docs/from-celery.md")

    # hooks of subclasses

    def before_start(self, task_id: Any, args: Any, kwargs: Any) -> None: ...
    def on_success(self, retval: Any, task_id: Any, args: Any, kwargs: Any) -> None: ...
    def on_retry(self, exc: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any) -> None: ...
    def on_failure(self, exc: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any) -> None: ...
    def after_return(self, status: str, retval: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any) -> None: ...

    # what a bound function uses

    @property
    def request(self) -> Request:
        """The call that runs now; an empty one outside of a worker."""
        call = running.get()
        if call is not None and call.request is not None:
            return call.request
        try:
            job = current().job
        except RuntimeError:
            return Request()
        arguments: Any = unpacked(job.payload)
        return Request(
            id=str(job.id),
            task=job.type,
            args=arguments.get("args", []),
            kwargs=arguments.get("kwargs", {}),
            retries=job.attempt - 1,
            called_directly=False,
            hostname=job.worker,
            delivery_info={"routing_key": job.queue, "priority": job.priority},
        )

    def retry(
        self,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        exc: BaseException | None = None,
        throw: bool = True,
        eta: datetime | None = None,
        countdown: float | timedelta | None = None,
        max_retries: int | None = None,
        **options: object,
    ) -> NoReturn:
        """End this attempt, and try again later. In the last one raise `exc`, or `MaxRetriesExceededError`."""
        if args is not None or kwargs is not None or options or not throw:
            raise InvalidOption("retry", "cannot change the arguments or options, or return; enqueue another job")
        most = self.max_retries if max_retries is None else max_retries
        if most is not None and self.request.retries >= most:
            raise exc or MaxRetriesExceededError(f"{self.name}: {most} retries")
        reason = str(exc) if exc is not None else ""
        if eta is not None:
            raise Retry(run_at=aware(eta), reason=reason) from exc
        delay = self.settings.default_retry_delay if countdown is None else countdown
        raise Retry(delay=delay, reason=reason) from exc

    def update_state(self, task_id: str | None = None, state: str | None = None, meta: object = None) -> None:
        """Record a state and its data, which `AsyncResult.state` and `info` return while the job runs.

            self.update_state(state="PROGRESS", meta={"current": 3, "total": 10})

        As JSON, both may have 500 characters.
        """
        call = running.get()
        if call is None:
            raise InvalidOption("update_state", "works inside a task that runs")
        if task_id not in (None, self.request.id):
            raise InvalidOption("task_id", f"must be that of the job that runs, got {task_id!r}")
        call.state = (state or states.STARTED, meta)
        text = msgspec.json.encode({"state": call.state[0], "meta": packed(meta)}).decode()
        if len(text) > DETAIL_LENGTH:
            raise InvalidOption("meta", f"must have at most {DETAIL_LENGTH} characters as JSON, got {len(text)}")
        if call.request is None:
            current().progress(_share(meta), text)

    # enqueueing

    def delay(self, *args: object, **kwargs: object) -> AsyncResult | EagerResult:
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Sequence[object] | None = None, kwargs: Mapping[str, object] | None = None, **options: object
    ) -> AsyncResult | EagerResult:
        """Enqueue a call: `countdown` or `eta`, `expires`, `queue`, `priority`, `time_limit`, `link`, `link_error`.

        `connection` enqueues it in your transaction. With the setting `task_always_eager` the call runs now.
        """
        result = self.s().apply_async(args, kwargs, **options)
        assert isinstance(result, AsyncResult | EagerResult)
        return result

    def delay_on_commit(self, *args: object, **kwargs: object) -> None:
        self.apply_async_on_commit(args, kwargs)

    def apply_async_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """Enqueue a call in the surrounding transaction of Django: for an app with `jobs` of `rowcall.django`."""
        if queue_of(self.jobs).backend.surrounding is None:
            advice = "Celery(jobs=rowcall.django.jobs), whose jobs join the surrounding transaction"
            raise InvalidOption("on_commit", f"needs {advice}; see docs/from-celery.md")
        self.apply_async(*args, **kwargs)

    def apply(
        self, args: Sequence[object] | None = None, kwargs: Mapping[str, object] | None = None, **options: Any
    ) -> EagerResult:
        """Run a call here and now, with its retries. What it raises is raised by `get()` of the result.

        `throw=True`, and the setting `task_eager_propagates`, raise it at once.
        """
        result = self.s().apply(args, kwargs, **options)
        assert isinstance(result, EagerResult)
        return result

    def run_eagerly(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        takes: Takes | None = None,
        failed: FailedCall | None = None,
    ) -> EagerResult:
        """`apply`, without what follows."""
        self.app.check_options()
        self._check(args, kwargs, takes)
        if takes == "error":
            args = [*errback_arguments(self.run, failed, args, kwargs), *args]
        request = eager_request(self.name, args, kwargs)
        while True:
            call = RunningCall(self, request)
            try:
                return EagerResult(request, self._traced(call, args, kwargs, takes))
            except Retry as error:
                request.retries += 1
                if request.retries > MOST_EAGER_RETRIES:
                    return EagerResult(request, error.__cause__ or error, states.FAILURE)
            except Ignore as error:
                state, value = call.state or (states.IGNORED, error)
                return EagerResult(request, value, state)
            except Reject as error:
                return EagerResult(request, error, states.REJECTED)
            except Cancel as error:
                return EagerResult(request, error, states.REVOKED)
            except Exception as error:
                return EagerResult(request, error, states.FAILURE)

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
        self.app.check_options()
        self._check(args, kwargs, takes)
        ours = our_options({**self._defaults(), **options})
        if takes in ("error", "failure"):
            ours["on_blocker_failure"] = "run"
        return self.task.using(**ours).bind(packed(list(args)), packed(dict(kwargs)), takes)

    def _defaults(self) -> dict[str, object]:
        """Return the options of all calls, which those of the task and of one call override."""
        conf, settings = self.app.conf, self.settings
        found = {"queue": conf.task_default_queue, "time_limit": conf.task_time_limit, **self.app.route(self.name)}
        return {name: value for name, value in found.items() if getattr(settings, name, None) is None}

    def _check(self, args: Sequence[object], kwargs: Mapping[str, object], takes: Takes | None) -> None:
        signature = inspect.signature(self.run)
        try:
            if takes == "map" or takes == "starmap":
                items: Any = args[0]
                for item in items:
                    signature.bind(*(item if takes == "starmap" else (item,)))
            elif takes == "error":
                errback_arguments(self.run, None, args, kwargs)
            else:
                signature.bind(*([None] if takes in ("one", "all") else []), *args, **kwargs)
        except TypeError as error:
            raise InvalidArguments(self.name, str(error)) from error

    def s(self, *args: object, **kwargs: object) -> Signature:
        """Return the call as a value, for chains and groups: its first argument may be the result of the one before."""
        return Signature(self, args, kwargs)

    def si(self, *args: object, **kwargs: object) -> Signature:
        """`s`, without the result of the call before."""
        return Signature(self, args, kwargs, immutable=True)

    def signature(
        self,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        immutable: bool = False,
        **options: object,
    ) -> Signature:
        """`s`, with the arguments as a tuple and a dict, and with options: `add.signature((1, 2), countdown=10)`."""
        return Signature(self, args or (), kwargs, options, immutable)

    subtask = signature

    def map(self, items: Iterable[object]) -> Spread:
        """Return one job that calls the function with each item, and whose result is the list of what it returns."""
        return Spread(self, [*items], "map")

    def starmap(self, items: Iterable[Iterable[object]]) -> Spread:
        """`map`, with items that are the arguments of a call: `add.starmap([(1, 2), (3, 4)])`."""
        return Spread(self, [[*item] for item in items], "starmap")

    def chunks(self, items: Iterable[Iterable[object]], n: int) -> group:
        """Return a group of `starmap`, of `n` items each: `add.chunks(zip(range(100), range(100)), 10)`."""
        given = [[*item] for item in items]
        return group(Spread(self, given[start : start + n], "starmap") for start in range(0, len(given), n))

    def AsyncResult(self, task_id: str | int) -> AsyncResult:  # noqa: N802 (Celery's name)
        return AsyncResult(task_id, self.app.jobs)


def _info(error: BaseException) -> ExceptionInfo:
    info = ExceptionInfo("".join(traceback.format_exception(drop_callers(error))))
    info.exception = error
    return info


def _ignored(call: RunningCall) -> object:
    """Return or raise what `update_state` said before the task raised `Ignore`."""
    state, meta = call.state or (states.IGNORED, None)
    if state == states.SUCCESS:
        return meta
    if state == states.FAILURE:
        raise Fail("CELERY:FAILURE", str(meta))
    raise Cancel("ignored")


def _share(meta: object) -> float:
    """Return how much is done, if the data say so as Celery's documentation does: `current` of `total`."""
    match meta:
        case {"current": int() | float() as done, "total": int() | float() as total} if total > 0:
            return min(max(done / total, 0.0), 1.0)
    return 0.0
