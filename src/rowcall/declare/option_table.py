"""The options of a task and of an enqueue: what type checkers see, and how each is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Literal, Required, TypedDict, TypeVar

import msgspec

from rowcall.base.times import time_of
from rowcall.declare import option_checks as check
from rowcall.declare.middleware import AnyMiddleware, checked_several
from rowcall.domain import checks
from rowcall.domain.backoff import Backoff, RetryPolicy, backoff_to_text
from rowcall.domain.checks import Option, options_of
from rowcall.domain.config import Config
from rowcall.domain.defaults import TaskDefaults
from rowcall.domain.errors import InvalidOption, moment_ms, unknown_option
from rowcall.domain.fairness import Weight, checked_argument, checked_weight
from rowcall.domain.job import Chain, Job
from rowcall.domain.limits import Limit
from rowcall.domain.push import PushOptions, checked_target
from rowcall.domain.retention import Retention
from rowcall.store.new_job import Awaited, KeyOf, NewJob
from rowcall.store.queries.flows import Unique

T = TypeVar("T")

DEFAULT_MAX_ATTEMPTS = 5
DEFAULT_BATCH_WAIT_SECONDS = 0.1


class Editable(TypedDict, total=False):
    """Each option with its check, and the field of `Options` if that has another name."""

    queue: Annotated[str, checks.queue]
    priority: Annotated[int, checks.whole(-(2**31), 2**31 - 1)]
    delay: Annotated[float | timedelta, check.milliseconds, "delay_ms"]
    max_attempts: Annotated[int, checks.whole(1, 1_000_000)]
    timeout: Annotated[float | timedelta, check.timeout, "timeout_seconds"]
    expires_in: Annotated[float | timedelta, check.milliseconds, "expires_in_ms"]
    tags: Annotated[Iterable[str], check.tags]


class Common(Editable, total=False):
    key: Annotated[str | KeyOf, check.key]
    key_scope: Annotated[Literal["active", "waiting", "any"], checks.one_of("active", "waiting", "any")]
    key_window: Annotated[float | timedelta, check.window, "key_window_ms"]
    on_duplicate: Annotated[Literal["return", "replace", "raise"], checks.one_of("return", "replace", "raise")]
    keep_run_at: Annotated[bool, checks.boolean]
    longest_delay: Annotated[float | timedelta, check.window, "longest_delay_ms"]
    deadline: Annotated[float | timedelta, check.window, "deadline_ms"]
    on_blocker_failure: Annotated[Literal["fail", "run", "wait"], checks.one_of("fail", "run", "wait")]
    limit: Annotated[Limit | Sequence[Limit], check.limits, "limits"]
    target: Annotated[str, checked_target]


class TaskOptions(Common, total=False):
    """The options of `@jobs.task(...)`."""

    name: Annotated[str, checks.name]
    aliases: Annotated[Iterable[str], check.aliases]
    on: Annotated[str | Iterable[str], check.events]
    retry: Annotated[RetryPolicy, check.retry]
    retention: Annotated[Retention, check.retention]
    isolation: Annotated[Literal["thread", "process"], check.isolation, "isolated"]
    memory_limit: Annotated[int | str, check.memory_limit]
    middleware: Annotated[Iterable[AnyMiddleware], checked_several]
    fair_by: Annotated[str, checked_argument]
    weight: Annotated[Mapping[str, int] | Mapping[int, int] | Callable[..., int], checked_weight]
    ordered_by: Annotated[str, checked_argument]
    on_failure: Annotated[Literal["skip", "block"], checks.one_of("skip", "block")]


class BatchOptions(TaskOptions, total=False):
    """The options of `@jobs.task(batch=...)`, whose function takes a list."""

    batch: Annotated[Required[int], checks.whole(1, 1000)]
    batch_wait: Annotated[float | timedelta, check.batch_wait, "batch_wait_seconds"]


class EditOptions(Editable, total=False):
    """The options of `jobs.edit(...)`."""

    retry: Annotated[Backoff, check.retry]
    run_at: Annotated[datetime, moment_ms, "run_at_ms"]
    expires_at: Annotated[datetime, moment_ms, "expires_at_ms"]


class EnqueueOptions(EditOptions, Common, total=False):
    """The options of `task.using(...)` and `jobs.enqueue(...)`."""

    after: Annotated[Job | Chain | int | Iterable[Job | Chain | int], check.after]
    connection: Annotated[object, checks.anything]
    detach: Annotated[bool, checks.boolean]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options after they were checked; None means not given."""

    name: str | None = None
    aliases: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    queue: str | None = None
    priority: int | None = None
    delay_ms: int | None = None
    run_at_ms: int | None = None
    max_attempts: int | None = None
    retry: RetryPolicy | None = None
    timeout_seconds: float | None = None
    expires_in_ms: int | None = None
    expires_at_ms: int | None = None
    tags: tuple[str, ...] | None = None
    connection: object = None
    retention: Retention | None = None
    isolated: bool = False
    memory_limit: int | None = None
    batch: int | None = None
    batch_wait_seconds: float = DEFAULT_BATCH_WAIT_SECONDS
    key: str | KeyOf | None = None
    key_scope: str | None = None
    key_window_ms: int | None = None
    on_duplicate: str | None = None
    keep_run_at: bool | None = None
    longest_delay_ms: int | None = None
    deadline_ms: int | None = None
    after: tuple[Awaited, ...] = ()
    on_blocker_failure: str | None = None
    limits: tuple[Limit, ...] | None = None
    middleware: tuple[AnyMiddleware, ...] = ()
    target: str | None = None
    fair_by: str | None = None
    weight: Weight | None = None
    ordered_by: str | None = None
    on_failure: str | None = None
    detach: bool | None = None


TASK_OPTIONS, ENQUEUE_OPTIONS = options_of(BatchOptions), options_of(EnqueueOptions)

_NOT_TOGETHER = (("run_at", "delay"), ("expires_at", "expires_in"), ("keep_run_at", "longest_delay"))


def checked(options: Mapping[str, object], allowed: Mapping[str, Option]) -> Options:
    """Return the options given, or raise `InvalidOption` for the first that is unknown or has a wrong value."""
    fields: dict[str, object] = {}
    for name, value in options.items():
        if name not in allowed:
            raise _unknown(name, allowed)
        if value is not None:
            fields[allowed[name].field] = allowed[name].check(name, value)
    for one, other in _NOT_TOGETHER:
        if options.get(one) is not None and options.get(other) is not None:
            raise InvalidOption(one, f"cannot be combined with {other}")
    if allowed is TASK_OPTIONS:
        _check_task(fields)
    elif callable(options.get("retry")):
        raise InvalidOption("retry", "must be a Backoff; a callable goes into task(retry=…), as a row cannot hold it")
    return Options(**fields)  # type: ignore[arg-type]


def as_given(options: Options) -> EnqueueOptions:
    """Return checked options in the form in which callers pass them, except for `after` and `connection`."""
    passed: dict[str, object] = {}
    for name, option in ENQUEUE_OPTIONS.items():
        field = option.field
        value = getattr(options, field)
        if value is None or name in ("after", "connection"):
            continue
        passed[name] = time_of(value) if name.endswith("_at") else value / 1000 if field.endswith("_ms") else value
    return passed  # type: ignore[return-value]


def _check_task(fields: Mapping[str, object]) -> None:
    if fields.get("batch") is not None and fields.get("isolated"):
        raise InvalidOption("batch", "cannot be combined with isolation='process'")
    if "batch_wait_seconds" in fields and fields.get("batch") is None:
        raise InvalidOption("batch_wait", "needs batch=…, the largest number of jobs in one call")
    if fields.get("memory_limit") is not None and not fields.get("isolated"):
        raise InvalidOption("memory_limit", "needs isolation='process': a thread shares the memory of its worker")
    if fields.get("target") is not None and (fields.get("batch") is not None or fields.get("isolated")):
        raise InvalidOption(
            "target", "cannot be combined with batch=… or isolation='process': the worker only delivers the jobs"
        )
    if fields.get("weight") is not None and fields.get("fair_by") is None:
        raise InvalidOption("weight", "needs fair_by=…, the argument whose values have weights")
    if fields.get("on_failure") is not None and fields.get("ordered_by") is None:
        raise InvalidOption(
            "on_failure",
            "needs ordered_by=…: it says whether a failed job holds the later ones back; for a function that is called"
            " at the end, use @task.on_failure",
        )


def _unknown(name: str, allowed: Mapping[str, Option]) -> InvalidOption:
    if name in TASK_OPTIONS:
        problem = f"{name} is an option of task({name}=…), not of a single job"
    elif name in ENQUEUE_OPTIONS:
        problem = f"{name} is an option of using({name}=…) and jobs.enqueue(…), not of a task"
    else:
        return unknown_option(name, allowed)
    return InvalidOption(name, problem, message=problem)


def checked_edit(options: Mapping[str, object]) -> Options:
    """Return the options given, or raise `InvalidOption` for one that cannot be changed after the enqueue."""
    for name in options:
        if name in ENQUEUE_OPTIONS and name not in EditOptions.__annotations__:
            raise InvalidOption(name, "cannot be changed after the job was enqueued")
    return checked(options, ENQUEUE_OPTIONS)


def option_hint(name: str) -> str:
    """Return where an option goes that was given as an argument, or an empty text."""
    return f"; options go into using({name}=…)" if name in ENQUEUE_OPTIONS else ""


def new_job(task: str, declared: Options, options: Options, config: Config) -> NewJob:
    """Return what is written of a job: options given, else those of its task, else the defaults."""
    queue = _first(options.queue, declared.queue, config.default_queue)
    run_at_given = options.run_at_ms is not None
    expiry_given = options.expires_at_ms is not None
    tags = [*dict.fromkeys([*(declared.tags or ()), *(options.tags or ())])]
    unique = _unique(declared, options)
    key = _given(options.key, declared.key)
    delay_ms = 0 if run_at_given else _first(options.delay_ms, declared.delay_ms, 0)
    if unique is not None and unique.longest_delay_ms is not None and delay_ms > unique.longest_delay_ms:
        raise InvalidOption("longest_delay", f"must be at least the delay, {delay_ms / 1000:g} s")
    return NewJob(
        type=task,
        queue=queue,
        priority=_first(options.priority, declared.priority, 0),
        max_attempts=_first(options.max_attempts, declared.max_attempts, attempts_of(config.defaults, queue)),
        run_at_ms=options.run_at_ms,
        delay_ms=delay_ms,
        expires_at_ms=options.expires_at_ms,
        expires_in_ms=None if expiry_given else _given(options.expires_in_ms, declared.expires_in_ms),
        timeout_seconds=options.timeout_seconds,
        retry=backoff_to_text(options.retry) if isinstance(options.retry, Backoff) else None,
        tags=msgspec.json.encode(tags).decode() if tags else None,
        key=key if isinstance(key, str) else None,
        key_of=key if callable(key) else None,
        unique=unique,
        after=options.after,
        on_blocker_failure=_first(options.on_blocker_failure, declared.on_blocker_failure, "fail"),
        target=options.target,
        deadline_ms=_given(options.deadline_ms, declared.deadline_ms),
        detached=1 if options.detach else None,
    )


def check_push(task: str, declared: Options, options: Options, push: PushOptions | None) -> None:
    """Raise `InvalidOption` if the job would be delivered to a target, and this cannot be done."""
    target = options.target or declared.target
    if target is None:
        return
    if declared.batch is not None:
        raise InvalidOption("target", f"cannot be given for {task!r}, which runs in batches")
    if push is None:
        raise InvalidOption("target", "needs a secret that signs the requests: Rowcall(push=PushOptions(secrets=[…]))")
    if (problem := push.problem_of(target)) is not None:
        raise InvalidOption("target", problem)


def attempts_of(defaults: TaskDefaults | None, queue: str) -> int:
    return (defaults.of(queue).max_attempts if defaults is not None else None) or DEFAULT_MAX_ATTEMPTS


def _unique(declared: Options, options: Options) -> Unique | None:
    """Return what counts as a duplicate, or None without a key."""
    scope = _given(options.key_scope, declared.key_scope)
    window_ms = _given(options.key_window_ms, declared.key_window_ms)
    on_duplicate = _given(options.on_duplicate, declared.on_duplicate)
    keep_run_at, longest_delay_ms = _kept_time(declared, options)
    if options.key is declared.key is None:
        ruled = {"key_scope": scope, "key_window": window_ms, "on_duplicate": on_duplicate}
        for option, value in {**ruled, "keep_run_at": keep_run_at, "longest_delay": longest_delay_ms}.items():
            if value:
                raise InvalidOption(option, "has no effect without a key; add key=…")
        return None
    if on_duplicate == "replace" and options.after:
        raise InvalidOption("after", 'cannot be combined with on_duplicate="replace": a waiting job keeps its blockers')
    if on_duplicate != "replace" and (keep_run_at or longest_delay_ms is not None):
        option = "keep_run_at" if keep_run_at else "longest_delay"
        raise InvalidOption(option, 'has no effect without on_duplicate="replace"')
    return Unique(
        scope=scope or "active",
        window_ms=window_ms,
        on_duplicate=on_duplicate or "return",
        keep_run_at=bool(keep_run_at),
        longest_delay_ms=longest_delay_ms,
    )


def _kept_time(declared: Options, options: Options) -> tuple[bool | None, int | None]:
    """Return `keep_run_at` and `longest_delay`: one option of a call replaces the other one of its task."""
    if options.keep_run_at is None and options.longest_delay_ms is None:
        return declared.keep_run_at, declared.longest_delay_ms
    return options.keep_run_at, options.longest_delay_ms


def _given(given: T | None, declared: T | None) -> T | None:
    return given if given is not None else declared


def _first(given: T | None, declared: T | None, default: T) -> T:
    return given if given is not None else declared if declared is not None else default
